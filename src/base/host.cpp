// SPDX-License-Identifier: Apache-2.0
// This machine and its processes.
#include "src/base/host.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <unistd.h>

namespace norn {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  return ::gethostname(name, sizeof(name)) == 0 ? name : "unknown host";
}

char process_state(long process) {
  // It follows the command's name, which stands in brackets.
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t bracket = text.rfind(')');
  return bracket == std::string::npos || bracket + 2 >= text.size() ? '?' : text[bracket + 2];
}

bool process_lives(long process) {
  if (::kill(pid_t(process), 0) != 0) return errno != ESRCH;
  const char state = process_state(process);
  return state != 'Z' && state != 'X';
}

}  // namespace norn
