// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/parallel/mpi_session.h"
#include "src/engine/network/context.h"
#include "src/parallel/communicator.h"
#include "tools/common/command_line.h"

#include <optional>
#include <string>

/// What to compute on, and what to say meanwhile.
namespace norn::tools {

/// Options of every program that computes.
struct RunOptions {
  std::string device = "auto";
  std::optional<int> gpu;
  std::string precision = "tf32";
  bool device_given = false;
  bool precision_given = false;
  int threads = 0;
  double collective_timeout = kCollectiveSeconds;
  bool quiet = false;
  bool verbose = false;
  std::string log_level = "info";

  void add_to(CommandLine& line);
  LogLevel level() const;
  /// Throws UsageError for values that no run can have.
  void check(OptionFaults& faults) const;
  /// What the options ask for. NORN_CUDA_POOL=off and NORN_CUDA_GRAPHS=off in the environment turn
  /// the GPU's memory pool and graphs off, for compute-sanitizer; NORN_PEER_MEMORY=off leaves
  /// collectives to NCCL.
  DeviceChoice device_choice() const;
};

/// --trust-index, of every program that takes data into a model.
void add_trust_index(CommandLine& line, bool& trust_index);

}  // namespace norn::tools
