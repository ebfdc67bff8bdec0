// SPDX-License-Identifier: Apache-2.0
// The program `predictor`: recommends units for examples.
#include "tools/prediction/prediction_run.h"

int main(int argc, char** argv) {
  using namespace norn::tools;
  return run_program(argc, argv, "predictor", [&](norn::MpiSession& session) {
    PredictorOptions options;
    const CommandLine line = predictor_command_line(options);
    if (line.parse(argc, argv) == CommandLine::Outcome::answered) return 0;
    if (!options.cdl.empty()) return run_command_prediction(options, session);
    return run_prediction(options, session);
  });
}
