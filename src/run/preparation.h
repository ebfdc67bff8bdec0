// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/run/run_record.h"
#include "src/run/training_start.h"
#include "src/run/validation_data.h"

#include <memory>
#include <optional>

/// What comes before the first step, of a run and of its plan.
namespace norn::run {

/// A run whose data are open and whose graph is known. Data sets may come to stand in the memory of
/// the runtime, so it outlives them.
struct PreparedRun {
  std::unique_ptr<Runtime> runtime;  ///< null until compute_on_device()
  std::unique_ptr<Context> context;
  std::unique_ptr<DataBinding> data;
  RunValidation validation;
  Graph graph;
  PlanSettings settings;  ///< what a plan depends on wherever it is for
  MemoryPlan memory;
  std::int64_t available_bytes = 0;
};

/// With `repeat`: the record of the run that is made again, from which the options take what is not
/// set. Throws UsageError for settings that no run can have.
std::optional<RunRecord> settle(TrainOptions& options);
/// Where the run starts. All ranks call it together.
TrainingStart start_run(const TrainOptions& options, const std::optional<RunRecord>& repeated,
                        Communicator& communicator, const Log& log);

/// The communicator of a run: the one that was given, or one of a single process.
std::shared_ptr<Communicator> ranks_of(const TrainOptions& options);
/// For what every rank would say: rank 0 says it.
Log shared_log(const Log& log, const Communicator& communicator);
/// Passes on what `log` takes, but no warning that was the same before: every candidate of a search
/// reads the same data.
Log warning_once(const Log& log);

/// Opens the data of a start, with a model's units where the run begins with its weights; features
/// of units enter its network.
std::unique_ptr<DataBinding> bind_data(TrainingStart& start, const TrainOptions& options,
                                       const Log& log);

/// What a plan depends on wherever it is for.
PlanSettings plan_settings(const PreparedRun& run, const TrainOptions& options, int ranks);

/// Settles the batch, makes the graph and checks that the run can be made. `data` and `validation`
/// are open.
void make_run_graph(TrainingStart& start, const TrainOptions& options, Communicator& communicator,
                    const Log& log, PreparedRun& run);

/// Makes the runtime and plans the memory there. Nothing large is allocated.
void plan_on_device(const TrainOptions& options, Communicator& communicator, PreparedRun& run);

}  // namespace norn::run
