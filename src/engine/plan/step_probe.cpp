// SPDX-License-Identifier: Apache-2.0
// The time of a step on a GPU from steps of a narrower network.
#include "src/engine/plan/step_probe.h"

#include "src/base/philox.h"
#include "src/engine/network/network.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

namespace norn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Index kProbeUnits = Index(1) << 18;    // at least, of a layer that is cut
constexpr Index kProbeWeights = Index(1) << 29;  // of a matrix, where that is more
constexpr double kMeasureSeconds = 0.2;
constexpr int kWarmUps = 4;
constexpr int kProfiled = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of one repetition of `work`, which returns before it is done.
template <typename Work>
double seconds_each(WorkQueue& queue, const Work& work) {
  work();
  queue.wait_for_all();
  const Clock::time_point start = Clock::now();
  int count = 0;
  do {
    for (int i = 0; i < 4; ++i) work();
    queue.wait_for_all();
    count += 4;
  } while (seconds_since(start) < kMeasureSeconds / 4);
  return seconds_since(start) / count;
}

// A network whose wide layers are a few blocks of the same width as the whole ones'.
struct Probe {
  NetworkDescriptor network;
  BlockRule rule;
  double output_scale = 1.0;  // whole outputs' weights over the probe's
};

Probe make_probe(const Graph& graph, const PlanSettings& settings) {
  Probe probe{graph.network, settings.device.block_rule};
  for (const Edge& edge : graph.edges)
    if (edge.shared_with >= 0 || !edge.has_weights()) return probe;
  Index widest = 0;
  Index hidden = 1;
  for (const LayerDescriptor& layer : graph.network.layers) {
    if (layer.kind == LayerKind::output) widest = std::max(widest, layer.units());
    if (layer.kind == LayerKind::hidden) hidden = std::max(hidden, layer.units());
  }
  const Index most = std::max(kProbeUnits, kProbeWeights / hidden);
  const Index block =
      widest == 0
          ? 0
          : BlockPartition::make(widest, settings.batch, settings.device.block_rule).block_width();
  for (LayerDescriptor& layer : probe.network.layers) {
    if (layer.kind == LayerKind::hidden || layer.units() <= most || layer.dimensions > 1) continue;
    Index units = most;
    if (layer.kind == LayerKind::output) {
      units = (most / block + 1) * block;
      if (units >= layer.units()) continue;
      probe.rule.minimum_width = probe.rule.maximum_width = block;
    }
    layer.extent = {units, 1, 1, 1};
    layer.dimensions = 1;
  }
  double whole = 0.0, cut = 0.0;
  for (const Edge& edge : graph.edges) {
    const auto to = std::size_t(edge.destination), from = std::size_t(edge.source);
    if (graph.network.layers[to].kind != LayerKind::output) continue;
    whole += double(graph.network.layers[to].units()) * double(graph.network.layers[from].units());
    cut += double(probe.network.layers[to].units()) * double(probe.network.layers[from].units());
  }
  if (cut > 0.0) probe.output_scale = whole / cut;
  return probe;
}

// Item i as often as 1 / (i + 10).
Column power_law_item(double uniform, Index width) {
  const double top = std::log(double(width + 10) / 10.0);
  return Column(std::min<Index>(width - 1, Index(10.0 * std::exp(uniform * top)) - 10));
}

HostBatch synthetic_batch(const DatasetInfo* set, bool sparse, Index width, Index examples,
                          std::uint32_t stream) {
  HostBatch batch;
  batch.examples = examples;
  batch.width = width;
  batch.is_sparse = sparse;
  for (Index e = 0; e < examples; ++e) batch.example.push_back(e);
  if (!sparse) {
    batch.dense = Matrix<float>::zeros(examples, width);
    return batch;
  }
  const bool has_values = set && set->sparse && !set->boolean;
  const double mean = set && set->sparse && set->unique_examples > 0
                          ? double(set->entries) / double(set->unique_examples)
                          : 1.0;
  const auto wanted = std::size_t(std::clamp<Index>(Index(std::lround(mean)), 1, width));
  const Philox random = Philox::stream(1, RandomPurpose::test, stream);
  std::vector<RowOffset> begin{0};
  std::vector<Column> columns, row;
  for (Index e = 0; e < examples; ++e) {
    row.clear();
    std::uint64_t draw = 0;
    while (row.size() < wanted) {
      for (std::size_t i = row.size(); i < wanted; ++i)
        row.push_back(power_law_item(double(random.uniform(std::uint64_t(e), draw++)), width));
      std::sort(row.begin(), row.end());
      row.erase(std::unique(row.begin(), row.end()), row.end());
      if (draw > 50 * wanted) break;  // nearly all items
    }
    columns.insert(columns.end(), row.begin(), row.end());
    begin.push_back(RowOffset(columns.size()));
  }
  CsrBuffer& csr = batch.sparse;
  csr.row_begin = Buffer<RowOffset>(Index(begin.size()));
  csr.column = Buffer<Column>(Index(columns.size()));
  csr.row_begin.write(begin.data(), csr.row_begin.size());
  csr.column.write(columns.data(), csr.column.size());
  csr.has_values = has_values;
  if (has_values) csr.value = Buffer<float>(csr.column.size());
  for (Index i = 0; i < csr.value.size(); ++i) csr.value.data()[i] = 1.0f;
  csr.rows = examples;
  csr.cols = width;
  return batch;
}

// The probe at work.
class Steps {
 public:
  Steps(const Probe& probe, const PlanSettings& settings, const Context& context) {
    std::vector<DatasetShape> shapes;
    const auto& layers = probe.network.layers;
    bound_.of_layer.assign(layers.size(), nullptr);
    bound_.ignore_absent.assign(layers.size(), false);
    bound_.examples = settings.batch;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (layers[i].kind == LayerKind::hidden) continue;
      const DatasetInfo* set = nullptr;
      for (const DatasetInfo& info : settings.sets)
        if (info.name == layers[i].dataset) set = &info;
      const bool sparse = !set || set->gives_sparse_batches();
      const Index width = layers[i].units();
      const auto& extent = layers[i].extent;
      shapes.push_back(
          {layers[i].dataset, layers[i].dimensions, {extent[0], extent[1], extent[2]}, sparse});
      auto& batch = batches_[layers[i].dataset + std::to_string(width)];
      if (batch.examples == 0)
        batch = synthetic_batch(set, sparse, width, settings.batch, std::uint32_t(i));
      bound_.of_layer[i] = &batch;
      if (set) bound_.ignore_absent[i] = set->sparse_ignore_zero;
    }
    network_ = std::make_unique<Network>(make_graph(probe.network, shapes, "the plan"), shapes,
                                         context, settings.batch, Pass::training, &probe.rule);
    network_->initialise(1);
    for (const int layer : network_->order())
      if (network_->weights_features(layer))
        network_->set_feature_weights(
            layer, std::vector<float>(std::size_t(layers[std::size_t(layer)].units()), 1.0f));
  }

  void make(int count) {
    for (int i = 0; i < count; ++i) {
      network_->begin_step(bound_, {number_++, 0, 1});
      finish(network_->max_steps_in_flight());
    }
    finish(0);
  }

 private:
  void finish(int left) {
    while (network_->steps_in_flight() > left) network_->finish_step();
  }
  std::map<std::string, HostBatch> batches_;
  BoundBatch bound_;
  std::unique_ptr<Network> network_;
  std::int64_t number_ = 0;
};

// Stages that work on output layers' units.
bool is_of_outputs(const std::string& stage) {
  return stage.rfind("output", 0) == 0 || stage == "fixed point" || stage == "softmax rows" ||
         stage == "norms of deltas" || stage == "bias update";
}

double predicted_step(const Graph& graph, const PlanSettings& settings, const Context& context) {
  const Probe probe = make_probe(graph, settings);
  Kernels& kernels = context.compute.kernels;
  Steps steps(probe, settings, context);
  steps.make(kWarmUps);
  const Clock::time_point start = Clock::now();
  int count = 0;
  do {
    steps.make(kWarmUps);
    count += kWarmUps;
  } while (seconds_since(start) < kMeasureSeconds);
  const double each = seconds_since(start) / count;
  if (probe.output_scale == 1.0) return each;
  kernels.queue->profile(true);
  steps.make(kProfiled);
  kernels.queue->profile(false);
  double measured = 0.0, of_outputs = 0.0;
  for (const WorkQueue::StageTime& stage : kernels.queue->stage_times()) {
    if (stage.name == "end") continue;  // between two steps
    measured += stage.seconds / kProfiled;
    if (is_of_outputs(stage.name)) of_outputs += stage.seconds / kProfiled;
  }
  // Without graphs stages take longer; what lies between two steps is not scaled.
  const double faster = measured > each ? each / measured : 1.0;
  return each + (probe.output_scale - 1.0) * of_outputs * faster;
}

}  // namespace

DeviceRates measure_device(const Compute& compute) {
  WorkQueue& queue = *compute.kernels.queue;
  constexpr Index kSide = 8192;
  // Not zeros: with those a GPU is less hot, and faster, than with any data.
  Matrix<float> x(kSide, kSide, compute.memory);
  WeightPlace place;
  place.sources = place.destinations = kSide;
  compute.kernels.update->initialise(UniformInit{}, Philox::stream(1, RandomPurpose::test), place,
                                     x.view());
  Matrix<float> z = Matrix<float>::zeros(kSide, kSide, compute.memory);
  Matrix<Bfloat16> bf16;
  DenseOperand operand(x.view());
  if (compute.kernels.precision.casts_operands()) {
    bf16 = Matrix<Bfloat16>(kSide, kSide, compute.memory);
    compute.kernels.pointwise->cast_to_bf16(x.view(), bf16.view());
    operand.bf16 = bf16.view();
  }
  DeviceRates rates;
  rates.dense_flops =
      2.0 * std::pow(double(kSide), 3) / seconds_each(queue, [&] {
        compute.kernels.dense->multiply_transposed(operand, operand, z.view(), Existing::overwrite);
      });
  rates.bytes = 2.0 * double(x.bytes()) /
                seconds_each(queue, [&] { compute.kernels.pointwise->copy(x.view(), z.view()); });
  return rates;
}

double floor_seconds(const WorkPlan& work, const DeviceRates& rates) {
  return std::max(work.dense_flops / rates.dense_flops, work.bytes / rates.bytes);
}

StepTime measure_step(const Graph& graph, const PlanSettings& settings, const Context& context) {
  StepTime time;
  const Compute& compute = context.compute;
  const DeviceRates rates = measure_device(compute);
  time.dense_flops = rates.dense_flops;
  time.bytes = rates.bytes;
  time.floor_seconds = floor_seconds(plan_work(graph, settings), rates);
  // The steps are those of one rank that owns all blocks.
  PlanSettings alone = settings;
  alone.ranks = 1;
  const auto one = make_single_process();
  const Context of_one{compute, *one, make_host_collectives(*one), context.log};
  time.seconds = predicted_step(graph, alone, of_one) * time.floor_seconds /
                 floor_seconds(plan_work(graph, alone), rates);
  return time;
}

}  // namespace norn
