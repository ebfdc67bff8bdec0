// SPDX-License-Identifier: Apache-2.0
// The program `evaluator`: ranking metrics of a model.
#include "tools/evaluation/evaluation_run.h"

int main(int argc, char** argv) {
  using namespace norn::tools;
  return run_program(argc, argv, "evaluator", [&](norn::MpiSession& session) {
    EvaluatorOptions options;
    const CommandLine line = evaluator_command_line(options);
    if (line.parse(argc, argv) == CommandLine::Outcome::answered) return 0;
    return run_evaluation(options, session);
  });
}
