#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the GPU's test programs plainly and under compute-sanitizer; a skipped test is a failure here. See --help.
set -euo pipefail

usage() {
  cat << 'TEXT'
usage: tools/dev/gpu_check.sh [options] [PROGRAM...]

Runs each test program once plainly, all of its tests, then under compute-sanitizer's memcheck, racecheck and initcheck
(without the engine's memory pool, so that every array is an allocation of its own). Prints a table of what was run.
Exit code 1 when anything failed, was skipped, missing or ran out of time; 2 for the command line; 3 without a GPU.

  PROGRAM           a path, or a name in build/cuda/bin or PATH; NAME:PRECISION runs it plainly in that precision alone
                    [kernels_cuda_test cuda_test engine_cuda_test engine_cuda_test:tf32 engine_cuda_test:bf16
                    rows_cuda_test rows_cuda_test:tf32 rows_cuda_test:bf16 fused_cuda_test repeats_cuda_test]
  --tools T,T,...   plain, memcheck, racecheck, initcheck, synccheck [plain,memcheck,racecheck,initcheck]
  --filter PATTERN  Google Test filter of the sanitizers' runs, which take 10 to 100 times as long [all tests]
  --shard I/N       the sanitizers run the I-th of N parts of the tests, I from 0
  --limit SECONDS   of one run [600]
  --out FOLDER      for the logs and the table (summary.txt) [a new folder in /tmp]

Needs bash, coreutils, grep and sed, and compute-sanitizer in PATH or /usr/local/cuda/bin. Works from an unpacked
archive of tools/dev/bundle.sh.
TEXT
}
fail() {
  echo "gpu_check.sh: $1" >&2
  exit "${2:-2}"
}
need_value() { [ "$#" -ge 2 ] || fail "$1 needs a value"; }

programs=() tools=plain,memcheck,racecheck,initcheck filter='*' shard="" limit=600 out=""
while [ "$#" -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --tools) need_value "$@"; tools=$2; shift ;;
    --filter) need_value "$@"; filter=$2; shift ;;
    --shard) need_value "$@"; shard=$2; shift ;;
    --limit) need_value "$@"; limit=$2; shift ;;
    --out) need_value "$@"; out=$2; shift ;;
    -*) fail "unknown option '$1'; see --help" ;;
    *) programs+=("$1") ;;
  esac
  shift
done
[ "${#programs[@]}" -gt 0 ] || programs=(kernels_cuda_test cuda_test engine_cuda_test engine_cuda_test:tf32 \
  engine_cuda_test:bf16 rows_cuda_test rows_cuda_test:tf32 rows_cuda_test:bf16 fused_cuda_test repeats_cuda_test)
[[ "$limit" =~ ^[1-9][0-9]*$ ]] || fail "--limit must be a number of seconds, not '$limit'"
if [ -n "$shard" ]; then
  if ! [[ "$shard" =~ ^(0|[1-9][0-9]*)/([1-9][0-9]*)$ ]] || [ "${shard%/*}" -ge "${shard#*/}" ]; then
    fail "--shard must be I/N with I from 0 to N - 1, not '$shard'"
  fi
fi
for tool in ${tools//,/ }; do
  case $tool in
    plain | memcheck | racecheck | initcheck | synccheck) ;;
    *) fail "--tools: '$tool' is none of plain, memcheck, racecheck, initcheck, synccheck" ;;
  esac
done
[ -n "${tools//,/}" ] || fail "--tools names no tool"

gpus=$(nvidia-smi -L 2> /dev/null | grep '^GPU ' || true)
[ -n "$gpus" ] || fail "there is no GPU here (nvidia-smi lists none); nothing was checked" 3
sanitizer=$(command -v compute-sanitizer || true)
[ -n "$sanitizer" ] || [ ! -x /usr/local/cuda/bin/compute-sanitizer ] || sanitizer=/usr/local/cuda/bin/compute-sanitizer
if [ -z "$sanitizer" ] && [ "${tools//,/}" != plain ]; then
  fail "compute-sanitizer is neither in PATH nor in /usr/local/cuda/bin; --tools plain does without it"
fi
[ -n "$out" ] || out=$(mktemp -d /tmp/gpu_check.XXXXXX)
mkdir -p "$out"

# find_program NAME: its path.
here=$(cd "$(dirname "$0")" && pwd)
find_program() {
  local candidate
  for candidate in "$1" "build/cuda/bin/$1" "$here/../../build/cuda/bin/$1" "$here/../bin/$1"; do
    if [[ "$candidate" == */* ]] && [ -f "$candidate" ] && [ -x "$candidate" ]; then
      echo "$candidate"
      return
    fi
  done
  command -v -- "$1"
}

# number PATTERN LOG: the number that the line with this pattern gives, of the last such line; 0 without one.
number() {
  local found
  found=$(sed -n "s/$1/\1/p" "$2" | tail -n 1)
  echo "${found:-0}"
}

# Kernels of the BLAS library, which nobody here can mend. The sanitizer does not see what their asynchronous copies write
# and wait for, and reports their split sums as races and as reads of memory that was never written.
library='nvjet_|cublas|cutlass|xmma_gemm|splitKreduce'
# reports LOG: the lines of a sanitizer's log that name the kernel of a report.
reports() { grep -E '^=+ +(at |Error: Race reported|Warning: Race reported)' "$1" || true; }

# outcome TOOL STATUS LOG: what a run has come to, in words; "ok" when there is nothing to say against it.
outcome() {
  local failed skipped disabled words=()
  failed=$(number '^\[  FAILED  \] \([0-9]*\) tests\{0,1\}, listed below.*' "$3")
  skipped=$(number '^\[  SKIPPED \] \([0-9]*\) tests\{0,1\}, listed below.*' "$3")
  disabled=$(number '^ *YOU HAVE \([0-9]*\) DISABLED TEST.*' "$3")
  [ "$failed" -eq 0 ] || words+=("$failed failed")
  [ "$skipped" -eq 0 ] || words+=("$skipped skipped")
  [ "$disabled" -eq 0 ] || words+=("$disabled disabled")
  if [ "$2" -eq 124 ] || [ "$2" -eq 137 ]; then
    words+=("time limit of $limit s")
  elif [ "$(number '^\[==========\] \([0-9]*\) tests\{0,1\} from .* ran\..*' "$3")" -eq 0 ]; then
    words+=("no test ran to the end")
  fi
  if [ "$1" != plain ]; then
    # Without its summary the sanitizer has not looked: it refuses some machines.
    if ! grep -q '^=* *[A-Z]* SUMMARY: ' "$3"; then
      words+=("no summary of $1")
    elif ! grep -Eq '^=* *([A-Z]+ SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)' "$3" &&
      { [ "$1" = memcheck ] || [ -z "$(reports "$3")" ] || reports "$3" | grep -qvE "$library"; }; then
      words+=("$(sed -n 's/^=* *[A-Z]* SUMMARY: //p' "$3" | tail -n 1)")
    fi
  fi
  # 99 is the sanitizer's, for reports that were looked at above.
  [ "${#words[@]}" -gt 0 ] || [ "$2" -eq 0 ] || { [ "$1" != plain ] && [ "$2" -eq 99 ]; } || words+=("exit code $2")
  local text
  text=$(printf ', %s' "${words[@]:-ok}")
  echo "${text#, }"
}

table=()
failures=0
# note PROGRAM TOOL TESTS SECONDS RESULT: a line of the table, printed at once too.
note() {
  local line
  line=$(printf '%-28s %-10s %6s %8s  %s' "$@")
  table+=("$line")
  echo "$line"
  [ "$5" = ok ] || failures=$((failures + 1))
}

# check NAME[:PRECISION] PATH TOOL
check() {
  local log="$out/${1/:/.}.$3.log" started=$SECONDS status=0 result
  local command=("$2" --gtest_color=no --gtest_brief=0)
  local environment=()
  [[ "$1" != *:* ]] || environment=("NORN_TEST_PRECISION=${1##*:}")
  if [ "$3" != plain ]; then
    # Every call's result is checked by the program itself, which expects some to fail: updates of graphs.
    local options=(--tool "$3" --error-exitcode 99 --report-api-errors no)
    case $3 in
      # All reports without their stacks, so that outcome sees the kernel of each.
      racecheck | initcheck) options+=(--print-limit 0 --show-backtrace no) ;;
      *) options+=(--print-limit 20) ;;
    esac
    # A block's barriers in shared memory; left to itself the tool may follow too few, and then sees races.
    [[ "$3" != racecheck && "$3" != synccheck ]] || options+=(--num-cuda-barriers 64)
    command=("$sanitizer" "${options[@]}" "${command[@]}" "--gtest_filter=$filter")
    environment=(NORN_CUDA_POOL=off NORN_TEST_REPEATS=2)
    [ -z "$shard" ] || environment+=("GTEST_SHARD_INDEX=${shard%/*}" "GTEST_TOTAL_SHARDS=${shard#*/}")
  fi
  env -u GTEST_FILTER "${environment[@]}" timeout -k 10 "$limit" "${command[@]}" > "$log" 2>&1 || status=$?
  result=$(outcome "$3" "$status" "$log")
  note "$1" "$3" "$(number '^\[==========\] \([0-9]*\) tests\{0,1\} from .* ran\..*' "$log")" $((SECONDS - started)) "$result"
  [ "$result" = ok ] || { grep -E '^\[  (FAILED|SKIPPED) |^=========' "$log" || tail "$log"; } | head -n 25 | sed 's/^/    /'
}

echo "$gpus"
printf '%-28s %-10s %6s %8s  %s\n' program tool tests seconds result
for given in "${programs[@]}"; do
  name=$(basename -- "$given")
  if ! path=$(find_program "${given%:*}"); then
    note "$name" - - - "not found"
    continue
  fi
  for tool in ${tools//,/ }; do
    [[ "$given" != *:* || "$tool" = plain ]] || continue
    check "$name" "$path" "$tool"
  done
done

{
  echo "$gpus"
  printf '%-28s %-10s %6s %8s  %s\n' program tool tests seconds result
  printf '%s\n' "${table[@]}"
} > "$out/summary.txt"
echo
cat "$out/summary.txt"
if [ "$failures" -gt 0 ]; then
  echo "gpu_check: $failures of ${#table[@]} runs FAILED; logs in $out"
  exit 1
fi
echo "gpu_check: ${#table[@]} runs, all ok; logs in $out"
