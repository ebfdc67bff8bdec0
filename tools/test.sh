#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs every test that this machine can run.
#   tools/test.sh [--all] [--sanitizers | --sanitized-ranks | --sanitized-shard]
set -euo pipefail
cd "$(dirname "$0")/.."

tests=cpu  # a preset
sanitizers=no
ranks_only=no
shard_only=no
for option in "$@"; do
  case "$option" in
    --all) tests=all ;;
    --sanitizers) sanitizers=yes ;;
    --sanitized-ranks) ranks_only=yes ;;
    --sanitized-shard) shard_only=yes ;;
    -h | --help)
      echo "usage: tools/test.sh [--all] [--sanitizers | --sanitized-ranks | --sanitized-shard]"
      echo "  Builds the preset cpu and runs its tests. With nvcc on this machine it also compiles the preset cuda, and"
      echo "  with a GPU runs its tests. --all adds the nightly tests: more queues, other readers, the oldest Python. --sanitizers adds the"
      echo "  presets asan and tsan (two more builds of everything)."
      echo "  --sanitized-ranks builds the programs in the preset asan and runs the tests of ranks that are killed, hang or fail"
      echo "  with them under mpirun, and nothing else."
      echo "  --sanitized-shard builds the layers that read files with clang under AddressSanitizer and UBSan, and runs their"
      echo "  unit tests and nothing else: what CI has time for."
      exit 0
      ;;
    *)
      echo "test.sh: unknown option '$option'; see --help" >&2
      exit 2
      ;;
  esac
done

jobs=$(nproc)
# Checkouts share what ccache holds, and so does the copy that a test installs with pip.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
heading() { printf '\n== %s (%d s) ==\n' "$1" "$SECONDS"; }

# configure PRESET [OPTION...]: with ccache where it is there.
configure() {
  local launcher=()
  if command -v ccache > /dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
    [ "$1" != cuda ] || launcher+=(-DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  cmake --preset "$1" "${launcher[@]}" "${@:2}" | tail -n 4
}

# suite OPTION...: of ctest. What failed tests printed last is printed again at the end, where it is found.
suite() {
  ctest "$@" && return
  local folder
  folder=$(ls -dt build/*/Testing/Temporary | head -n 1)
  awk -F: 'NR == FNR { failed[$2] = 1; next }
           / Test: / { at = 0; name = $0; sub(/.* Test: /, "", name) }
           { line[++at] = $0 }
           /^"?.* end time: / && name in failed {
             print "\n== failed: " name
             for (i = at > 80 ? at - 80 : 1; i < at; ++i) print line[i]
           }' "$folder/LastTestsFailed.log" "$folder/LastTest.log"
  return 1
}

heading "dependencies"
tools/install_dependencies.sh
tools/dev/python_venv.sh

# mpirun refuses root and more ranks than cores unless told.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

if [ "$ranks_only" = yes ]; then
  heading "build and test: ranks in the preset asan"
  configure asan
  cmake --build --preset asan -j "$jobs" --target trainer predictor evaluator importer communicator_mpi_test failing_calls
  suite --preset asan -L '^(ranks|mpi)$' -j 1  # one after the other: several ranks share the cores in each
  exit
fi

if [ "$shard_only" = yes ]; then
  heading "build and test: the layers that read files, under sanitizers"
  configure shard
  cmake --build --preset shard -j "$jobs" --target base_test tensor_test data_test
  suite --preset shard -R '^(base|tensor|data)\.' -E ImporterProgram -j "$jobs"  # the program is not built
  exit
fi

heading "build: preset cpu"
configure cpu
cmake --build --preset cpu -j "$jobs"

if [ "$sanitizers" = yes ]; then
  for preset in asan tsan; do
    heading "build and test: preset $preset"
    configure "$preset"
    cmake --build --preset "$preset" -j "$jobs"
    suite --preset "$preset" -j "$jobs"
  done
fi

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null || true)
if [ -n "$nvcc" ]; then
  heading "build: preset cuda, with $nvcc"
  # Host code is built and tested in the preset cpu; without a GPU only what nvcc compiles is built here.
  configure cuda -DCMAKE_CUDA_COMPILER="$nvcc"
  cmake --build --preset cuda -j "$jobs" --target cuda_test rows_cuda_test fused_cuda_test kernels_cuda_test repeats_cuda_test
  if nvidia-smi -L > /dev/null 2>&1; then
    heading "test: preset cuda"
    cmake --build --preset cuda -j "$jobs"
    suite --preset cuda -L gpu -j 1
  else
    echo "no GPU here: the CUDA side was compiled, its tests were not run"
  fi
else
  echo "no nvcc here: the CUDA side was not compiled"
fi

heading "test: preset cpu"
# A third of their time, tests wait: for ranks that hang, time limits and the servers of queues.
suite --preset "$tests" -j "$((jobs + 1))"
