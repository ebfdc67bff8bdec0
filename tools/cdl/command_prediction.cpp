// SPDX-License-Identifier: Apache-2.0
// Command Predict of DSSTNE's command files: how well a model ranks, in DSSTNE's ten lines.
#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/engine/evaluator.h"
#include "src/run/model_session.h"
#include "src/run/preparation.h"
#include "tools/common/progress.h"
#include "tools/common/stop_signals.h"
#include "tools/prediction/prediction_run.h"
#include "tools/training/trainer_options.h"

#include <cstdio>
#include <fstream>

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

void write_results(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

int run_command_prediction(const PredictorOptions& options, MpiSession& session) {
  Console console("predictor", session.rank(), options.run.level());
  for (const std::string& note : options.cdl_notes) console.warning(note);
  const std::shared_ptr<Communicator> communicator = session.world(options.run.collective_timeout);
  const ModelInfo info = run::open_model_info(options.model, *communicator);
  const ModelUnits units = run::units_of(info, options.trust_index);
  const DataBinding data(
      info.network,
      {options.data, options.data, parse_bytes("--data-memory", options.data_memory),
       options.model.string(), &units, run::shared_log(console.log(), *communicator)},
      DataBinding::Layers::inputs_and_outputs);
  EvaluationSettings settings;
  settings.output_layer = run::choose_layer(info.network, options.layer);
  settings.seen = options.exclude_seen ? SeenUnits::leave_out : SeenUnits::keep;
  settings.ks.clear();
  for (Index k = 1; k <= kLines; ++k) settings.ks.push_back(k);
  const std::unique_ptr<Runtime> runtime = make_runtime(options.run.device_choice(), *communicator);
  const std::unique_ptr<Network> network = run::load_network(
      options.model, info, data.shapes(), *runtime, runtime->context(*communicator, console.log()),
      std::min(options.batch, data.examples()));
  const StopSignals signals;
  Progress progress(console, data.examples(), "examples");
  settings.on_batch = [&](Index done) {
    signals.throw_if_requested();
    progress.update(done);
  };
  const std::string text = lines_of(evaluate(*network, data, settings));
  console.set_status("");
  if (session.rank() != 0) return 0;
  if (!options.output.empty() && options.output != "-") write_results(options.output, text);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace norn::tools
