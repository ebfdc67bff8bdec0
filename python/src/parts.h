// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

/// The parts of the native module, a file each.
namespace norn::python {

void add_errors(nanobind::module_& m);
void add_config(nanobind::module_& m);

}  // namespace norn::python
