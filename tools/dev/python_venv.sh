#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/venv, with which the Python package is built and tested: from /usr/bin/python3 and the versions that
# python/requirements-test.txt names, once for each state of that file. Without PyPI it says SKIPPED, with CI=true it fails.
#   tools/dev/python_venv.sh [--spark] [FOLDER]
# --spark adds pyspark (490 MB), for tests/python/spark_*_test.py.
set -euo pipefail
cd "$(dirname "$0")/../.."

all=(python/requirements-test.txt)
if [ "${1:-}" = --spark ]; then
  all+=(python/requirements-spark.txt)
  shift
fi
folder=${1:-build/venv}
transcript=$(mktemp)
trap 'rm -f "$transcript"' EXIT

# install REQUIREMENTS: what has no wheel, pyspark, is pure Python.
install() {
  local wheels=(--only-binary :all: --no-binary pyspark)
  { [ -x "$folder/bin/python" ] || /usr/bin/python3 -m venv "$folder"; } &&
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${wheels[@]}" -r "$1"
}

failed=no
for requirements in "${all[@]}"; do
  made=$folder/$(basename "${requirements/-test/}")
  if cmp -s "$requirements" "$made"; then
    echo "python: $folder has what $requirements names"
  elif install "$requirements" > "$transcript" 2>&1; then
    cp "$requirements" "$made"
    echo "python: $folder made from $requirements"
  else
    failed=yes
    break
  fi
done
[ "$failed" = yes ] || exit 0
reason=$(grep -iE 'error|not (available|found)' "$transcript" | tail -n 1 || true)
echo "SKIPPED: python (no packages for $folder: ${reason:-$(tail -n 1 "$transcript")})"
if [ "${CI:-}" = true ]; then
  cat "$transcript" >&2
  exit 1
fi
