// SPDX-License-Identifier: Apache-2.0
// The native module of the Python package: what Python sees of include/norn/run.
#include "python/src/parts.h"

NB_MODULE(_core, m) {
  using namespace norn::python;
  m.doc() = "The engine, as the package `norn` uses it.";
  for (auto add :
       {add_errors, add_config, add_data, add_data_files, add_settings, add_session, add_model,
        add_from_parameters, add_training, add_prediction, add_evaluation, add_plan})
    add(m);
}
