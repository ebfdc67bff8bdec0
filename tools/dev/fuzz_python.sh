#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random calls of the Python package under AddressSanitizer: builds the preset asan's module, then makes the calls of
# tests/python/fuzz_binding.py.
#   tools/dev/fuzz_python.sh [CALLS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/dev/python_venv.sh
cmake --preset asan > /dev/null
cmake --build --preset asan -j "$(nproc)" --target norn_python
# Python itself is not instrumented, and keeps what it has until it ends.
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LD_PRELOAD PYTHONPATH=build/asan/python PYTHONMALLOC=malloc
LD_PRELOAD=$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libstdc++.so)
exec build/venv/bin/python -X faulthandler -B tests/python/fuzz_binding.py "${1:-10000}" ${2:+"$2"}
