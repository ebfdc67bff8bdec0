#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a wheel into fresh environments of every Python from 3.10 on that is found, with the oldest NumPy and SciPy that it
# claims to support, and with the newest and pandas, polars, PyArrow and scikit-learn beside them, and runs tests/python there.
# Tests that need other packages are skipped.
#   tools/dev/test_wheel.sh WHEEL [--first] [PYTEST-OPTION...]     --first: the oldest Python with the oldest packages only
# In place of a wheel build/cpu/python, the package in a build folder, of which the environments have what it requires.
# Pythons: python3.10, python3.11 ... in PATH, Debian's, and those of pyenv; NORN_PYTHONS="PATH PATH" names others.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

# shellcheck source=tools/dev/usage.sh
. "$(dirname "$0")/usage.sh"
case "${1:-}" in "" | -*) show_usage "$@" ;; esac
wheel=$(realpath -- "$1")
shift
requirements=("$wheel")
[ ! -d "$wheel" ] || requirements=(--requirements "$root/pyproject.toml")
first=no
if [ "${1:-}" = --first ]; then
  first=yes
  shift
fi

# The newest of each minor version.
declare -A pythons
shopt -s nullglob
found=()
for minor in 10 11 12 13 14; do
  path=$(command -v "python3.$minor" || true)
  found+=(${path:+"$path"})
done
for python in ${NORN_PYTHONS:-/usr/bin/python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python "${found[@]}"}; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2] if sys.version_info >= (3, 10) else "")' 2> /dev/null || true)
  [ -z "$version" ] || pythons[$version]=$python
done
mapfile -t versions < <(printf '%s\n' "${!pythons[@]}" | sort -V)
if [ -z "${versions[*]}" ]; then
  echo "SKIPPED: no Python of 3.10 or newer was found"
  exit 0
fi
[ "$first" = no ] || versions=("${versions[0]}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # not in the source tree, whose package must not be found
unset PYTHONPATH NORN_BIN LD_LIBRARY_PATH OPENBLAS_CORETYPE
[ ! -d "$wheel" ] || export PYTHONPATH=$wheel
# uv chooses the oldest versions that the wheel allows and that have wheels for a Python.
uv=$root/build/uv/bin/uv
if [ ! -x "$uv" ]; then
  /usr/bin/python3 -m venv "$root/build/uv"
  "$root/build/uv/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.9 > uv.log 2>&1 || {
    echo "SKIPPED: no uv, which makes the environments: $(tail -n 1 uv.log)"
    [ "${CI:-}" != true ] || exit 1
    exit 0
  }
fi
export UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=true UV_LINK_MODE=hardlink

row() { printf '%-8s %-8s %-8s %-8s %7s %7s %7s %6s\n' "$@"; }
shown() { "$environment/bin/python" -c "import importlib.metadata as m; print(m.version('$1'))"; }
passed() { grep -oE "[0-9]+ $1" log.txt | tail -n 1 | cut -d ' ' -f 1 || true; }
# try VERSION lowest|highest: one line of the table.
try() {
  environment=$work/$1-$2
  "$uv" venv --quiet --python "${pythons[$1]}" "$environment"
  "$uv" pip install --quiet --python "$environment/bin/python" --only-binary :all: --resolution "$2" "${requirements[@]}"
  local others=(pytest)
  [ "$2" = lowest ] || others+=(joblib scikit-learn pyarrow pandas polars)
  "$uv" pip install --quiet --python "$environment/bin/python" --only-binary :all: "${others[@]}"
  folder=$("$environment/bin/python" -c 'import norn, os; print(os.path.dirname(norn.__file__))')
  case "$folder" in
    "$environment"/* | "$wheel"/norn) ;;
    *) echo "test_wheel.sh: $folder was imported, not what the wheel has" >&2 && exit 1 ;;
  esac
  local began=$SECONDS result=0
  NORN_BIN=$folder/bin NORN_SOURCE=$root NORN_MPI=OFF "$environment/bin/python" -B -m pytest -q -rs -p no:cacheprovider --installed-only \
    "${options[@]}" "$root/tests/python" > log.txt 2>&1 || result=$?
  table+=("$(row "$1" "$2" "$(shown numpy)" "$(shown scipy)" "$(passed passed)" "$(passed skipped)" "$(passed failed)" $((SECONDS - began)))")
  if [ "$result" -ne 0 ]; then
    failures=$((failures + 1))
    cat log.txt
  fi
}
options=("$@")
table=()
failures=0
for version in "${versions[@]}"; do
  try "$version" lowest
  [ "$first" = yes ] || try "$version" highest
done
row Python packages NumPy SciPy passed skipped failed s
printf '%s\n' "${table[@]}"
echo "skipped in the last of them:"
sed -nE 's/^SKIPPED \[([0-9]+)\] [^ ]*: (.*)/\1 \2/p' log.txt | awk '{n = $1; $1 = ""; of[$0] += n} END {for (reason in of) print "  " of[reason] "\t" reason}' | sort
exit $((failures > 0))
