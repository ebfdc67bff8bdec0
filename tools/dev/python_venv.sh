#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/venv, with which the Python package is built and tested: from /usr/bin/python3 and the versions that
# python/requirements-test.txt names, once for each state of that file. Without PyPI it says SKIPPED, with CI=true it fails.
#   tools/dev/python_venv.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-build/venv}
requirements=python/requirements-test.txt
made=$folder/requirements.txt
if cmp -s "$requirements" "$made"; then
  echo "python: $folder has what $requirements names"
  exit 0
fi

transcript=$(mktemp)
trap 'rm -f "$transcript"' EXIT
if { { [ -x "$folder/bin/python" ] || /usr/bin/python3 -m venv "$folder"; } &&
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$requirements"; } > "$transcript" 2>&1; then
  cp "$requirements" "$made"
  echo "python: $folder made from $requirements"
  exit 0
fi
reason=$(grep -iE 'error|not (available|found)' "$transcript" | tail -n 1 || true)
echo "SKIPPED: python (no packages for $folder: ${reason:-$(tail -n 1 "$transcript")})"
if [ "${CI:-}" = true ]; then
  cat "$transcript" >&2
  exit 1
fi
