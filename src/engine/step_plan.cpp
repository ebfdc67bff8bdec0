// SPDX-License-Identifier: Apache-2.0
// The time of a step on one rank of a machine that is described: its ops' work by the description's
// rates.
#include "norn/engine/step_plan.h"

#include "norn/kernels/cuda.h"
#include "src/engine/plan_settings.h"
#include "src/step/program.h"

#include <algorithm>

namespace norn {
namespace {

Precision precision_of(const PlanSettings& settings) {
  return settings.rounds_operands  ? Precision::bf16
         : settings.turns_operands ? Precision::tf32
                                   : Precision::fp32;
}

// Work by stages, in the order in which they first come.
class StageTimes {
 public:
  StageTimes(const DeviceDescription& device, const ProductRates& rates)
      : device_(device), rates_(rates) {}
  const std::vector<StagePlan>& stages() const { return stages_; }
  // Of updates that may go beside the joining of deltas.
  double late_seconds() const { return late_; }

  void add(const step::Work& work) {
    const double seconds = seconds_of(work);
    if (seconds == 0.0) return;
    auto found = std::find_if(stages_.begin(), stages_.end(),
                              [&](const StagePlan& s) { return s.name == work.stage; });
    if (found == stages_.end())
      found = stages_.insert(found, StagePlan{work.stage, 0, 0, 0, false});
    found->seconds += seconds;
    found->flops += work.flops;
    found->bytes += work.bytes;
    late_ += work.late * seconds;
  }

 private:
  double flop_seconds(double flops, double share) const {
    return 1e-12 * flops / (rates_.teraflops * share);
  }

  // Rates are given in 10^9 a second. Products read their weights once; where those are few
  // examples', that takes longer.
  double seconds_of(const step::Work& work) const {
    using enum step::Work::Kind;
    const double moving = 1e-9 * work.bytes / device_.gigabytes;
    const double judging = 1e-9 * work.judged / device_.giga_outputs;
    const double calls = 1e-6 * work.calls;
    switch (work.kind) {
      case product:
        return std::max(flop_seconds(work.flops, rates_.product_share), moving) +
               calls * device_.calls.product_microseconds;
      case judged_product:
        return std::max(flop_seconds(work.flops, rates_.output_share), moving) + judging +
               calls * device_.calls.output_microseconds;
      case update:
        return flop_seconds(work.flops, rates_.update_share) + moving +
               calls * device_.calls.update_microseconds;
      case pass:
      case rows:
        break;
    }
    const double rows_too = work.kind == rows ? moving / device_.row_share : moving;
    return rows_too + 1e-9 * work.gathered / device_.cache_gigabytes + judging +
           calls * device_.calls.other_microseconds;
  }

  const DeviceDescription& device_;
  const ProductRates& rates_;
  std::vector<StagePlan> stages_;
  double late_ = 0.0;
};

void add_communication(StepPlan& plan, const std::vector<CollectivePlan>& traffic,
                       const MachineDescription& machine) {
  const std::size_t first = plan.stages.size();
  double beside = 0.0;
  for (const CollectivePlan& collective : traffic) {
    auto found = std::find_if(plan.stages.begin() + std::ptrdiff_t(first), plan.stages.end(),
                              [&](const StagePlan& s) { return s.name == collective.stage; });
    if (found == plan.stages.end())
      found = plan.stages.insert(found, StagePlan{collective.stage, 0, 0, 0, true});
    const double seconds =
        collective.count * collective_seconds(collective, machine, plan.ranks, plan.nodes);
    found->seconds += seconds;
    found->bytes += collective.count * collective.bytes;
    plan.communication_seconds += seconds;
    if (collective.beside) beside += seconds;
  }
  plan.overlapped_seconds = std::min(machine.overlap * beside, plan.later_seconds);
}

}  // namespace

StepPlan plan_step(const Graph& graph, const PlanSettings& settings,
                   const MachineDescription& machine, int nodes) {
  StepPlan plan{settings.ranks, nodes, settings.batch, {}, 0.0, 0.0, 0.0, 0.0};
  const StepFacts facts(graph, step_settings(graph, settings));
  const step::Program program = step::compile_training(facts);
  const std::vector<CollectivePlan> traffic = step::traffic_of(program, facts);
  StageTimes times(machine.device, machine.products_in(precision_of(settings)));
  for (const step::Work& work : step::work_of(program, facts)) times.add(work);
  if (settings.on_gpu && nodes > 1)
    for (const CollectivePlan& collective : traffic)
      times.add(
          {.stage = "columns packed", .bytes = collective.packed, .calls = collective.packings});
  plan.stages = times.stages();
  plan.later_seconds = times.late_seconds();
  for (const StagePlan& stage : plan.stages) plan.compute_seconds += stage.seconds;
  add_communication(plan, traffic, machine);
  return plan;
}

StepPlan plan_communication(const Graph& graph, const PlanSettings& settings,
                            const MachineDescription& machine, int nodes, double compute_seconds) {
  StepPlan plan{settings.ranks, nodes, settings.batch, {}, compute_seconds, 0.0, 0.0, 0.0};
  plan.later_seconds = compute_seconds;
  add_communication(plan, plan_collectives(graph, settings), machine);
  return plan;
}

PlanSettings settings_on(const MachineDescription& machine, Precision precision,
                         PlanSettings settings) {
  const DeviceDescription& device = machine.device;
  if (!device.is_gpu) precision = Precision::fp32;
  machine.products_in(precision);
  settings.on_gpu = device.is_gpu;
  settings.lanes = device.is_gpu ? 1 : device.threads;
  settings.block_rule = device.is_gpu ? cuda_block_rule() : BlockRule{};
  settings.rounds_operands = precision == Precision::bf16;
  settings.turns_operands = precision == Precision::tf32;
  return settings;
}

std::int64_t memory_of_rank(const MachineDescription& machine) {
  return std::int64_t(machine.device.memory_gib * 0x1p30);
}

int nodes_of(const MachineDescription& machine, int ranks) {
  return (ranks + machine.ranks_per_node - 1) / machine.ranks_per_node;
}

std::vector<ScalingPlan> plan_scaling(const Graph& graph, PlanSettings settings,
                                      const MachineDescription& machine, int most) {
  std::vector<ScalingPlan> plans;
  for (int ranks = 1;; ranks = std::min(2 * ranks, most)) {
    settings.ranks = ranks;
    plans.push_back({plan_step(graph, settings, machine, nodes_of(machine, ranks)),
                     plan_memory(graph, settings).total_bytes()});
    if (ranks == most) return plans;
  }
}

int ranks_that_pay(const std::vector<ScalingPlan>& plans) {
  for (std::size_t i = 1; i < plans.size(); ++i)
    if (plans[i].step.seconds() > (1.0 - kLeastGain) * plans[i - 1].step.seconds())
      return plans[i - 1].step.ranks;
  return plans.back().step.ranks;
}

}  // namespace norn
