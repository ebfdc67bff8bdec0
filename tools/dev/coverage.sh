#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tests reach: lines and branches of src, kernels, tools (clang's counters) and of the Python (coverage.py), in child processes, too.
#   tools/dev/coverage.sh [--table] [--keep] [--jobs N] [--targets 'TARGET...'] [CTEST OPTION...]
# Builds the preset coverage, or some of its targets, and runs the tests that the options of ctest choose; without -R all of the preset cpu,
# the files of tests/python side by side. Prints a table and the 30 files with most that nothing reaches, and writes both to
# build/coverage/table.txt. --table only prints again what was counted; --keep adds to what earlier runs counted; --show FILE... shows the
# counts beside these sources. Tests that fail are named.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$PWD/build/coverage
run=yes
keep=no
jobs=$(nproc)
targets=(all)
while :; do
  case "${1:-}" in
    --table) run=no ;;
    --keep) keep=yes ;;
    --jobs) jobs=$2; shift ;;
    --targets) read -ra targets <<< "$2"; shift ;;
    --show) run=show; shift; break ;;
    -h | --help) sed -n '3,8s/^# //p' "$0"; exit 0 ;;
    *) break ;;
  esac
  shift
done
if ! command -v clang++-14 llvm-cov-14 > /dev/null || ! /usr/bin/python3 -c 'import coverage'; then
  tools/install_dependencies.sh --coverage
fi
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

# test_package: tests of the Python package, a process for each file.
test_package() {
  find tests/python -name '*_test.py' -not -name 'spark_*' -print0 |
    NORN_BIN=$build/bin NORN_SOURCE=$PWD NORN_MPI=ON PYTHONPATH=$build/python xargs -0 -n 1 -P "$(((jobs + 1) / 2))" \
      build/venv/bin/python -B -m pytest -q -p no:cacheprovider
}

if [ "$run" = yes ]; then
  tools/dev/python_venv.sh
  launcher=()
  command -v ccache > /dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true LLVM_PROFILE_FILE=$build/profiles/build/%m.profraw
  cmake --preset coverage "${launcher[@]}" > /dev/null
  cmake --build --preset coverage -j "$jobs" --target "${targets[@]}"
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
  package=
  if [ "${targets[*]}" = all ] && [[ " $* " != *" -R "* ]]; then
    [[ " $* " == *" -E "* ]] || set -- "$@" -E '^python\.'
    test_package > "$build/package.txt" 2>&1 &
    package=$!
  fi
  ctest --preset coverage -j "$jobs" "$@" > "$build/tests.txt" 2>&1 || sed -n '/^The following tests FAILED/,$p' "$build/tests.txt"
  [ -z "$package" ] || wait "$package" || grep -E '^(FAILED|ERROR)' "$build/package.txt"
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
llvm-cov-14 export -skip-functions -skip-expansions -instr-profile "$build/counts.profdata" "${objects[@]:1}" > "$build/cpp.json" 2> "$build/llvm-cov.txt"
if compgen -G "$build/python_counts/counts.*" > /dev/null; then
  /usr/bin/python3 -m coverage combine --rcfile="$build/coveragerc" --append --quiet "$build"/python_counts/counts.* > /dev/null
fi
/usr/bin/python3 -m coverage json --rcfile="$build/coveragerc" -q -o "$build/python.json" || echo '{"files": {}}' > "$build/python.json"
/usr/bin/python3 -B tools/dev/coverage_table.py "$build" | tee "$build/table.txt"
