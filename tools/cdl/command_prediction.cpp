// SPDX-License-Identifier: Apache-2.0
// Command Predict of DSSTNE's command files: how well a model ranks, in DSSTNE's ten lines.
#include "norn/run/evaluate.h"
#include "src/base/atomic_file.h"
#include "tools/common/progress.h"
#include "tools/common/stop_signals.h"
#include "tools/prediction/prediction_run.h"

#include <cstdio>
#include <numeric>
#include <optional>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr Index kLines = 10;

std::string lines_of(const Evaluation& evaluation) {
  std::string text;
  for (const MetricsAtK& at : evaluation.metrics)
    text += fmt::format("{},{:.4f},{:.4f},{:.4f}\n", at.k, at.of<metric::Precision>(),
                        at.of<metric::Recall>(), at.of<metric::NdcgOfAll>());
  return text;
}

}  // namespace

int run_command_prediction(const PredictorOptions& options, MpiSession& session) {
  Console console("predictor", session.rank(), options.run.level());
  for (const std::string& note : options.cdl_notes) console.warning(note);
  run::Model model(options.model,
                   {options.run.device_choice(), session.world(options.run.collective_timeout),
                    console.log(), options.batch, options.trust_index});
  run::EvaluateOptions settings;
  settings.data = options.data;
  settings.memory_bytes = options.memory_bytes;
  settings.layer = options.layer;
  settings.seen = options.exclude_seen ? SeenUnits::leave_out : SeenUnits::keep;
  settings.top.resize(kLines);
  std::iota(settings.top.begin(), settings.top.end(), Index(1));
  const StopSignals signals;
  std::optional<Progress> progress;
  settings.on_batch = [&](Index done, Index examples) {
    signals.throw_if_requested();
    if (!progress) progress.emplace(console, examples, "examples");
    progress->update(done);
  };
  const std::string text = lines_of(run::evaluate(model, settings).model);
  progress.reset();
  if (session.rank() != 0) return 0;
  if (!options.output.empty() && options.output != "-") write_file(options.output, text);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace norn::tools
