// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "src/engine/train/trainer.h"

/// What a run validates with.
namespace norn::run {

/// Data to validate with, and the output layer whose targets are to be found.
struct RunValidation {
  ValidationData data;
  int output_layer = 0;
  Validation view() const { return {&data, output_layer}; }
};

/// Opens the data sets that the options name, or takes a part out of `training`; nothing when
/// neither was asked for. Throws UsageError when something else was asked for that needs them.
RunValidation open_validation(const TrainOptions& options, const NetworkDescriptor& network,
                              DataBinding& training, const Log& log);

/// Whether data sets of their own fit the network: before it is built, its sizes being known.
/// Throws UsageError and DataError naming the set.
void check_validation(const RunValidation& validation, const NetworkDescriptor& network,
                      const DataBinding& training);

}  // namespace norn::run
