// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/parallel/communicator.h"
#include "tools/common/command_line.h"
#include "tools/common/console.h"

#include <functional>
#include <string>

/// What every program does around its work: MPI, errors and exit codes, the options that all share.
namespace norn::tools {

/// Options of every program that computes.
struct RunOptions {
  int threads = 0;
  bool quiet = false;
  bool verbose = false;
  std::string log_level = "info";

  void add_to(CommandLine& line);
  LogLevel level() const;
};

/// Runs `body` and returns the exit code of main(). The one place where exceptions are caught: each
/// error becomes a line `trainer: error: ...` on stderr and its exit code. When one rank of several
/// fails, all are ended.
int run_program(int argc, char** argv, const std::string& program,
                const std::function<int(MpiSession&)>& body);

}  // namespace norn::tools
