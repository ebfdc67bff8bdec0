#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Norn and PyTorch on the same GPU, the same networks and batches, in turn; prints a table and writes it as JSON.
#   tests/bench/compare_gpu.sh [--rows NAME,NAME] [--limit SECONDS] [--steps N] [--out FOLDER] [--ours | --peers] [--no-strong] [--list]
#     --rows    these rows only (--list names them); all by default, about 6 minutes
#     --limit   time for each program of a row [60]; what takes longer counts as failed
#     --steps   timed steps of the peers [12]
#     --out     where the reports go [build/bench/compare_gpu]
#     --ours, --peers   only that side
#     --no-strong   of the peers only the program that a user would write
# Needs train_bench and predict_bench (build/cuda/bin, else PATH) and a python3 with PyTorch and Triton for CUDA
# (another one: PYTHON=...). Peers run without dropout. A GPU that does nothing else gives better figures.
set -euo pipefail
cd "$(dirname "$0")/../.."

# name | options of train_bench (predict_bench for top100) | batches of the plain peer, first one that fits counts
rows=(
  "ml20m-tf32-SGD|--shape ml20m --precision tf32 --optimizer SGD --batch 1024|1024|eager,compile"
  "ml20m-bf16-Adam|--shape ml20m --precision bf16 --optimizer Adam --batch 1024|1024|eager,compile"
  "shop500k-tf32-SGD|--shape shop500k --precision tf32 --optimizer SGD --batch 1024|1024|eager,compile"
  "shop500k-bf16-Adam|--shape shop500k --precision bf16 --optimizer Adam --batch 1024|1024|eager,compile"
  "shop500k-bf16-Adam-8192|--shape shop500k --precision bf16 --optimizer Adam --batch 8192|8192|eager,compile"
  "shop10m-bf16-SGD|--shape shop10m --precision bf16 --optimizer SGD --batch 1024|1024 256|eager"
  "shop10m-bf16-Adam|--shape shop10m --precision bf16 --optimizer Adam --batch 1024|1024 256|eager"
  "top100||1024|"
)

wanted="" limit=60 steps=12 out=build/bench/compare_gpu sides="ours peers" strong=yes
usage() { sed -n '3,13s/^# \{0,1\}//p' "$0"; }
need_value() { [ "$#" -ge 2 ] || { echo "compare_gpu.sh: $1 needs a value" >&2; exit 2; }; }
while [ "$#" -gt 0 ]; do
  case "$1" in
    --rows) need_value "$@"; wanted=$2; shift ;;
    --limit) need_value "$@"; limit=$2; shift ;;
    --steps) need_value "$@"; steps=$2; shift ;;
    --out) need_value "$@"; out=$2; shift ;;
    --ours) sides="ours" ;;
    --peers) sides="peers" ;;
    --no-strong) strong=no ;;
    --list) printf '%s\n' "${rows[@]%%|*}"; exit 0 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "compare_gpu.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
for name in ${wanted//,/ }; do
  printf '%s\n' "${rows[@]%%|*}" | grep -qx -- "$name" || { echo "compare_gpu.sh: no row '$name'; see --list" >&2; exit 2; }
done

python=${PYTHON:-python3}
peers=tests/bench/peers
# program NAME: its path.
program() {
  if [ -x "build/cuda/bin/$1" ]; then echo "build/cuda/bin/$1"; else command -v "$1"; fi
}
# attempt LABEL COMMAND...: with the time limit; what it says is kept, and shown when it fails.
attempt() {
  local started=$SECONDS status=0
  timeout "$limit" "${@:2}" > "$out/$1.log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || tail -n 5 "$out/$1.log" >&2
  [ "$status" -ne 124 ] || echo '{"error": "time limit"}' >> "$out/$1.jsonl"
  printf '  %-40s %3d s%s\n' "$1" $((SECONDS - started)) "$([ "$status" -eq 0 ] || echo "  FAILED ($status)")"
  [ "$status" -eq 0 ] || failed=yes
}
# run_ours ROW PROGRAM OPTION...
run_ours() {
  local bench
  bench=$(program "$2") || { echo "  $2 is neither in build/cuda/bin nor in PATH"; failed=yes; return 0; }
  attempt "$1.ours" "$bench" "${@:3}" --json "$out/$1.ours.jsonl"
}
# run_peers ROW BATCHES VARIANTS OPTION...: of the plain peer; the strong one has the variants that it knows.
run_peers() {
  local row=$1 batch options=("${@:4}")
  for batch in $2; do
    attempt "$row.plain" "$python" "$peers/pytorch_gpu.py" "${options[@]}" --batch "$batch" --variant "$3" \
      --steps "$steps" --json "$out/$row.plain.jsonl"
    grep -q '"error"' "$out/$row.plain.jsonl" || break
  done
  [ "$strong" = yes ] || return 0
  attempt "$row.strong" "$python" "$peers/pytorch_strong.py" "${options[@]}" --variant blocks,overlap,fused \
    --steps "$steps" --json "$out/$row.strong.jsonl"
}

mkdir -p "$out"
failed=no
names=()
for row in "${rows[@]}"; do
  IFS='|' read -r name options batches variants <<< "$row"
  [ -z "$wanted" ] || [[ ",$wanted," == *",$name,"* ]] || continue
  names+=("$name")
  rm -f "$out/$name".*
  echo "$name  [$((SECONDS / 60)) min $((SECONDS % 60)) s]"
  read -r -a words <<< "$options"
  if [ "$name" = top100 ]; then
    [[ "$sides" != *ours* ]] || run_ours "$name" predict_bench
    for variant in plain:topk strong:groups; do
      [ "$strong" = yes ] || [ "${variant%:*}" = plain ] || continue
      [[ "$sides" != *peers* ]] || attempt "$name.${variant%:*}" "$python" "$peers/pytorch_topk.py" \
        --variant "${variant#*:}" --json "$out/$name.${variant%:*}.jsonl"
    done
    continue
  fi
  [[ "$sides" != *ours* ]] || run_ours "$name" train_bench --device cuda "${words[@]}"
  [[ "$sides" != *peers* ]] || run_peers "$name" "$batches" "$variants" "${words[@]}"
done

"$python" "$peers/comparison_table.py" "$out" "${names[@]}"
[ "$failed" = no ] || { echo "compare_gpu: a program failed; its words are in $out" >&2; exit 1; }
