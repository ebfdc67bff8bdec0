// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "tools/common/command_line.h"

/// The trainer's options for how the learning rate changes, and for clipping gradients.
namespace norn::tools {

void add_rate_options(run::RateSettings& settings, CommandLine& line);

}  // namespace norn::tools
