// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace norn::tools {

/// What a program is called in texts for people: NORN_COMMAND ("norn train") where the program norn
/// started it, else its own name.
std::string called_as(const std::string& program);

/// A command line of the program's own texts, "trainer -c net.json", as the user would write it.
std::string as_called(const std::string& program, const std::string& command);

}  // namespace norn::tools
