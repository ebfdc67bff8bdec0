// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/prediction/predictor_options.h"

/// What the predictor does with its options.
namespace norn::tools {

int run_prediction(const PredictorOptions& options, MpiSession& session);

/// Command Predict of a command file: prints DSSTNE's ten lines `k,precision,recall,nDCG`, and
/// writes them to the output where one is named.
int run_command_prediction(const PredictorOptions& options, MpiSession& session);

}  // namespace norn::tools
