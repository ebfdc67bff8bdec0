// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/trainer.h"
#include "tools/training/trainer_options.h"

/// What the trainer validates with.
namespace norn::tools {

/// Data to validate with, and the output layer whose targets are to be found.
struct RunValidation {
  ValidationData data;
  int output_layer = 0;
  Validation view() const { return {&data, output_layer}; }
};

/// Opens the data sets that the options name, or takes a part out of `training`; nothing when
/// neither was asked for. Throws UsageError when something else was asked for that needs them.
RunValidation open_validation(const TrainerOptions& options, const NetworkDescriptor& network,
                              DataBinding& training, const Log& log);

/// Whether data sets of their own fit the network: before it is built, its sizes being known.
/// Throws UsageError and DataError naming the set.
void check_validation(const RunValidation& validation, const NetworkDescriptor& network,
                      const DataBinding& training);

}  // namespace norn::tools
