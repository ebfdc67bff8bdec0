#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs programs into one archive that runs on a GPU machine with no package manager. See --help.
set -euo pipefail

usage() {
  cat << 'TEXT'
usage: tools/dev/bundle.sh OUTPUT.tar.gz FILE...

Programs go to bin/ of the archive and the shared libraries that they need to lib/; scripts (*.sh, *.py) and everything
else, folders too, to data/ under their own names. There:

  mkdir norn && tar xzf OUTPUT.tar.gz -C norn && . norn/env.sh && trainer --version

env.sh sets PATH and LD_LIBRARY_PATH, lets mpirun run as root and on fewer cores than ranks, and sets NORN_DATA to the
archive's data/. Left out, because that machine has its own: glibc, libstdc++, the driver, CUDA's libraries (in
/usr/local/cuda or Python's wheels), NCCL, Open MPI. Debian 12's programs run on Ubuntu 24.04.

  tools/dev/bundle.sh check.tar.gz build/cuda/bin/*_test tools/dev/gpu_check.sh
TEXT
}
fail() {
  echo "bundle.sh: $1" >&2
  exit "${2:-2}"
}

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  -*) fail "unknown option '$1'; see --help" ;;
esac
[ "$#" -ge 2 ] || fail "an output and at least one file are needed; see --help"
output=$(realpath -m -- "$1")
shift
for item in "$@"; do
  [ -e "$item" ] || fail "there is no $item"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/lib" "$work/data"

is_program() { [ -f "$1" ] && [ "$(head -c 4 -- "$1" | od -An -tx1 | tr -d ' ')" = 7f454c46 ]; }
# put FILE FOLDER: two files of one name would silently be one.
put() {
  local name
  name=$(basename -- "$(realpath -s -- "$1")")
  [ ! -e "$2/$name" ] || fail "two of the files are called $name"
  cp -rL -- "$1" "$2/$name"
}
for item in "$@"; do
  if is_program "$item"; then put "$item" "$work/bin"; else put "$item" "$work/data"; fi
done

# Of the machine where it runs: the C and C++ runtimes, the driver, CUDA, and Open MPI with what it is made of.
of_the_system='^(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|anl|nss_.*))\.so'
of_cuda='^lib(cuda|cudart|cublas|cublasLt|cudnn.*|cusparse|cusolver|curand|cufft|nccl|nvrtc.*|nvJitLink|nvidia-.*|nvToolsExt)\.so'
of_mpi='^lib(mpi.*|open-(rte|pal)|pmix|hwloc|event.*|ucp|uct|ucs|ucm|psm.*|fabric|ibverbs|rdmacm|munge)\.so'
shopt -s nullglob
programs=()
for item in "$@"; do
  is_program "$item" || continue
  programs+=("$item")
  # Where it was built: a build's own libraries are found beside it.
  needed=$(ldd "$item" 2> /dev/null) || continue # linked statically: nothing to pack
  while read -r name _ path _; do
    [[ "$name" =~ $of_the_system || "$name" =~ $of_cuda || "$name" =~ $of_mpi ]] && continue
    [[ "$path" != not ]] || fail "$(basename "$item") needs $name, which is not found here" 1
    [[ "$path" != /* ]] || cp -Lu -- "$path" "$work/lib/$name"
  done < <(grep '=>' <<< "$needed" || true)
done

cat > "$work/env.sh" << 'ENV'
# To be sourced: makes the programs beside this file run.
norn_bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH="$norn_bundle/bin:$norn_bundle/data:$PATH" NORN_DATA="$norn_bundle/data"
# CUDA's libraries may lie in Python's wheels alone.
norn_wheels=$(python3 -c 'import glob, nvidia
print(":".join(d for p in nvidia.__path__ for d in glob.glob(p + "/*/lib")))' 2> /dev/null || true)
export LD_LIBRARY_PATH="$norn_bundle/lib:/usr/local/cuda/lib64${norn_wheels:+:$norn_wheels}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
ENV

mkdir -p "$(dirname "$output")"
tar -C "$work" -czf "$output" .
echo "$output: $(du -h "$output" | cut -f 1), ${#programs[@]} programs, $(find "$work/lib" -type f | wc -l) libraries"
