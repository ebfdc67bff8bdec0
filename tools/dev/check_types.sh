#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the types of the Python package by pyright, strict, but for what follows from packages that have none, and for
# norn.spark, because PySpark need not be here; of norn.tune, norn.daily and norn.report it is what users import.
# build/types holds the package with the stubs that its build made of the engine.
set -euo pipefail
cd "$(dirname "$0")/../.."

pyright=build/venv/bin/pyright stub=build/cpu/python/norn/_core.pyi folder=build/types
if [ ! -x "$pyright" ] || [ ! -e "$stub" ]; then
  echo "SKIPPED: types (tools/dev/python_venv.sh makes build/venv with pyright, the preset cpu makes $stub)"
  [ "${CI:-}" != true ]
  exit
fi
rm -rf "$folder"
mkdir -p "$folder"
cp -r python/norn tools/dev/pyrightconfig.json "$folder/"
cp "$stub" "$folder/norn/"
touch "$folder/norn/_processor.pyi" # a module without names
found=0
PYRIGHT_PYTHON_GLOBAL_NODE=0 "$pyright" -p "$folder" --pythonpath build/venv/bin/python > "$folder/found" || found=$?
sed "s#$PWD/$folder/#python/#" "$folder/found"
exit "$found"
