#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Norn and PyTorch on the same cores, the same networks and batches, in turn; prints the medians as a table.
#   tests/bench/compare_cpu.sh [rounds]      3 by default, about 4 minutes each on 2 cores
# Needs python3-torch (tools/install_dependencies.sh --peers) and the preset cpu. A quiet machine gives better figures.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-3}
out=build/bench/compare_cpu
peer=tests/bench/peers/pytorch_autoencoder.py
data=tests/data/debian_packages
mkdir -p "$out"
rm -f "$out"/*.json
# Both sides let OpenBLAS find out the processor: a core type set from outside would slow both.
unset OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS OMP_NUM_THREADS
cmake --preset cpu > /dev/null
cmake --build --preset cpu --target train_bench

# ours ROUND NETWORK OPTION...: one line of JSON.
ours() {
  build/cpu/bin/train_bench --device cpu "${@:3}" --seconds 5 --no-stages --json "$out/norn.$2.$1.json" > /dev/null
}
# torch ROUND NETWORK INPUT OPTION...: the last line is JSON.
torch() {
  /usr/bin/python3 "$peer" --input "$3" "${@:4}" | tail -n 1 > "$out/torch-$3.$2.$1.json"
}
packages=(--train "$data/train.txt.gz" --hidden 128 --activation tanh --loss multinomial --normalize --dropout 0.5
  --optimizer adam --batch 512 --steps 100)
wide=(--examples 16384 --hidden 512 --activation relu --loss bce --batch 256 --steps 64)

for round in $(seq "$rounds"); do
  echo "round $round of $rounds"
  ours "$round" packages --shape debian_packages --optimizer Adam
  torch "$round" packages bag "${packages[@]}"
  torch "$round" packages dense "${packages[@]}"
  for optimizer in sgd adam; do
    ours "$round" "wide-$optimizer" --shape wide27k --optimizer "$([ "$optimizer" = sgd ] && echo SGD || echo Adam)"
    torch "$round" "wide-$optimizer" bag "${wide[@]}" --optimizer "$optimizer"
    torch "$round" "wide-$optimizer" dense "${wide[@]}" --optimizer "$optimizer"
  done
done

/usr/bin/python3 - "$out" << 'EOF'
import json, pathlib, statistics, sys

rates = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    side, network, _ = path.stem.split(".")
    report = json.loads(path.read_text())
    rates.setdefault(network, {}).setdefault(side, []).append(report["samples_per_second"])
print(f"\n{'samples/s, median (min-max)':<28}{'Norn':>24}{'PyTorch, bag':>24}{'PyTorch, dense':>24}{'ratio':>8}")
for network, sides in rates.items():
    cells = []
    for side in ("norn", "torch-bag", "torch-dense"):
        r = sides[side]
        cells.append(f"{statistics.median(r):>9.0f} ({min(r):.0f}-{max(r):.0f})")
    best = max(statistics.median(sides[s]) for s in ("torch-bag", "torch-dense"))
    print(f"{network:<28}" + "".join(f"{c:>24}" for c in cells) + f"{statistics.median(sides['norn']) / best:>8.2f}")
EOF
