// SPDX-License-Identifier: Apache-2.0
// The program `trainer`: trains a network.
#include "tools/doctor/run.h"
#include "tools/training/training_run.h"

int main(int argc, char** argv) {
  using namespace norn::tools;
  FailureSink record_failure;
  const auto body = [&](norn::MpiSession& session) {
    TrainerOptions options;
    const CommandLine line = trainer_command_line(options);
    if (line.parse(argc, argv) == CommandLine::Outcome::answered) return 0;
    if (options.doctor) return run_doctor(options, session);
    options.called_as.assign(argv, argv + argc);
    options.choose_log_format(line);
    if (options.check_gradients || options.command == norn::CommandKind::validate)
      return run_gradient_check(options, session);
    return run_training(options, session, record_failure);
  };
  const auto failed = [&](const std::string& message, int exit_code) {
    if (record_failure) record_failure(message, exit_code);
  };
  return run_program(argc, argv, "trainer", body, failed);
}
