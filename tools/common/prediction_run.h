// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/common/predictor_options.h"

/// What the predictor does with its options.
namespace norn::tools {

int run_prediction(const PredictorOptions& options, MpiSession& session);

}  // namespace norn::tools
