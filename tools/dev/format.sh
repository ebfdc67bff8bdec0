#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every C++ and CUDA file with the repository's .clang-format; with --check only says which ones differ.
set -euo pipefail
cd "$(dirname "$0")/../.."

mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
formatter=$(command -v clang-format-14 || true)
if [ -z "$formatter" ]; then
  # Other versions lay some lines out in another way, and the check compares all of them.
  echo "format.sh: clang-format-14 is not installed; tools/install_dependencies.sh --checks does that" >&2
  exit 1
fi
find . -path ./build -prune -o -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r "$formatter" "${mode[@]}"
echo "format: ok"
