// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

/// The parts of the native module, a file each.
namespace norn::python {

void add_errors(nanobind::module_& m);
void add_config(nanobind::module_& m);
void add_data(nanobind::module_& m);
void add_data_files(nanobind::module_& m);
void add_settings(nanobind::module_& m);
void add_session(nanobind::module_& m);
void add_model(nanobind::module_& m);
void add_from_parameters(nanobind::module_& m);
void add_training(nanobind::module_& m);
void add_prediction(nanobind::module_& m);
void add_evaluation(nanobind::module_& m);
void add_plan(nanobind::module_& m);

}  // namespace norn::python
