// SPDX-License-Identifier: Apache-2.0
// The name by which a program was called.
#include "tools/common/called_as.h"

#include <cstdlib>

namespace norn::tools {

std::string called_as(const std::string& program) {
  const char* command = std::getenv("NORN_COMMAND");
  return command && *command ? command : program;
}

std::string as_called(const std::string& program, const std::string& command) {
  const std::size_t at = (" " + command).find(" " + program + " ");
  return at == command.npos ? command
                            : std::string(command).replace(at, program.size(), called_as(program));
}

}  // namespace norn::tools
