// SPDX-License-Identifier: Apache-2.0
// The native module of the Python package: what Python sees of include/norn/run.
#include "python/src/parts.h"

NB_MODULE(_core, m) {
  m.doc() = "The engine, as the package `norn` uses it.";
  norn::python::add_errors(m);
  norn::python::add_config(m);
}
