#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the preset cpu several times side by side, each time with processes, network, host name, /tmp and files of its own
# over this tree as it was built: what one suite leaves behind, or finds of another one, no other sees. For a machine of many cores.
#   tools/dev/repeat_suite.sh [--times N] [--cores C] [--jobs J] [--root FOLDER] [--out FOLDER] [OPTION OF ctest...]
#     --times  suites [10]
#     --cores  of each; the next one has the next ones, round the machine [3]
#     --jobs   tests at the same time in each [4]
#     --root   a system in which this tree stands at the same place, such as one that was packed elsewhere [/]
#     --out    for what each said [a new folder in /tmp]
# As root. A test that fails by its seed or beside others fails in some of them. Ends with 1 where one did.
set -euo pipefail

# shellcheck source=tools/dev/usage.sh
. "$(dirname "$0")/usage.sh"
times=10 cores=3 jobs=4 root=/ out=""
while [ "$#" -gt 0 ]; do
  case "$1" in
    --times) times=$2; shift ;;
    --cores) cores=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --root) root=$2; shift ;;
    --out) out=$2; shift ;;
    -h | --help) show_usage "$@" ;;
    *) break ;;
  esac
  shift
done
[ "$(id -u)" -eq 0 ] || { echo "repeat_suite.sh: namespaces and overlays need root" >&2; exit 2; }
tree=$(realpath "$(dirname "$0")/../..")
out=$(realpath -m "${out:-$(mktemp -d)}")
layers=$(mktemp -d)
mkdir -p "$out"
mount -t tmpfs tmpfs "$layers"
trap 'umount -R -l "$layers"; rmdir "$layers"' EXIT

# What runs as process 1 of a suite, and takes up whatever its tests leave behind.
cat > "$layers/suite.sh" << 'SUITE'
root=$1 cores=$2 jobs=$3 tree=$4 said=$5
shift 5
hostname localhost  # which the system can resolve
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t sysfs sys "$root/sys"
for folder in /dev/shm /tmp; do mount -t tmpfs -o mode=1777 tmpfs "$root$folder"; done
chroot "$root" ip link set lo up || true
taskset -c "$cores" chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  sh -c 'cd "$1" && shift && exec ctest --preset cpu "$@"' sh "$tree" -j "$jobs" "$@" > "$said" 2>&1 &
wait $!
SUITE

running=()
for number in $(seq "$times"); do
  own=$layers/$number
  mkdir -p "$own/upper" "$own/work" "$own/root"
  mount -t overlay overlay -o "lowerdir=$root,upperdir=$own/upper,workdir=$own/work" "$own/root"
  first=$(((number - 1) * cores % $(nproc)))
  last=$((first + cores - 1))
  [ "$last" -lt "$(nproc)" ] || last=$(($(nproc) - 1))
  unshare --mount --pid --net --uts --ipc --fork bash "$layers/suite.sh" "$own/root" "$first-$last" "$jobs" "$tree" \
    "$out/$number.log" "$@" < /dev/null > "$out/$number.err" 2>&1 &
  running+=($!)
done

failed=no
for number in $(seq "$times"); do
  wait "${running[$((number - 1))]}" || failed=yes
  echo "$number: $(grep -h 'tests passed' "$out/$number.log" || tail -n 1 "$out/$number.err"), $(grep -h 'Total Test time' "$out/$number.log")"
  grep -E '\*\*\*(Failed|Timeout|Exception)' "$out/$number.log" || true
  log=$layers/$number/root$tree/build/cpu/Testing/Temporary/LastTest.log
  [ ! -e "$log" ] || cp "$log" "$out/$number.tests.log"
done
echo "what they said: $out"
[ "$failed" = no ]
