// SPDX-License-Identifier: Apache-2.0
// The time of a step on one rank of a machine that is described: its ops' work by the description's
// rates.
#include "src/engine/plan/step_plan.h"

#include "kernels/cuda.h"
#include "src/engine/plan/plan_settings.h"
#include "src/step/program.h"

#include <algorithm>

namespace norn {
namespace {

// Adds to the stage of that name.
void add(std::vector<StagePlan>& stages, const StagePlan& part) {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const StagePlan& stage) {
    return stage.name == part.name && stage.communicates == part.communicates;
  });
  if (found == stages.end()) return stages.push_back(part);
  found->seconds += part.seconds;
  found->flops += part.flops;
  found->bytes += part.bytes;
}

// What a step takes on a machine.
class StepTimes {
 public:
  StepTimes(const MachineDescription& machine, Precision precision)
      : machine_(machine), device_(machine.device), rates_(machine.products_in(precision)) {}

  void add_work(StepPlan& plan, OpPlan& op, const step::Work& work) const {
    const double seconds = seconds_of(work);
    if (seconds == 0.0) return;
    const StagePlan part{work.stage, work.flops, work.bytes, seconds, false};
    add(op.stages, part);
    add(plan.stages, part);
    plan.overlappable_seconds += work.late * seconds;
  }

  // Seconds of it that may go beside computation.
  double add_traffic(StepPlan& plan, OpPlan& op, const CollectivePlan& collective) const {
    const double seconds =
        collective.count * collective_seconds(collective, machine_, plan.ranks, plan.nodes);
    const StagePlan part{collective.stage, 0, collective.count * collective.bytes, seconds, true};
    add(op.stages, part);
    add(plan.stages, part);
    plan.communication_seconds += seconds;
    return collective.overlaps ? seconds : 0.0;
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
    const double evaluating = 1e-9 * work.evaluated / device_.giga_outputs;
    const double calls = 1e-6 * work.calls;
    switch (work.kind) {
      case product:
        return std::max(flop_seconds(work.flops / work.filled, rates_.product_share), moving) +
               calls * device_.calls.product_microseconds;
      case loss_product:
        return std::max(flop_seconds(work.flops, rates_.output_share), moving) + evaluating +
               calls * device_.calls.output_microseconds;
      case update:
        return flop_seconds(work.flops, rates_.update_share) + moving +
               calls * device_.calls.update_microseconds;
      case pass:
      case rows:
        break;
    }
    const double rows_too = work.kind == rows ? moving / device_.row_share : moving;
    return rows_too + 1e-9 * work.gathered / device_.cache_gigabytes + evaluating +
           calls * device_.calls.other_microseconds;
  }

  const MachineDescription& machine_;
  const DeviceDescription& device_;
  const ProductRates& rates_;
};

}  // namespace

double OpPlan::seconds() const {
  double sum = 0.0;
  for (const StagePlan& stage : stages) sum += stage.seconds;
  return sum;
}

StepPlan plan_step(const Graph& graph, const PlanSettings& settings,
                   const MachineDescription& machine, int nodes) {
  StepPlan plan;
  plan.ranks = settings.ranks;
  plan.nodes = nodes;
  plan.batch = settings.batch;
  const StepFacts facts(graph, step_settings(graph, settings));
  const std::vector<step::OpCost> costs = step::costs_of(step::compile_training(facts), facts);
  const StepTimes times(machine, settings.device.precision);
  for (const step::OpCost& cost : costs) {
    OpPlan& op = plan.ops.emplace_back(OpPlan{cost.name, cost.place, {}});
    for (const step::Work& work : cost.work) times.add_work(plan, op, work);
  }
  for (std::size_t i = 0; settings.on_gpu() && nodes > 1 && i < costs.size(); ++i)
    for (const CollectivePlan& of : costs[i].traffic)
      times.add_work(plan, plan.ops[i],
                     {.stage = "columns packed", .bytes = of.packed, .calls = of.packings});
  for (const StagePlan& stage : plan.stages) plan.compute_seconds += stage.seconds;
  double overlapping = 0.0;
  for (std::size_t i = 0; i < costs.size(); ++i)
    for (const CollectivePlan& of : costs[i].traffic)
      overlapping += times.add_traffic(plan, plan.ops[i], of);
  plan.overlapped_seconds = std::min(machine.overlap * overlapping, plan.overlappable_seconds);
  return plan;
}

std::vector<TensorPlan> plan_tensors(const Graph& graph, const PlanSettings& settings) {
  const StepFacts facts(graph, step_settings(graph, settings));
  StepTensors tensors(facts);
  const std::vector<step::TensorUses> uses =
      step::uses_of(step::compile_training(facts), facts, tensors);
  const auto numbers = [&](const Tensor& tensor, auto list) {
    std::vector<int> ops;
    for (std::size_t op = 0; op < uses.size(); ++op)
      if (std::ranges::count(uses[op].*list, &tensor) > 0) ops.push_back(int(op));
    return ops;
  };
  std::vector<TensorPlan> plan;
  tensors.for_each(facts, [&](const std::string& owner, auto& array) {
    const Tensor& tensor = array.tensor();
    if (tensor.empty()) return;
    TensorPlan entry;
    entry.name = owner.empty() ? tensor.use : owner + " " + tensor.use;
    entry.tensor = tensor;
    entry.read_by = numbers(tensor, &step::TensorUses::read);
    entry.written_by = numbers(tensor, &step::TensorUses::written);
    const step::Lifetime lifetime = step::lifetime_of(tensor, uses);
    entry.first_op = lifetime.first;
    entry.last_op = lifetime.last;
    const auto same = std::ranges::find_if(plan, [&](const TensorPlan& other) {
      return other.name == entry.name && other.tensor.rows == tensor.rows &&
             other.tensor.cols == tensor.cols && other.tensor.element == tensor.element &&
             other.read_by == entry.read_by && other.written_by == entry.written_by;
    });
    same != plan.end() ? void(++same->count) : plan.push_back(std::move(entry));
  });
  return plan;
}

std::int64_t most_live_bytes(const std::vector<TensorPlan>& tensors) {
  int ops = 0;
  for (const TensorPlan& plan : tensors) ops = std::max(ops, plan.last_op + 1);
  std::vector<std::int64_t> live(std::size_t(ops), 0);
  for (const TensorPlan& plan : tensors)
    for (int op = std::max(plan.first_op, 0); op <= plan.last_op; ++op)
      if (plan.tensor.purpose == Purpose::working)
        live[std::size_t(op)] += plan.count * plan.tensor.bytes();
  return live.empty() ? 0 : *std::ranges::max_element(live);
}

void take_measured(StepPlan& plan, double compute_seconds) {
  const double factor = compute_seconds / plan.compute_seconds;
  const auto take = [factor](std::vector<StagePlan>& stages) {
    for (StagePlan& stage : stages)
      if (!stage.communicates) stage.seconds *= factor;
  };
  take(plan.stages);
  for (OpPlan& op : plan.ops) take(op.stages);
  plan.compute_seconds = compute_seconds;
  plan.overlappable_seconds *= factor;
  plan.overlapped_seconds = std::min(plan.overlapped_seconds, plan.overlappable_seconds);
}

// Arrays are gone through as fast as an update goes through weights and their state; a sparse
// product reads 4 bytes for two operations.
MachineDescription measured_machine(const WorkRates& rates, const UpdateRule& rule) {
  MachineDescription machine;
  DeviceDescription& device = machine.device;
  device.is_gpu = false;
  device.gigabytes = 1e-9 * rates.updated_weights * 2.0 * sizeof(float) * (1.0 + slots_of(rule));
  device.cache_gigabytes = 1e-9 * rates.sparse_flops * sizeof(float) / 2.0;
  device.giga_outputs = 1e-9 * rates.pointwise_elements;
  device.products = {{.precision = Precision::fp32, .teraflops = 1e-12 * rates.dense_flops}};
  return machine;
}

PlanSettings settings_on(const MachineDescription& machine, Precision precision,
                         PlanSettings settings) {
  const DeviceDescription& device = machine.device;
  if (!device.is_gpu) precision = Precision::fp32;
  machine.products_in(precision);
  settings.lanes = device.is_gpu ? 1 : device.threads;
  settings.device = {.block_rule = device.is_gpu ? cuda_block_rule() : BlockRule{},
                     .is_host = !device.is_gpu,
                     .precision = precision,
                     .computes_in_bf16 = precision == Precision::bf16};
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
