#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the preset fuzz and runs every fuzzer for some seconds (60 unless told).
#   tools/dev/fuzz.sh [SECONDS] [FUZZER...]
# What was found to be interesting is kept in build/fuzz/corpus/FUZZER and is where the next run begins. An input that
# breaks something is written to build/fuzz/findings; run the fuzzer with that file to see it again.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-60}
shift || true
cmake --preset fuzz > /dev/null
if [ "$#" -gt 0 ]; then
  fuzzers=("$@")
else
  mapfile -t fuzzers < <(basename -s .cpp tests/fuzz/*_fuzz.cpp)
fi
cmake --build build/fuzz --target "${fuzzers[@]}" -j "$(nproc)"

# Valid inputs of every format to begin with.
seed_corpus() {
  local folder=$1 fuzzer=$2
  case $fuzzer in
    text_reader_fuzz)
      printf '\1alice\tsoap:bread,2.5:milk\nbob\tmilk\n' > "$folder/dsstne"
      printf '\2''2 10 5\n1,4 0:1 9:2.5\n 3:1 # none\n' > "$folder/libsvm"
      printf '\11user,item,v\n"a, b",x,1.5\n' > "$folder/csv"
      printf '\254user\titem\tv\na\tx\t1e3\n' > "$folder/tsv"
      printf '\5alice soap bread\nbob 3 5\n' > "$folder/list"
      ;;
    label_index_fuzz)
      printf 'bread\t1\nmilk\t0\nsoap \t2\r\n' > "$folder/index"
      ;;
    image_fuzz)
      PYTHONPATH=tests/integration /usr/bin/python3 -B -c 'import sys, numpy, image_files as files
for name, data in (("grey", files.png(numpy.ones((5, 9), "u1"))), ("colour", files.png(numpy.ones((5, 9, 3), "u1"))),
                   ("jpeg", files.jpeg(numpy.arange(6).reshape(2, 3)))):
    open(f"{sys.argv[1]}/{name}", "wb").write(data)' "$folder"
      ;;
    seal_fuzz)
      # No run of elements, the checksum of a count of 0, and the mark; and one run that covers all.
      printf 'header\0\0\0\0\0\0\0\0\0\0\0\0NornSeal' > "$folder/empty"
      printf 'header\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0NornSeal' > "$folder/one"
      ;;
    json_files_fuzz)
      printf '\0{"Version": 0.8, "Command": "train", "Network": "n.json", "Data": "d.nc", "TrainingParameters": {"Epochs": 2}}' > "$folder/cdl"
      { printf '\1'; cat configs/machines/h200.json; } > "$folder/machine"
      printf '\2{"a": [1, 2.5e3, "x\\u00e9", null, {"b": true}]}' > "$folder/record"
      ;;
    descriptor_fuzz)
      find configs -name '*.json' -not -path '*/schema/*' -exec cp -t "$folder" {} + 2> /dev/null || true
      ;;
  esac
}

failed=()
for fuzzer in "${fuzzers[@]}"; do
  corpus=build/fuzz/corpus/$fuzzer
  mkdir -p "$corpus" build/fuzz/findings
  seed_corpus "$corpus" "$fuzzer"
  echo "== $fuzzer, $seconds s"
  if ! "build/fuzz/bin/$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$fuzzer-" "$corpus" > "build/fuzz/$fuzzer.log" 2>&1; then
    failed+=("$fuzzer")
    tail -n 40 "build/fuzz/$fuzzer.log"
  fi
  grep -E 'number_of_executed_units|average_exec_per_sec' "build/fuzz/$fuzzer.log" || true
done
if [ "${#failed[@]}" -gt 0 ]; then
  echo "fuzz: found something: ${failed[*]}; the inputs are in build/fuzz/findings"
  exit 1
fi
echo "fuzz: nothing found"
