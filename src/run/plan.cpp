// SPDX-License-Identifier: Apache-2.0
// Plans of runs, on this machine and on machines that need not be at hand.
#include "norn/run/plan.h"

#include "norn/base/error.h"
#include "norn/nn/machine.h"
#include "src/run/preparation.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::run {
namespace {

constexpr int kMostScaling = 4096;  // ranks that are looked at to find where more stop paying

PreparedRun prepare(TrainOptions options, Communicator& communicator) {
  const std::optional<RunRecord> repeated = settle(options);
  const Log log = shared_log(options.log, communicator);
  TrainingStart start = start_run(options, repeated, communicator, log);
  PreparedRun run;
  run.data = bind_data(start, options, log);
  run.validation = open_validation(options, start.network, *run.data, log);
  make_run_graph(start, options, communicator, log, run);
  return run;
}

}  // namespace

RunPlan plan(const TrainOptions& options) {
  const std::shared_ptr<Communicator> ranks = ranks_of(options);
  PreparedRun run = prepare(options, *ranks);
  plan_on_device(options, *ranks, run);
  return {ranks,
          std::move(run.runtime),
          std::move(run.context),
          std::move(run.graph),
          std::move(run.settings),
          std::move(run.memory),
          run.available_bytes};
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
  MachinePlan plan;
  plan.graph = std::move(run.graph);
  plan.machine = machine;
  const Precision precision = options.device.cuda.precision;
  plan.precision = machine.device.is_gpu ? precision : Precision::fp32;
  plan.available_bytes = memory_of_rank(machine);
  plan.settings = settings_on(machine, precision, std::move(run.settings));
  plan.settings.data_on_gpu =
      choose_data_on_gpu(plan.graph, plan.settings, options.data_place, plan.available_bytes);
  plan.memory = plan_memory(plan.graph, plan.settings);
  plan.step = plan_step(plan.graph, plan.settings, machine, choose_nodes(nodes, ranks, machine));
  plan.scaling =
      plan_scaling(plan.graph, plan.settings, machine, std::max(plan.settings.ranks, kMostScaling));
  return plan;
}

}  // namespace norn::run
