#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What continuous integration checks beside the tests. Says all that is wrong, then fails.
#   tools/dev/check.sh            everything; --built needs the preset cpu to be built
#   tools/dev/check.sh --quick    format, layers, sizes, documents, scripts: seconds
#   tools/dev/check.sh --built    generated documents, types of Python, kernels for other processors, clang-tidy
# NORN_TIDY_FILES=N limits clang-tidy to the N files that changed last. With CI=true its static analyzer is left out: it takes
# half of the time.
set -euo pipefail
cd "$(dirname "$0")/../.."

failed=()
# step NAME COMMAND...: runs on after a failure, so that one run shows all.
step() {
  local started=$SECONDS
  if "${@:2}"; then
    printf 'check: %-20s ok      %3d s\n' "$1" $((SECONDS - started))
  else
    printf 'check: %-20s FAILED  %3d s\n' "$1" $((SECONDS - started))
    failed+=("$1")
  fi
}

shell_scripts() {
  local scripts
  mapfile -t scripts < <(find tools tests configs .ci -name '*.sh' -o -name '*.sbatch' -o -path .ci/run)
  local script
  for script in "${scripts[@]}"; do
    bash -n "$script" || return 1
  done
  if command -v shellcheck > /dev/null; then
    shellcheck --severity=warning "${scripts[@]}"
  else
    echo "shellcheck is not installed; the scripts' syntax alone was checked"
  fi
}

python_scripts() {
  find tools tests python -name '*.py' -print0 |
    xargs -0 /usr/bin/python3 -c 'import ast, sys; [ast.parse(open(f, encoding="utf-8").read(), f) for f in sys.argv[1:]]'
}

clang_tidy() {
  local files runner
  runner=$(command -v run-clang-tidy-14) || { echo "run-clang-tidy-14 is not installed"; return 1; }
  if [ -n "${NORN_TIDY_FILES:-}" ]; then
    mapfile -t files < <(git log --name-only --format= -- 'src/*.cpp' 'kernels/*.cpp' 'python/*.cpp' 'tools/*.cpp' |
      awk -v most="$NORN_TIDY_FILES" '!seen[$0]++ && system("test -e " $0) == 0 && ++found <= most { print }')
  else
    files=("$PWD/(src|kernels|python|tools)/.*\.cpp")
  fi
  local checks=()
  [ "${CI:-}" != true ] || checks=(-checks='-clang-analyzer-*')
  # It prints every command it runs; only what it finds is of interest.
  "$runner" -quiet -j "$(nproc)" -p build/cpu "${checks[@]}" "${files[@]}" 2> /dev/null | { grep -vE '^clang-tidy-14 |^$' || true; }
  return "${PIPESTATUS[0]}"
}

case "${1:-all}" in
  --quick) parts=(quick) ;;
  --built) parts=(built) ;;
  all) parts=(quick built) ;;
  *)
    sed -n 's/^#   /  /p' "$0"
    exit 2
    ;;
esac
for part in "${parts[@]}"; do
  if [ "$part" = quick ]; then
    step "format" tools/dev/format.sh --check
    step "layers" /usr/bin/python3 tools/dev/check_layers.py
    step "sizes" /usr/bin/python3 tools/dev/check_sizes.py
    step "documents" /usr/bin/python3 tools/dev/check_documents.py
    step "errors" /usr/bin/python3 tools/dev/error_reference.py --check
    step "shell scripts" shell_scripts
    step "python scripts" python_scripts
  else
    step "generated documents" tools/dev/write_reference.sh --check
    step "python types" tools/dev/check_types.sh
    step "other processors" /usr/bin/python3 tools/dev/other_processors.py
    step "clang-tidy" clang_tidy
  fi
done
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'check: FAILED: %s\n' "${failed[*]}"
  exit 1
fi
