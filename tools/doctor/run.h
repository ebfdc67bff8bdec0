// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/training/trainer_options.h"

namespace norn::tools {

/// trainer --doctor: all ranks call it together; rank 0 prints. Returns the exit code: 0, or that
/// of a device when there is a problem.
int run_doctor(const TrainerOptions& options, MpiSession& session);

}  // namespace norn::tools
