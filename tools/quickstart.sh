#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to recommendations: installs, builds, imports the packages of Debian 12, trains a network on what they
# depend on, measures it on dependencies that it has not seen, and recommends ten more for three packages.
# Everything it makes goes to build/. Needs root or sudo for apt, nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") ;;
  *)
    echo "usage: tools/quickstart.sh   (no options; everything it makes goes to build/)"
    [[ "$1" == -h || "$1" == --help ]] && exit 0 || exit 2
    ;;
esac

data=tests/data/debian_packages
out=build/quickstart
number=0
heading() {
  number=$((number + 1))
  printf '\n%d. %s  [%d min %02d s]\n' "$number" "$1" $((SECONDS / 60)) $((SECONDS % 60))
}

heading "Install what is missing"
tools/install_dependencies.sh

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null || true)
preset=cpu
options=(-DNORN_TESTS=OFF -DNORN_BENCHMARKS=OFF)
if [ -n "$nvcc" ] && nvidia-smi -L > /dev/null 2>&1; then
  preset=cuda
  options+=(-DCMAKE_CUDA_COMPILER="$nvcc")
fi
heading "Build the programs (preset $preset)"
if command -v ccache > /dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
# A folder of its own: the preset's build/<preset> keeps its tests.
cmake --preset "$preset" -B "build/quickstart/$preset" "${options[@]}" | tail -n 3
cmake --build "build/quickstart/$preset" -j "$(nproc)"
bin=$PWD/build/quickstart/$preset/bin

heading "Import the packages: text to NetCDF"
rm -f "$out"/*.nc "$out"/*.txt
# The held-out part first: its index of features is then that of both parts, and recommendations may name any of them.
"$bin/importer" --input "$data/train.txt.gz" --target "$data/test.txt.gz" --name packages --output "$out/test.nc" \
  --features "$out/features.txt"
"$bin/importer" --input "$data/train.txt.gz" --name packages --output "$out/train.nc" --features "$out/features.txt"

heading "Train configs/recipes/debian_packages_sigmoid.json"
"$bin/trainer" -c configs/recipes/debian_packages_sigmoid.json -i "$out/train.nc" -o "$out/train.nc" -n "$out/model.nc" > "$out/epochs.txt"
echo "The cost of every epoch is in $out/epochs.txt; the last one:"
tail -n 1 "$out/epochs.txt"

heading "Measure it on the dependencies that were held out"
"$bin/evaluator" --model "$out/model.nc" --data "$out/test.nc" --top 10,20,100

heading "Recommend dependencies for three packages"
zcat "$data/train.txt.gz" | grep -P '^(audacity|gimp|krita)\t' > "$out/three.txt"
"$bin/predictor" -n "$out/model.nc" -r "$out/three.txt" -f "$out/three.txt" -s "$out/recommended.txt" -k 10
zcat "$data/test.txt.gz" > "$out/held_out.txt"
# A recommendation line is "package<TAB>feature,score:feature,score:..."; a star marks those that were held out.
awk -F '\t' '
  NR == FNR { held_out[$1] = ":" $2 ":"; next }
  {
    printf "\n%s\n", $1
    n = split($2, pairs, ":")
    for (i = 1; i <= n; i++) {
      if (pairs[i] == "") continue
      split(pairs[i], parts, ",")
      printf "  %2d  %-32s %s %s\n", i, parts[1], parts[2], index(held_out[$1], ":" parts[1] ":") ? "*" : ""
    }
  }
  END { print "\n  * a dependency of the package that was held out of its training data" }
' "$out/held_out.txt" "$out/recommended.txt"

printf '\nDone in %d min %02d s. The model is %s; docs/index.md says what else there is.\n' \
  $((SECONDS / 60)) $((SECONDS % 60)) "$out/model.nc"
