#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the programs and attacks them for a while: spoilt files, failing system calls, hostile options and descriptors, random
# networks by threads, ranks and resumes, single steps against NumPy. docs/developer/testing.md says what counts as found.
#   tools/dev/attack.sh --minutes N [--seed S] [--kind K]... [--jobs J] [--sanitized]
#   tools/dev/attack.sh --seed S --kind K --case N [--sanitized]      one case again
# --sanitized builds and attacks the preset asan. What is found is kept in build/attack; the exit code is 1 then.
set -euo pipefail
cd "$(dirname "$0")/../.."

preset=cpu
arguments=()
for option in "$@"; do
  case "$option" in
    --sanitized) preset=asan ;;
    -h | --help)
      sed -n 's/^#   /  /p' "$0"
      /usr/bin/python3 -B tests/attack/attack.py --help
      exit 0
      ;;
    *) arguments+=("$option") ;;
  esac
done

[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" > /dev/null
cmake --build --preset "$preset" --target trainer importer evaluator predictor failing_calls > "build/attack_$preset.log" 2>&1 ||
  { tail -n 40 "build/attack_$preset.log"; exit 2; }
if [ "$preset" = asan ]; then
  export NORN_SANITIZE=address,undefined
fi
export NORN_BIN=$PWD/build/$preset/bin
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
echo "preset $preset, commit $(git rev-parse --short HEAD)"
exec /usr/bin/python3 -B tests/attack/attack.py "${arguments[@]}"
