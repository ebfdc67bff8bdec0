#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How many of a random sample of small errors (mutants) of src, kernels/cpu and python/norn the tests find. One build of a copy of the
# tree holds them all, and an environment variable chooses one when a program runs. First each test runs once, which shows which mutants
# it reaches; then each mutant runs with those tests, the fastest first, until one fails. Goes on where it was stopped; --help.
set -euo pipefail
cd "$(dirname "$0")/../.."
/usr/bin/python3 -c 'import clang.cindex' 2> /dev/null || tools/install_dependencies.sh --coverage
unset OPENBLAS_CORETYPE
exec /usr/bin/python3 -B tools/dev/mutants "$@"
