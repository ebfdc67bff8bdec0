// SPDX-License-Identifier: Apache-2.0
// Plans of runs on machines that need not be at hand.
#include "tools/training/machine_plan.h"

#include "norn/base/error.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr int kMostScaling = 4096;  // ranks that are looked at to find where more stop paying

}  // namespace

int choose_nodes(std::optional<int> wanted, int ranks, const MachineDescription& machine) {
  if (!wanted) return nodes_of(machine, ranks);
  if (ranks % *wanted != 0)
    throw UsageError(fmt::format(
        "--nodes {} does not divide {} ranks; give --nodes a divisor of them, or leave it out",
        *wanted, ranks));
  if (const int each = ranks / *wanted; each > machine.ranks_per_node)
    throw UsageError(
        fmt::format("--nodes {}: {} ranks would stand on each, but the machine \"{}\" has room for "
                    "{} (RanksPerNode); give --nodes {} or more",
                    *wanted, each, machine.name, machine.ranks_per_node, nodes_of(machine, ranks)));
  return *wanted;
}

MachinePlan plan_on_machine(const Graph& graph, PlanSettings settings,
                            const MachineDescription& machine, Precision precision, int nodes,
                            DataOnGpu data_place) {
  MachinePlan plan;
  plan.machine = machine;
  plan.precision = machine.device.is_gpu ? precision : Precision::fp32;
  plan.available_bytes = memory_of_rank(machine);
  plan.settings = settings_on(machine, precision, std::move(settings));
  plan.settings.data_on_gpu =
      choose_data_on_gpu(graph, plan.settings, data_place, plan.available_bytes);
  plan.memory = plan_memory(graph, plan.settings);
  plan.step = plan_step(graph, plan.settings, machine, nodes);
  plan.scaling =
      plan_scaling(graph, plan.settings, machine, std::max(plan.settings.ranks, kMostScaling));
  return plan;
}

}  // namespace norn::tools
