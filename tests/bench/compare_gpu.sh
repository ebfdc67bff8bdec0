#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Norn and PyTorch on the same GPU, the same networks and data, in turn; prints a Markdown table and writes it as JSON.
#   tests/bench/compare_gpu.sh [--rows NAME,NAME] [--rounds N] [--limit SECONDS] [--seconds S] [--plain VARIANT,VARIANT]
#                              [--gpus N] [--out FOLDER] [--ours | --peers] [--no-strong] [--list]
#     --rows    these rows only (--list names them); those with a star there by default
#     --rounds  how often Norn and the peers take turns [2]
#     --limit   time for each program of a row [240]; what takes longer counts as failed (Liger compiles for a minute)
#     --seconds how long each configuration is timed [2]
#     --plain   of the program that a user would write only these variants (eager, compile, autotune, cce, liger, liger_scaled,
#               deterministic), or none
#     --gpus    of one training [1]; on several Norn has a rank on each, and of peers only those of images are there, by DDP
#     --out     where the reports go [build/bench/compare_gpu]
#     --ours, --peers   only that side
#     --no-strong   of the peers only the program that a user would write
# Needs train_bench and predict_bench (build/cuda/bin, else PATH) and a python3 with PyTorch and Triton for CUDA (another one:
# PYTHON=...); cut-cross-entropy, and liger-kernel with nvidia-cutlass-dsl, where they are installed. Says which versions these are.
# Everybody rotates 64 batches (4 of images) that stand on the GPU. But for images, peers run without dropout, on entries that are
# sorted beforehand, which favours them. A GPU that does nothing else gives better figures.
set -euo pipefail
cd "$(dirname "$0")/../.."

# name | options of train_bench (predict_bench for top100) | batches of the plain peer, first one that fits counts | variants
sigmoid=eager,compile,autotune softmax=eager,compile,cce,liger,liger_scaled,autotune
rows=(
  "ml20m-tf32-SGD*|--shape ml20m --precision tf32 --optimizer SGD --batch 1024|1024|$sigmoid"
  "ml20m-tf32-Adam|--shape ml20m --precision tf32 --optimizer Adam --batch 1024|1024|$sigmoid"
  "ml20m-bf16-Adam*|--shape ml20m --precision bf16 --optimizer Adam --batch 1024|1024|$sigmoid"
  "shop500k-tf32-SGD*|--shape shop500k --precision tf32 --optimizer SGD --batch 1024|1024|$sigmoid"
  "shop500k-bf16-Adam*|--shape shop500k --precision bf16 --optimizer Adam --batch 1024|1024|$sigmoid"
  "shop500k-bf16-Adam-8192*|--shape shop500k --precision bf16 --optimizer Adam --batch 8192|8192|$sigmoid"
  "shop10m-tf32-SGD|--shape shop10m --precision tf32 --optimizer SGD --batch 1024|1024 256|eager"
  "shop10m-bf16-SGD*|--shape shop10m --precision bf16 --optimizer SGD --batch 1024|1024 256|eager"
  "shop10m-bf16-Adam*|--shape shop10m --precision bf16 --optimizer Adam --batch 1024|1024 256|eager"
)
for network in wide500k_softmax wide1m_softmax; do
  for rest in "tf32 SGD" "tf32 Adam" "bf16 SGD" "bf16 Adam"; do
    read -r precision optimizer <<< "$rest"
    rows+=("$network-$precision-$optimizer*|--shape $network --precision $precision --optimizer $optimizer --batch 1024|1024|$softmax")
  done
done
for hidden in 128 512 1024; do
  for optimizer in SGD Adam; do
    options="--shape wide1m_softmax --hidden $hidden --precision bf16 --optimizer $optimizer --batch 1024"
    rows+=("wide1m_softmax-$hidden-bf16-$optimizer|$options|1024|$softmax")
  done
done
for batch in "shop500k 1024" "shop10m 1024" "shop10m 8192"; do  # the peer has the published algorithm
  rows+=("${batch/ /-factored-}*|--factored --shape ${batch/ / --precision tf32 --batch }||")
done
rows+=("top100*||1024|")
images=eager,compile,deterministic  # from our descriptors, in bf16 by weights or by autocast, whichever is faster in eager
for row in "alexnet bf16*" "alexnet bf16 256" "vgg16 bf16*" "vgg16 bf16 64" "vgg16 tf32" "strawman bf16*"; do
  read -r network precision batch <<< "$row"
  rows+=("$network-$precision${batch:+-$batch}|--shape $network --precision ${precision%\*}${batch:+ --batch $batch}||$images")
done

wanted="" rounds=2 limit=240 seconds=2 plain="" gpus=1 out=build/bench/compare_gpu sides="ours peers" strong=yes
usage() { sed -n '3,20s/^# \{0,1\}//p' tests/bench/compare_gpu.sh; }
need_value() { [ "$#" -ge 2 ] || { echo "compare_gpu.sh: $1 needs a value" >&2; exit 2; }; }
while [ "$#" -gt 0 ]; do
  case "$1" in
    --rows) need_value "$@"; wanted=$2; shift ;;
    --rounds) need_value "$@"; rounds=$2; shift ;;
    --limit) need_value "$@"; limit=$2; shift ;;
    --seconds) need_value "$@"; seconds=$2; shift ;;
    --plain) need_value "$@"; plain=$2; shift ;;
    --gpus) need_value "$@"; gpus=$2; shift ;;
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
names=$(printf '%s\n' "${rows[@]%%|*}" | tr -d '*')
for name in ${wanted//,/ }; do
  grep -qx -- "$name" <<< "$names" || { echo "compare_gpu.sh: no row '$name'; see --list" >&2; exit 2; }
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
  timeout "$limit" "${@:2}" >> "$out/$1.log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || tail -n 5 "$out/$1.log" >&2
  [ "$status" -ne 124 ] || echo '{"error": "time limit"}' >> "$out/$1.jsonl"
  printf '  %-40s %3d s%s\n' "$1" $((SECONDS - started)) "$([ "$status" -eq 0 ] || echo "  FAILED ($status)")"
  [ "$status" -eq 0 ] || failed=yes
}
# run_ours ROW PROGRAM OPTION...
run_ours() {
  local bench
  bench=$(program "$2") || { echo "  $2 is neither in build/cuda/bin nor in PATH"; failed=yes; return 0; }
  local ranks=()
  [ "$gpus" -eq 1 ] || ranks=(mpirun --allow-run-as-root --bind-to none -np "$gpus")
  attempt "$1.ours" "${ranks[@]}" "$bench" "${@:3}" --json "$out/$1.ours.jsonl"
}
# run_plain ROW BATCHES VARIANTS OPTION...
run_plain() {
  local row=$1 batch variant variants=()
  for variant in ${3//,/ }; do
    [ -z "$plain" ] || [[ ",$plain," == *",$variant,"* ]] && variants+=("$variant")
  done
  [ "${#variants[@]}" -gt 0 ] || return 0
  for batch in $2; do
    attempt "$row.plain" "$python" "$peers/pytorch_gpu.py" "${@:4}" --batch "$batch" --variant "$(IFS=,; echo "${variants[*]}")" \
      --seconds "$seconds" --json "$out/$row.plain.jsonl"
    tail -n 1 "$out/$row.plain.jsonl" | grep -q '"out of memory"' || break
  done
}
# run_strong ROW OPTION...: with Adam it updates the rows of the input weights that a batch touches, as Norn does.
run_strong() {
  [ "$strong" = yes ] || return 0
  attempt "$1.strong" "$python" "$peers/pytorch_strong.py" "${@:2}" --variant blocks,overlap,fused \
    --seconds "$seconds" --json "$out/$1.strong.jsonl"
}
# run_factored ROW OPTION...
run_factored() {
  attempt "$1.strong" "$python" "$peers/pytorch_factored.py" "${@:3}" --seconds "$seconds" --json "$out/$1.strong.jsonl"
}
# run_images ROW VARIANTS OPTION...
run_images() {
  local row=$1 bench precision=$6 variant variants=()
  for variant in ${2//,/ }; do
    [ -z "$plain" ] || [[ ",$plain," == *",$variant,"* ]] && variants+=("$variant")
  done
  [ "${#variants[@]}" -gt 0 ] || return 0
  bench=$(program train_bench) || { echo "  train_bench is neither in build/cuda/bin nor in PATH"; failed=yes; return 0; }
  "$bench" "${@:3}" --write-network "$out/$row.network.json"
  if [ "$gpus" -gt 1 ]; then
    attempt "$row.plain" "$python" "$peers/pytorch_images_ddp.py" "$out/$row.network.json" --shape "$4" --gpus "$gpus" \
      --seconds "$seconds" --json "$out/$row.plain.jsonl"
    return 0
  fi
  [ "$precision" != bf16 ] || precision=bf16_weights,bf16
  attempt "$row.plain" "$python" "$peers/pytorch_images_gpu.py" "$out/$row.network.json" --shape "$4" --precision "$precision" \
    --variant "$(IFS=,; echo "${variants[*]}")" --seconds "$seconds" --json "$out/$row.plain.jsonl"
}
# run_top100 SIDE
run_top100() {
  if [ "$1" = ours ]; then
    run_ours top100 predict_bench
    return 0
  fi
  local variant
  for variant in plain:topk strong:groups; do
    [ "$strong" = yes ] || [ "${variant%:*}" = plain ] || continue
    attempt "top100.${variant%:*}" "$python" "$peers/pytorch_topk.py" --variant "${variant#*:}" --seconds "$seconds" \
      --json "$out/top100.${variant%:*}.jsonl"
  done
}
# run_row ROW
run_row() {
  local name options batches variants words side
  IFS='|' read -r name options batches variants <<< "$1"
  read -r -a words <<< "$options"
  for side in $sides; do
    if [ "${name%\*}" = top100 ]; then
      run_top100 "$side"
    elif [ "$side" = ours ]; then
      run_ours "${name%\*}" train_bench --device cuda --seconds "$seconds" --no-stages "${words[@]}"
    elif [ "$variants" = "$images" ]; then
      run_images "${name%\*}" "$variants" "${words[@]}"
    elif [ "$gpus" -gt 1 ]; then
      : # on one GPU alone
    elif [ "${words[0]}" = --factored ]; then
      run_factored "${name%\*}" "${words[@]}"
    else
      run_plain "${name%\*}" "$batches" "$variants" "${words[@]}"
      run_strong "${name%\*}" "${words[@]}"
    fi
  done
}

mkdir -p "$out"
[[ "$sides" != *peers* ]] || "$python" "$peers/versions.py"
failed=no
chosen=()
for row in "${rows[@]}"; do
  name=${row%%|*}
  if [ -n "$wanted" ]; then
    [[ ",$wanted," == *",${name%\*},"* ]] || continue
  else
    [[ "$name" == *\* ]] || continue
  fi
  chosen+=("$row")
  rm -f "$out/${name%\*}".*
done
for round in $(seq "$rounds"); do
  for row in "${chosen[@]}"; do
    name=${row%%|*}
    echo "round $round: ${name%\*}  [$((SECONDS / 60)) min $((SECONDS % 60)) s]"
    run_row "$row"
  done
done

names=("${chosen[@]%%|*}")
"$python" "$peers/comparison_table.py" "$out" "${names[@]%\*}"
[ "$failed" = no ] || { echo "compare_gpu: a program failed; its words are in $out" >&2; exit 1; }
