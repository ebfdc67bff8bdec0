// SPDX-License-Identifier: Apache-2.0
// Plans of runs, on this machine and on machines that need not be at hand.
#include "norn/run/plan.h"

#include "norn/base/error.h"
#include "norn/nn/machine.h"
#include "src/engine/data/data_names.h"
#include "src/run/automatic/ease_part.h"
#include "src/run/automatic/settings.h"
#include "src/run/plan_parts.h"
#include "src/run/preparation.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::run {
namespace {

constexpr int kMostScaling = 4096;  // ranks that are looked at to find where more stop paying

// Of the recipe "auto" the network that it begins with, and counts its budget in.
PreparedRun prepare(TrainOptions options, Communicator& communicator) {
  options.check();
  if (is_automatic(options)) {
    options.recipe = recipe_names().front();
    options.budget.reset();
  }
  const std::optional<RunRecord> repeated = settle(options);
  const Log log = shared_log(options.log, communicator);
  TrainingStart start = start_run(options, repeated, communicator, log);
  if (start.network.training.method != TrainingMethod::steps)
    throw UsageError(
        "a plan is of steps, and EASE makes none: without it the run says what it takes before it "
        "computes anything");
  PreparedRun run;
  run.data = bind_data(start, options, log);
  run.validation = open_validation(options, start.network, *run.data, log);
  make_run_graph(start, options, communicator, log, run);
  return run;
}

std::optional<EasePlan> ease_of_search(const TrainOptions& options, const PreparedRun& run) {
  const DataSources sources = data_sources(options, "`recipe` auto");
  SearchFacts facts = facts_of(options);
  facts.data = recipe_facts(kAutoDataset, sources);
  return plan_ease(options, sources, run, options.budget.value_or(kSearchBudget), facts);
}

PlannedStep planned(const StepPlan& step, std::int64_t memory_bytes) {
  return {step.ranks,
          step.nodes,
          step.seconds(),
          step.communication_seconds,
          step.examples_per_second(),
          memory_bytes};
}

}  // namespace

RunPlan plan(const TrainOptions& options) {
  RunPlan plan;
  plan.ranks = ranks_of(options);
  auto run = std::make_shared<PreparedRun>(prepare(options, *plan.ranks));
  plan_on_device(options, *plan.ranks, *run);
  if (is_automatic(options)) plan.ease = ease_of_search(options, *run);
  plan.weights = run->memory.weights;
  plan.memory_bytes = run->memory.total_bytes();
  plan.available_bytes = run->available_bytes;
  run->data.reset();  // contents that were read are needed no longer
  run->validation = {};
  plan.run = std::move(run);
  return plan;
}

int choose_nodes(std::optional<int> wanted, int ranks, const MachineDescription& machine) {
  if (!wanted) return nodes_of(machine, ranks);
  if (ranks % *wanted != 0)
    throw UsageError(fmt::format(
        "`nodes` {} does not divide {} ranks; give `nodes` a divisor of them, or leave it out",
        *wanted, ranks));
  if (const int each = ranks / *wanted; each > machine.ranks_per_node)
    throw UsageError(
        fmt::format("`nodes` {}: {} ranks would stand on each, but the machine \"{}\" has room for "
                    "{} (RanksPerNode); give `nodes` {} or more",
                    *wanted, each, machine.name, machine.ranks_per_node, nodes_of(machine, ranks)));
  return *wanted;
}

MachinePlan plan_on_machine(const TrainOptions& options, const MachineDescription& machine,
                            int ranks, std::optional<int> nodes) {
  const std::shared_ptr<Communicator> here = ranks_of(options);
  PreparedRun run = prepare(options, *here);
  run.settings.ranks = ranks;
  auto parts = std::make_shared<MachinePlanParts>();
  parts->graph = std::move(run.graph);
  parts->machine = machine;
  const Precision precision = options.device.gpu_options.precision;
  parts->precision = machine.device.is_gpu ? precision : Precision::fp32;
  parts->available_bytes = memory_of_rank(machine);
  parts->settings = settings_on(machine, precision, std::move(run.settings));
  parts->settings.data_on_gpu =
      choose_data_on_gpu(parts->graph, parts->settings, options.data_place, parts->available_bytes);
  parts->memory = plan_memory(parts->graph, parts->settings);
  parts->step =
      plan_step(parts->graph, parts->settings, machine, choose_nodes(nodes, ranks, machine));
  parts->scaling = plan_scaling(parts->graph, parts->settings, machine,
                                std::max(parts->settings.ranks, kMostScaling));
  MachinePlan plan;
  plan.weights = parts->memory.weights;
  plan.step = planned(parts->step, parts->memory.total_bytes());
  plan.available_bytes = parts->available_bytes;
  for (const ScalingPlan& each : parts->scaling)
    plan.scaling.push_back(planned(each.step, each.memory_bytes));
  plan.parts = std::move(parts);
  return plan;
}

}  // namespace norn::run
