// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/problem.h"

#include <string>

namespace norn::tools {

/// A message of the library in the words of a command line: it names settings in backquotes, as
/// `validation_split`, and their options are called like them, --validation-split.
std::string with_options(std::string message);
/// The same of a problem and its key.
Problem in_options(Problem problem);

}  // namespace norn::tools
