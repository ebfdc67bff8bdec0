#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every C++ and CUDA file with the repository's .clang-format; with --check only says which ones differ.
set -euo pipefail
cd "$(dirname "$0")/../.."

formatter=$(command -v clang-format-14 || true)
if [ -z "$formatter" ]; then
  # Other versions lay some lines out in another way, and the check compares all of them.
  echo "format.sh: clang-format-14 is not installed; tools/install_dependencies.sh --checks does that" >&2
  exit 1
fi
mapfile -d '' files < <(find . -path ./build -prune -o -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0)

if [ "${1:-}" != --check ]; then
  "$formatter" -i "${files[@]}"
  exit 0
fi
differing=$("$formatter" --dry-run "${files[@]}" 2>&1 | sed -n 's/^\(.*\):[0-9]*:[0-9]*: warning: .*/\1/p' | sort -u)
if [ -n "$differing" ]; then
  echo "$differing"
  echo "format: these differ from .clang-format; tools/dev/format.sh lays them out"
  exit 1
fi
