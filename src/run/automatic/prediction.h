// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/run/preparation.h"

/// How long a run will take, before it begins.
namespace norn::run {

/// Seconds of a step of a run whose memory is planned. Measures this machine for a part of a
/// second. All ranks call it together; the answer is rank 0's own.
double predict_step_seconds(const PreparedRun& run, Communicator& communicator);

}  // namespace norn::run
