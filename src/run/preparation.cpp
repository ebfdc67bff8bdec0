// SPDX-License-Identifier: Apache-2.0
// From where a run starts to what it is: data, graph, device and memory.
#include "src/run/preparation.h"

#include "norn/base/error.h"
#include "src/engine/data/unit_feature_sets.h"
#include "src/nn/graph.h"
#include "src/run/model_session.h"
#include "src/run/ranks.h"
#include "src/run/repeated_run.h"
#include "src/run/resumed_run.h"

#include <mutex>
#include <set>

namespace norn::run {
namespace {

void settle_batch(TrainingStart& start, const TrainOptions& options, Index examples,
                  Communicator& communicator, const Log& log) {
  if (!start.resumed) return fit_batch(start, options, examples, log);
  require_place(start, examples);
  compare_descriptor(start, options, examples, communicator, log);
}

// What is not given is that of the run that is made again.
void take(const RunRecord& recorded, TrainOptions& options) {
  const bool has_data = !options.sets.empty();
  if (options.inputs.empty() && !has_data) options.inputs = recorded.inputs;
  if (options.outputs.empty() && !has_data) options.outputs = recorded.outputs;
  ValidationSettings& validation = options.validation;
  const bool validates = !validation.sets.empty();
  if (validation.inputs.empty() && !validates) validation.inputs = recorded.validation_inputs;
  if (validation.outputs.empty() && !validates) validation.outputs = recorded.validation_outputs;
  if (options.model.empty()) options.model = recorded.facts.model;
  if (options.trust_index && !recorded.trust_index.value_or(true))
    throw UsageError(
        "`trust_index` cannot be given with `repeat` of a run that was made without it; leave it "
        "out");
  options.trust_index = recorded.trust_index.value_or(options.trust_index);
}

}  // namespace

std::optional<RunRecord> settle(TrainOptions& options) {
  options.check();
  if (options.repeat.empty()) return {};
  RunRecord recorded = read_run_record(options.repeat);
  take(recorded, options);
  options.check();
  return recorded;
}

TrainingStart start_run(const TrainOptions& options, const std::optional<RunRecord>& repeated,
                        Communicator& communicator, const Log& log) {
  return repeated ? start_repeated(*repeated, options, communicator, log)
                  : start_training(options, communicator, log);
}

std::shared_ptr<Communicator> ranks_of(const TrainOptions& options) {
  return options.ranks ? options.ranks : std::shared_ptr<Communicator>(make_single_process());
}

Log shared_log(const Log& log, const Communicator& communicator) {
  return communicator.rank() == 0 ? log : Log();
}

Log warning_once(const Log& log) {
  struct Said {
    std::mutex mutex;
    std::set<std::string> warnings;
  };
  const auto said = std::make_shared<Said>();
  return Log([log, said](LogLevel level, const std::string& message) {
    if (level == LogLevel::debug) return log.debug(message);
    if (level == LogLevel::info) return log.info(message);
    {
      const std::lock_guard lock(said->mutex);
      if (!said->warnings.insert(message).second) return;
    }
    log.warning(message);
  });
}

std::unique_ptr<DataBinding> bind_data(TrainingStart& start, const TrainOptions& options,
                                       const Log& log) {
  const ModelUnits units = start.info ? units_of(*start.info, options.trust_index) : ModelUnits();
  DataSources sources = data_sources(options, start.where);
  sources.units = start.info ? &units : nullptr;
  sources.log = log;
  attach_features(start.network, sources);
  return std::make_unique<DataBinding>(start.network, sources,
                                       DataBinding::Layers::inputs_and_outputs);
}

PlanSettings plan_settings(const PreparedRun& run, const TrainOptions& options, int ranks) {
  PlanSettings settings;
  settings.batch = run.graph.network.training.batch;
  settings.ranks = ranks;
  settings.keeps_state = options.verify > 0;
  for (const Dataset* set : run.data->sets()) settings.sets.push_back(set->info());
  settings.data_memory_bytes = options.memory_bytes;
  settings.validation = plan_validation(run.graph.network, run.validation.view());
  return settings;
}

void make_run_graph(TrainingStart& start, const TrainOptions& options, Communicator& communicator,
                    const Log& log, PreparedRun& run) {
  settle_batch(start, options, run.data->examples(), communicator, log);
  run.graph = make_graph(start.network, run.data->shapes(), start.where);
  require_runnable(run.graph, Use::training, start.where);
  check_validation(run.validation, run.graph.network, *run.data);
  if (start.weights) check_model_sizes(*start.weights, run.graph, communicator);
  run.settings = plan_settings(run, options, communicator.size());
}

void plan_on_device(const TrainOptions& options, Communicator& communicator, PreparedRun& run) {
  run.runtime = make_runtime(options.device, communicator);
  run.context = std::make_unique<Context>(run.runtime->context(communicator, options.log));
  PlanSettings& settings = run.settings;
  set_device(settings, run.context->compute);
  const std::int64_t free = run.runtime->available_bytes();
  settings.data_on_gpu = choose_data_on_gpu(run.graph, settings, options.data_place, free);
  settings.program_bytes = program_bytes();
  run.memory = plan_memory(run.graph, settings);
  // The program runs and the data sets are open: what they hold of main memory is taken already.
  run.available_bytes = settings.on_gpu() ? free
                                          : free / ranks_on_this_host() + run.memory.data_bytes +
                                                settings.program_bytes;
}

}  // namespace norn::run
