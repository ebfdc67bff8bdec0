#!/usr/bin/env bash
# Writes docs/descriptor.md and configs/schema/network.schema.json from the program's table of keys.
# With --check nothing is written: exits 1 when one of them is stale.
# usage: tools/dev/write_reference.sh [--check] [build folder]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
check=no
if [ "${1:-}" = --check ]; then check=yes; shift; fi
program=${1:-$root/build/cpu}/bin/descriptor_reference
if [ ! -x "$program" ]; then
  echo "$program is missing; build the target descriptor_reference first" >&2
  exit 2
fi
stale=0
write() {  # what file
  local new
  new=$(mktemp)
  "$program" "$1" >"$new"
  if cmp -s "$new" "$root/$2"; then
    rm "$new"
  elif [ "$check" = yes ]; then
    echo "$2 is stale; run tools/dev/write_reference.sh" >&2
    rm "$new"
    stale=1
  else
    mkdir -p "$(dirname "$root/$2")"
    chmod 644 "$new"
    mv "$new" "$root/$2"
    echo "wrote $2"
  fi
}
write markdown docs/descriptor.md
write schema configs/schema/network.schema.json
exit $stale
