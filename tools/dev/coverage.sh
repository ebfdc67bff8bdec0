#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tests reach: lines and branches of src, kernels, tools (clang's counters) and of the Python (coverage.py), in child processes, too.
#   tools/dev/coverage.sh [--table] [--keep] [CTEST OPTION...]
# Builds the preset coverage, runs the tests that the options of ctest choose (without: those of the preset cpu), and prints a table and
# the 30 files that are reached least. --table only prints again what was counted; --keep adds to what earlier runs counted; --show FILE...
# shows the counts beside these sources. Tests that fail are named.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$PWD/build/coverage
run=yes
keep=no
while :; do
  case "${1:-}" in
    --table) run=no ;;
    --keep) keep=yes ;;
    --show) run=show; shift; break ;;
    -h | --help) sed -n '3,7s/^# //p' "$0"; exit 0 ;;
    *) break ;;
  esac
  shift
done
tools/install_dependencies.sh --coverage
unset OPENBLAS_CORETYPE

# Python that is told where coverage.py is counts from its start, whichever program it runs.
python_start() {
  mkdir -p "$1"
  cat > "$1/sitecustomize.py" << 'END'
import os
import sys

if "COVERAGE_PROCESS_START" in os.environ:
    place = "/usr/lib/python3/dist-packages"
    sys.path.append(place)
    try:
        import coverage
        coverage.process_startup()
    except ImportError:
        pass
    finally:
        sys.path.remove(place)
END
}

if [ "$run" = yes ]; then
  tools/dev/python_venv.sh
  launcher=()
  command -v ccache > /dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true LLVM_PROFILE_FILE=$build/profiles/build/%m.profraw
  cmake --preset coverage "${launcher[@]}" > /dev/null
  cmake --build --preset coverage -j "${NORN_JOBS:-$(nproc)}"
  [ "$keep" = yes ] || rm -rf "$build/profiles" "$build/python_counts"
  mkdir -p "$build/profiles" "$build/python_counts"
  python_start "$build/start"
  python_start "$build/python"  # in front of what tests of the package are given
  cat > "$build/coveragerc" << END
[run]
branch = True
parallel = True
sigterm = True
disable_warnings = no-data-collected, module-not-imported, couldnt-parse
data_file = $build/python_counts/counts
source =
  $PWD/python/norn
  $PWD/tools
omit = $PWD/tools/dev/*
[report]
exclude_lines =
  if TYPE_CHECKING:
  if __name__ == .__main__.:
  ^\s*\.\.\.$
END
  export COVERAGE_PROCESS_START=$build/coveragerc PYTHONPATH=$build/start LLVM_PROFILE_FILE=$build/profiles/%c%m.profraw
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  ctest --preset coverage -j "${NORN_JOBS:-$(nproc)}" "$@" > "$build/tests.txt" 2>&1 || sed -n '/^The following tests FAILED/,$p' "$build/tests.txt"
  unset COVERAGE_PROCESS_START PYTHONPATH
fi

llvm-profdata-14 merge --failure-mode=all -o "$build/counts.profdata" "$build"/profiles/*.profraw
objects=()
while IFS= read -r object; do
  objects+=(-object "$object")
done < <(find "$build" -type f -executable -not -path '*/CMakeFiles/*' -not -name '*.sh' -exec grep -lF __llvm_covmap {} +)
if [ "$run" = show ]; then
  exec llvm-cov-14 show -show-branches=count -instr-profile "$build/counts.profdata" -path-equivalence "$build/../..,$PWD" "${objects[@]:1}" "${@/#/$PWD/}" 2> /dev/null
fi
llvm-cov-14 export -summary-only -instr-profile "$build/counts.profdata" "${objects[@]:1}" > "$build/cpp.json" 2> "$build/llvm-cov.txt"
if compgen -G "$build/python_counts/counts.*" > /dev/null; then
  /usr/bin/python3 -m coverage combine --rcfile="$build/coveragerc" --append --quiet "$build"/python_counts/counts.* > /dev/null
fi
/usr/bin/python3 -m coverage json --rcfile="$build/coveragerc" -q -o "$build/python.json"
exec /usr/bin/python3 -B tools/dev/coverage_table.py "$build"
