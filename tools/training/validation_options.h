// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "tools/common/command_line.h"

/// The trainer's options for validating while it trains.
namespace norn::tools {

void add_validation_options(run::ValidationSettings& settings, CommandLine& line);

}  // namespace norn::tools
