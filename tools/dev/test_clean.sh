#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Follows README.md in a bare Debian 12 (debootstrap: git, ca-certificates, python3-venv): dependencies, pip install ., its lines of
# Python, then tools/test.sh. Says how long each took. As root; 6 GB, the network, and an hour of two cores.
#   tools/dev/test_clean.sh FOLDER     keeps the system there, and what was said in FOLDER.log
set -euo pipefail

# shellcheck source=tools/dev/usage.sh
. "$(dirname "$0")/usage.sh"
case "${1:-}" in "" | -*) show_usage "$@" ;; esac
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap > /dev/null; then
  echo "SKIPPED: a bare system needs root and debootstrap (apt-get install debootstrap)"
  exit 0
fi
tree=$(realpath "$(dirname "$0")/../..") root=$(realpath -m "$1")
[ ! -e "$root" ] || { echo "test_clean.sh: $root is there already" >&2; exit 2; }
debootstrap --variant=minbase --include=ca-certificates,git,python3-venv bookworm "$root" http://deb.debian.org/debian > "$root.log"
# How this machine reaches the network, and no daemons
cp /etc/resolv.conf /etc/hosts /etc/hostname "$root/etc/"
cp -L --remove-destination /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
git clone --quiet --bare "$tree" "$root/root/norn.git"

cat > "$root/root/follow.sh" << 'FOLLOW'
timed() {
  local started=$SECONDS status=0
  "$@" || status=$?
  printf '%5d s, exit code %d: %s\n' $((SECONDS - started)) "$status" "$*" | tee -a /root/times
  return "$status"
}
set -euo pipefail
cd /root
git clone --quiet norn.git norn
cd norn
timed tools/install_dependencies.sh
timed python3 -m venv ../venv
. ../venv/bin/activate
timed pip install --quiet .
sed -n '/^```python$/,/^```$/{/^```/!p}' README.md > ../readme.py
timed python ../readme.py
deactivate
timed tools/test.sh
FOLLOW
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount --rbind /dev "$root/dev"
trap 'umount -R -l "$root/dev" "$root/sys" "$root/proc"' EXIT
status=0
chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
  PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash /root/follow.sh >> "$root.log" 2>&1 || status=$?
cat "$root/root/times"
[ "$status" -eq 0 ] || { echo "test_clean.sh: it did not come to its end; $root.log says why" >&2; exit 1; }
