// SPDX-License-Identifier: Apache-2.0
// The stages of a training step on one rank of a machine that is described: work as Network does
// it, time by the description's rates.
#include "norn/engine/step_plan.h"

#include "norn/kernels/cuda.h"
#include "src/engine/block_group.h"
#include "src/engine/plan_facts.h"
#include "src/engine/row_touches.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

constexpr double kFloat = sizeof(float);
constexpr double kRounded = sizeof(Bfloat16);
constexpr double kWord = sizeof(std::int64_t);

Precision precision_of(const PlanSettings& settings) {
  return settings.rounds_operands  ? Precision::bf16
         : settings.turns_operands ? Precision::tf32
                                   : Precision::fp32;
}

// Work and time of the rank with the most blocks.
class StepModel : private PlanFacts {
 public:
  StepModel(const Graph& graph, const PlanSettings& settings, const MachineDescription& machine,
            int nodes)
      : PlanFacts(graph, settings),
        device_(machine.device),
        rates_(machine.products_in(precision_of(settings))),
        packs_(settings.on_gpu && nodes > 1) {}

  std::vector<StagePlan> stages() {
    for (int layer : graph_.order)
      if (takes_part(layer) && !is_input(layer)) is_output(layer) ? output(layer) : forward(layer);
    for (auto it = graph_.order.rbegin(); it != graph_.order.rend(); ++it)
      if (takes_part(*it) && !is_input(*it) && !is_output(*it) && wants_delta(*it)) backward(*it);
    for (int layer : graph_.order)
      if (takes_part(layer) && !is_input(layer)) update_biases(layer);
    for (std::size_t e = 0; e < graph_.edges.size(); ++e)
      if (users(int(e)) > 1) update_shared(int(e));
    return std::move(stages_);
  }
  // Once there are stages: updates that may go beside the joining of deltas.
  double later_seconds() const { return later_; }

 private:
  // Time of a stage: of its calls, and of its work at rates that are given in 10^9 a second.
  void add(const char* stage, double seconds, double flops, double bytes) {
    if (seconds == 0.0) return;
    auto found = std::find_if(stages_.begin(), stages_.end(),
                              [&](const StagePlan& s) { return s.name == stage; });
    if (found == stages_.end()) found = stages_.insert(found, StagePlan{stage, 0, 0, 0, false});
    found->seconds += seconds;
    found->flops += flops;
    found->bytes += bytes;
  }
  double flop_seconds(double flops, double share) const {
    return 1e-12 * flops / (rates_.teraflops * share);
  }
  double byte_seconds(double bytes) const { return 1e-9 * bytes / device_.gigabytes; }

  double batch() const { return double(settings_.batch); }
  double rows_of(int layer) const { return batch() * double(mine(layer)); }
  double source_units(int edge) const {
    return double(layer_of(graph_.edges[std::size_t(edge)].source).units());
  }
  double own_weights(int edge) const {
    const Edge& e = graph_.edges[std::size_t(edge)];
    if (by_source(edge)) return double(mine(e.source)) * double(layer_of(e.destination).units());
    return source_units(edge) * double(mine(e.destination));
  }
  double operand() const { return settings_.rounds_operands ? kRounded : kFloat; }
  // A weight, and its state, read and written.
  double update_bytes() const { return 2.0 * kFloat * (1.0 + double(slots_)); }
  bool is_shared(int edge) const { return users(owner(edge)) > 1; }

  // Element-wise work on whole arrays.
  void pointwise(const char* stage, double bytes, double calls = 1.0) {
    add(stage, byte_seconds(bytes) + calls * 1e-6 * device_.calls.other_microseconds, 0.0, bytes);
  }

  // Products read their weights once; where those are few examples', that takes longer.
  void product(const char* stage, int edge, double calls) {
    const double flops = 2.0 * batch() * own_weights(edge);
    const double bytes = own_weights(edge) * operand();
    add(stage,
        std::max(flop_seconds(flops, rates_.product_share), byte_seconds(bytes)) +
            calls * 1e-6 * device_.calls.product_microseconds,
        flops, bytes);
  }

  // A GPU takes a hidden layer's blocks together.
  double calls_for(int layer) const {
    return settings_.on_gpu && !is_output(layer) ? 1.0 : double(my_blocks(layer));
  }

  struct SparseWork {
    double entries = 0.0;
    RowTouches rows;
  };
  SparseWork sparse_work(int edge) const {
    const int source = graph_.edges[std::size_t(edge)].source;
    const DatasetInfo* set = set_of(source);
    SparseWork work;
    work.entries = set ? batch() * entries_per_example(*set) : 0.0;
    work.rows = expected_touches(work.entries, layer_of(source).units());
    return work;
  }

  bool catches_rows_up() const {
    const TrainingDescriptor& training = graph_.network.training;
    return training.lambda != 0.0f || training.lambda1 != 0.0f ||
           !std::visit([](const auto& rule) { return rule.rests_without_gradient; },
                       training.optimizer);
  }

  double row_seconds(double bytes) const {
    return 1e-9 * bytes / (device_.gigabytes * device_.row_share);
  }
  double other_call() const { return 1e-6 * device_.calls.other_microseconds; }

  void sparse_forward(int edge, int layer) {
    const SparseWork work = sparse_work(edge);
    const double units = double(mine(layer));
    if (catches_rows_up() && !is_shared(edge)) {
      const double bytes = work.rows.returned * units * update_bytes();
      add("rows caught up", row_seconds(bytes) + other_call(), 0.0, bytes);
    }
    const double once = work.rows.touched * units * kFloat;
    const double gathered = work.entries * units * kFloat;
    add("sparse forward",
        byte_seconds(once) + 1e-9 * gathered / device_.cache_gigabytes + other_call(),
        2.0 * work.entries * units, once);
  }

  void sparse_update(int edge, int layer) {
    const SparseWork work = sparse_work(edge);
    const double units = double(mine(layer));
    const double bytes = work.rows.touched * units * update_bytes();
    const double gathered = work.entries * units * operand();
    add("sparse update",
        row_seconds(bytes) + 1e-9 * gathered / device_.cache_gigabytes + 3.0 * other_call(),
        2.0 * work.entries * units, bytes);
  }

  // Every own block of a source by source has a part of all pre-activations.
  void sum_sources(const char* stage, int layer) {
    for (int edge : graph_.sources[std::size_t(layer)]) {
      if (!by_source(edge)) continue;
      const double terms = double(my_blocks(graph_.edges[std::size_t(edge)].source));
      product(stage, edge, terms);
      add_terms(batch() * double(layer_of(layer).units()), terms);
    }
    if (sums_over_sources(layer)) {
      pack(layer, kWord, 2.0);
      pack(layer, kFloat);
    }
  }

  // Sums in fixed point: a GPU adds a few terms at a time.
  void add_terms(double elements, double terms) {
    const double at_once = settings_.on_gpu ? double(FixedTerms::kMost) : 1.0;
    const double sums = std::ceil(terms / at_once);
    pointwise("fixed point", elements * (terms * kFloat + sums * 2.0 * kWord), sums);
  }

  void forward(int layer) {
    sum_sources("hidden forward", layer);
    pre_activations("hidden forward", layer);
    const LayerDescriptor& descriptor = layer_of(layer);
    double each = 2.0 * kFloat;  // of an own unit: read and written
    if (keeps_outputs_before_dropout(descriptor, sparseness_of(graph_.network, descriptor)))
      each += kFloat;
    if (keeps_pre_activations(descriptor)) each += kFloat;
    if (descriptor.batch_normalization) each += 4.0 * kFloat;
    double whole = 0.0;  // of any unit: what products read
    if (settings_.rounds_operands) whole += kFloat + kRounded;
    if (settings_.turns_operands) whole += 2.0 * kFloat;
    if (is_softmax(layer)) whole += 2.0 * kFloat;
    const double skips = double(graph_.skips[std::size_t(layer)].size());
    pointwise("activation",
              rows_of(layer) * (each + 3.0 * kFloat * skips) +
                  batch() * double(descriptor.units()) * whole,
              whole > 0.0 ? 2.0 : 1.0);
    if (joins(layer)) pack(layer, operand());
  }

  // GPUs of several machines send columns packed: every owner's share is copied for itself. `bytes`
  // of an element.
  void pack(int layer, double bytes, double matrices = 1.0) {
    if (!packs_) return;
    const double owners = double(std::min<Index>(settings_.ranks, partition(layer).blocks()));
    pointwise("columns packed", 2.0 * matrices * bytes * batch() * double(layer_of(layer).units()),
              matrices * owners);
  }

  // A product whose result is used up in the kernel that makes it.
  void judged_product(const char* stage, int layer, double calls) {
    const int edge = graph_.sources[std::size_t(layer)][0];
    const double flops = 2.0 * batch() * own_weights(edge);
    const double bytes = own_weights(edge) * operand();
    add(stage,
        std::max(flop_seconds(flops, rates_.output_share), byte_seconds(bytes)) + judging(layer) +
            calls * 1e-6 * device_.calls.output_microseconds,
        flops, bytes);
  }
  double judging(int layer) const { return 1e-9 * rows_of(layer) / device_.giga_outputs; }

  // Product, cost and delta of the own units of an output layer.
  void judge(int layer) {
    const double units = rows_of(layer);
    if (may_fuse_delta(layer)) return judged_product("output forward", layer, output_calls(layer));
    if (!is_softmax(layer) || !keeps_z(layer)) pre_activations("output forward", layer);
    const double bytes = units * (2.0 * kFloat + (settings_.rounds_operands ? kRounded : 0.0));
    add("output delta", byte_seconds(bytes) + judging(layer) + calls_for(layer) * other_call(), 0.0,
        bytes);
  }

  void pre_activations(const char* stage, int layer) {
    for (int edge : graph_.sources[std::size_t(layer)])
      if (is_sparse_source(edge))
        sparse_forward(edge, layer);
      else if (!by_source(edge))
        product(stage, edge, calls_for(layer));
  }

  void output(int layer) {
    sum_sources("output forward", layer);
    if (is_softmax(layer) && may_fuse_delta(layer)) {
      const Index at_once = blocks_of_statistics(partition(layer), settings_.batch);
      judged_product("softmax rows", layer, std::ceil(double(my_blocks(layer)) / double(at_once)));
    } else if (is_softmax(layer)) {
      pre_activations("softmax rows", layer);
      pointwise("softmax rows", 2.0 * rows_of(layer) * kFloat, calls_for(layer));
    }
    if (layer_of(layer).delta_norm > 0.0f) {
      pre_activations("norms of deltas", layer);
      pointwise("norms of deltas", 3.0 * rows_of(layer) * kFloat, 2.0 * calls_for(layer));
    }
    judge(layer);
    for (int edge : graph_.sources[std::size_t(layer)]) {
      send_delta("output input delta", edge, layer);
      update("output update", edge, layer);
    }
  }

  // Blocks whose products are made one by one.
  double calls_of(int edge, int layer) const {
    return by_source(edge) ? double(my_blocks(graph_.edges[std::size_t(edge)].source))
                           : calls_for(layer);
  }

  // The blocks' parts of a source's delta, and their sum in fixed point.
  void send_delta(const char* stage, int edge, int layer) {
    const int source = graph_.edges[std::size_t(edge)].source;
    if (is_input(source)) return;
    product(stage, edge, calls_of(edge, layer));
    if (by_source(edge))
      add_terms(rows_of(source), 1.0);
    else
      add_terms(batch() * source_units(edge), double(my_blocks(layer)));
  }

  void update(const char* stage, int edge, int layer) {
    if (is_sparse_source(edge)) return sparse_update(edge, layer);
    const double weights = own_weights(edge);
    const double flops = 2.0 * batch() * weights;
    double bytes = weights * kFloat;  // of the gradient alone, where weights are shared
    if (!is_shared(edge))
      bytes = weights * (update_bytes() + (settings_.rounds_operands ? kRounded : 0.0));
    const double seconds = flop_seconds(flops, rates_.update_share) + byte_seconds(bytes) +
                           calls_of(edge, layer) * 1e-6 * device_.calls.update_microseconds;
    add(stage, seconds, flops, bytes);
    if (!by_source(edge) && !is_shared(edge)) later_ += seconds / output_calls(layer);
  }

  // Of an output layer; only the last call's update may be late.
  double output_calls(int layer) const {
    if (!is_output(layer)) return 1.0;
    const Index at_once =
        may_fuse_delta(layer) ? blocks_at_once(partition(layer), settings_.batch) : 1;
    return std::ceil(double(my_blocks(layer)) / double(at_once));
  }

  void backward(int layer) {
    const LayerDescriptor& descriptor = layer_of(layer);
    double each = kWord + 3.0 * kFloat;
    if (settings_.rounds_operands) each += kRounded;
    if (descriptor.batch_normalization) each += 6.0 * kFloat;
    if (descriptor.delta_norm > 0.0f) each += 3.0 * kFloat;
    each += (kFloat + 2.0 * kWord) * double(graph_.skips[std::size_t(layer)].size());
    if (joins(layer) && exchanges_terms(layer))
      pack(layer, kFloat, double(terms_by_rank(layer)[0]));
    else if (joins(layer))
      pack(layer, kWord, 2.0);
    pointwise("hidden delta", rows_of(layer) * each, settings_.ranks > 1 ? 2.0 : 1.0);
    for (int edge : graph_.sources[std::size_t(layer)]) {
      send_delta("hidden input delta", edge, layer);
      update("hidden update", edge, layer);
    }
  }

  void update_biases(int layer) {
    const double gradients = is_output(layer) ? 0.0 : rows_of(layer) * kFloat;
    pointwise("bias update", gradients + double(mine(layer)) * (update_bytes() + 2.0 * kFloat));
  }

  // Every rank has the whole of them.
  void update_shared(int edge) {
    const Edge& e = graph_.edges[std::size_t(edge)];
    const double weights = source_units(edge) * double(layer_of(e.destination).units());
    pointwise("shared weights",
              weights * (update_bytes() + 2.0 * kFloat + 3.0 * kFloat * double(users(edge))),
              1.0 + double(users(edge)));
  }

  const DeviceDescription& device_;
  const ProductRates& rates_;
  bool packs_;
  std::vector<StagePlan> stages_;
  double later_ = 0.0;
};

void add_communication(StepPlan& plan, const Graph& graph, const PlanSettings& settings,
                       const MachineDescription& machine) {
  const std::size_t first = plan.stages.size();
  double beside = 0.0;
  for (const CollectivePlan& collective : plan_collectives(graph, settings)) {
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
  StepModel model(graph, settings, machine, nodes);
  plan.stages = model.stages();
  plan.later_seconds = model.later_seconds();
  for (const StagePlan& stage : plan.stages) plan.compute_seconds += stage.seconds;
  add_communication(plan, graph, settings, machine);
  return plan;
}

StepPlan plan_communication(const Graph& graph, const PlanSettings& settings,
                            const MachineDescription& machine, int nodes, double compute_seconds) {
  StepPlan plan{settings.ranks, nodes, settings.batch, {}, compute_seconds, 0.0, 0.0, 0.0};
  plan.later_seconds = compute_seconds;
  add_communication(plan, graph, settings, machine);
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
