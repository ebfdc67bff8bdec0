// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/doctor/doctor.h"

#include <chrono>

/// Reading and measuring this machine for the doctor's checks.
namespace norn::tools {

struct LookSettings {
  std::filesystem::path model;
  int threads = 0;
  int ranks_here = 1;
  bool uses_gpu = false;
  /// No measurement begins later: what is left is said not to be measured.
  std::chrono::steady_clock::time_point deadline;
};

/// Takes seconds. What cannot be measured says why in its place; nothing on the machine is changed,
/// but for a file that is written beside the model and removed.
Examination look_at_this_host(const LookSettings& settings);

/// Cores that this process may run on, by number.
std::vector<int> own_cores();

}  // namespace norn::tools
