// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/parallel/mpi_session.h"
#include "src/parallel/communicator.h"
#include "tools/common/command_line.h"
#include "tools/common/console.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

/// What every program does around its work: MPI, errors and exit codes, the options that all share.
namespace norn::tools {

/// Removes what killed processes left of a program's output when an error ends the run: one of the
/// ranks may have been killed while it wrote.
class OutputGuard {
 public:
  explicit OutputGuard(std::filesystem::path output);
  ~OutputGuard();
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;

 private:
  std::filesystem::path output_;
};

/// Called on the rank that tells an error, with its message and the exit code.
using FailureSink = std::function<void(const std::string& message, int exit_code)>;

/// Runs `body` and returns the exit code of main(). The one place where exceptions are caught: each
/// error becomes a line `trainer: error: ...` on stderr, or with --errors=json a JSON document, and
/// its exit code, and is passed to `failed`, if there is one. When one rank of several fails, all
/// are ended.
int run_program(int argc, char** argv, const std::string& program,
                const std::function<int(MpiSession&)>& body, const FailureSink& failed = {});

}  // namespace norn::tools
