#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the HDF5 and the NetCDF that a wheel carries: Debian's sources, without what fetches files from the network and with
# it some thirty libraries. Once for each folder.
#   tools/dev/wheel_libraries.sh FOLDER
set -euo pipefail

# shellcheck source=tools/dev/usage.sh
. "$(dirname "$0")/usage.sh"
case "${1:-}" in "" | -*) show_usage "$@" ;; esac
prefix=$(realpath -m -- "$1")
if [ -e "$prefix/made" ]; then
  echo "wheel libraries: $prefix has $(cat "$prefix/made")"
  exit 0
fi
for need in apt-get dpkg-source; do
  command -v "$need" > /dev/null || {
    echo "wheel_libraries.sh: $need is needed: apt-get install dpkg-dev, on Debian or Ubuntu" >&2
    exit 1
  }
done
work=$prefix/work
rm -rf "$work"
mkdir -p "$work/lists/partial"
cd "$work"

# apt verifies them; the machine's own lists need not have sources, and stay as they are.
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" > sources.list
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists"
  -o "Dir::Cache=$work" -o APT::Sandbox::User=root)
"${apt[@]}" update
"${apt[@]}" source hdf5 netcdf > source.log 2>&1 || {
  cat source.log >&2
  exit 1
}

# build NAME OPTION...: quietly; what it said is in NAME.log.
build() {
  local name=$1
  shift
  (
    cd "$work/$name"-*/
    ./configure --prefix="$prefix" --disable-static --enable-shared "$@"
    # libtool writes no run path into what is moved anyway.
    make -j "$(nproc)"
    make install
  ) > "$work/$name.log" 2>&1 || {
    tail -n 20 "$work/$name.log" >&2
    echo "wheel_libraries.sh: $name could not be built; the whole is in $work/$name.log" >&2
    exit 1
  }
}
compiler=gcc
! command -v ccache > /dev/null || compiler="ccache gcc"
export CC=$compiler CFLAGS=-O2
# As Debian's, but without programs, other languages and tests. Threads have a lock, as there; `unsupported` is that with HL.
build hdf5 --enable-threadsafe --enable-unsupported --enable-hl --with-zlib --with-szlib --with-default-api-version=v18 \
  --enable-build-mode=production --disable-tests --disable-tools --disable-fortran --disable-cxx
CPPFLAGS=-I$prefix/include LDFLAGS=-L$prefix/lib LD_LIBRARY_PATH=$prefix/lib build netcdf --enable-netcdf-4 --disable-dap \
  --disable-byterange --disable-libxml2 --disable-nczarr --disable-plugins --disable-testsets --disable-utilities --disable-examples

# NetCDF 4.9.0 leaves a word of its configuration there. CMake asks for HDF5 by the name of Debian's package.
sed -i 's/ *@HDF5_INCS@//' "$prefix/lib/pkgconfig/netcdf.pc"
version=$(sed -n 's/#define H5_VERS_INFO *"HDF5 library version: \(.*\)".*/\1/p' "$prefix/include/H5public.h")
printf 'Name: hdf5-serial\nDescription: HDF5\nVersion: %s\nLibs: -L%s -lhdf5\nCflags: -I%s\n' \
  "$version" "$prefix/lib" "$prefix/include" > "$prefix/lib/pkgconfig/hdf5-serial.pc"
mkdir -p "$prefix/licenses"
cp "$work"/hdf5-*/COPYING "$prefix/licenses/hdf5.txt"
cp "$work"/netcdf-*/COPYRIGHT "$prefix/licenses/netcdf.txt"
rm -rf "$work"
echo "HDF5 $version, NetCDF $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion netcdf)" > "$prefix/made"
echo "wheel libraries: $prefix made, $(cat "$prefix/made")"
