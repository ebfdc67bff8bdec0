// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "src/data/feature_counts.h"
#include "src/engine/network/context.h"
#include "src/engine/network/network.h"
#include "src/engine/plan/plan_settings.h"
#include "src/step/program.h"
#include "tests/bench/image_shape.h"
#include "tests/bench/synthetic.h"
#include "tests/support/reference_maths.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

/// A network at work on synthetic data: its steps, and whether its costs are right.
namespace norn::bench {

/// Boolean sets of sparse examples, and images, by name.
using DataSets = std::map<std::string, std::shared_ptr<Dataset>>;

/// The data sets that a network's layers name. Throws UsageError when a layer has no size.
inline DataSets make_data(const NetworkDescriptor& network, Index examples, Index per_example,
                          Numbering numbering = Numbering::by_popularity) {
  DataSets sets;
  for (const LayerDescriptor& layer : network.layers) {
    if (layer.dataset.empty() || sets.contains(layer.dataset)) continue;
    if (layer.auto_size)
      throw UsageError(fmt::format(
          "layer \"{}\": train_bench makes its own data, so N must be a number", layer.name));
    const std::uint64_t seed = 7 + sets.size();
    sets[layer.dataset] = has_images(layer)
                              ? random_images(layer, examples, seed)
                              : power_law_dataset(layer.dataset, examples, layer.units(),
                                                  per_example, seed, numbering);
  }
  return sets;
}

inline std::vector<DatasetShape> shapes_of(const DataSets& sets) {
  std::vector<DatasetShape> shapes;
  for (const auto& [name, set] : sets)
    shapes.push_back({name, 1, {set->info().width(), 1, 1}, set->info().gives_sparse_batches()});
  return shapes;
}

inline std::vector<Index> numbers(Index first, Index count) {
  std::vector<Index> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// What the weights make a stage compute and move through memory at least.
struct StageWork {
  double flops = 0.0;
  double bytes = 0.0;
};
/// Steps between what a factored output layer does now and then; 0 without one.
struct FactorIntervals {
  Index fold = 0, gram = 0;
};
/// Of one step of rank 0, by stages, as its ops say.
inline std::map<std::string, StageWork> stage_work(const NetworkDescriptor& network,
                                                   const DataSets& sets, const Context& context,
                                                   FactorIntervals* intervals = nullptr) {
  PlanSettings settings;
  settings.batch = network.training.batch;
  settings.ranks = context.communicator.size();
  settings.lanes = context.compute.executor.lanes();
  set_device(settings, context.compute);
  for (const auto& [name, set] : sets) settings.sets.push_back(set->info());
  const Graph graph = make_graph(network, shapes_of(sets), "train_bench");
  const StepFacts facts(graph, step_settings(graph, settings));
  for (int layer : facts.order())
    if (intervals && facts.is_factored(layer))
      *intervals = {facts.fold_every(layer), facts.gram_every(layer)};
  std::map<std::string, StageWork> stages;
  for (const step::Work& work : step::work_of(step::compile_training(facts), facts)) {
    if (work.edge < 0) continue;
    stages[work.stage].flops += work.flops;
    stages[work.stage].bytes += work.least_bytes();
  }
  return stages;
}

class BenchNetwork {
 public:
  /// Steps rotate over `batches` batches of `examples` of the sets' examples. Sets on a device are
  /// gathered from there, others are uploaded in every step.
  BenchNetwork(NetworkDescriptor network, const Context& context, const DataSets& sets,
               Index batches, Index examples)
      : descriptor_(std::move(network)), batches_(batches) {
    for (const auto& [name, set] : sets) {
      std::vector<HostBatch>& own = of_set_[name];
      own.resize(std::size_t(batches));
      for (Index b = 0; b < batches; ++b)
        set->gather(numbers(b * examples, examples), own[std::size_t(b)]);
    }
    const std::vector<DatasetShape> shapes = shapes_of(sets);
    network_ = std::make_unique<Network>(make_graph(descriptor_, shapes, "train_bench"), shapes,
                                         context, descriptor_.training.batch, Pass::training);
    for (std::size_t l = 0; l < descriptor_.layers.size(); ++l)
      if (network_->weights_features(int(l)))
        weigh_features(int(l), *sets.at(descriptor_.layers[l].dataset));
    network_->initialise(1);
  }

  /// The next steps, done when this returns; adds each one's mean cost to `costs`, if any.
  void steps(Index count, std::vector<double>* costs = nullptr) {
    const auto finish = [&](int left) {
      while (network_->steps_in_flight() > left) {
        const double cost = network_->finish_step().value() / double(network_->batch());
        if (costs) costs->push_back(cost);
      }
    };
    for (Index i = 0; i < count; ++i) {
      const std::int64_t number = number_++;
      network_->begin_step(bound(number % batches_), {number, number / batches_, 1});
      finish(network_->max_steps_in_flight());
    }
    finish(0);
  }
  /// Nothing, or how the cost of the first batch differs from the formulas of docs/user/numerics.md
  /// in float64 over the network's own outputs. Every rank says the same. For networks without
  /// dropout, denoising and batch normalisation: their training steps compute other outputs.
  std::string check() {
    const BoundBatch batch = bound(0);
    double expected = 0.0;
    for (std::size_t l = 0; l < descriptor_.layers.size(); ++l)
      if (descriptor_.layers[l].kind == LayerKind::output) expected += cost_of(int(l), batch);
    const double cost = network_->train_step(batch, {0, 0, 1}).value();
    if (std::abs(cost - expected) <= 2e-4 * std::abs(expected)) return {};
    return fmt::format("the cost of {} examples is {}, float64 says {}", batch.examples, cost,
                       expected);
  }

  Network& network() { return *network_; }
  BoundBatch bound(Index number) const {
    BoundBatch bound;
    for (const LayerDescriptor& layer : descriptor_.layers) {
      const HostBatch* host =
          layer.dataset.empty() ? nullptr : &of_set_.at(layer.dataset)[std::size_t(number)];
      bound.of_layer.push_back(host);
      bound.ignore_absent.push_back(false);
      if (host) bound.examples = host->examples;
    }
    return bound;
  }

 private:
  double cost_of(int layer, const BoundBatch& batch) {
    const LayerDescriptor& output = descriptor_.layers[std::size_t(layer)];
    const MatrixView<const float> own = network_->outputs(batch, layer);
    Matrix<float> y(own.rows, own.cols);
    std::copy(own.data, own.data + own.size(), y.view().data);
    network_->context().communicator.all_gather_columns(y.view(), network_->shares(layer));
    double sum = 0.0;
    for (Index e = 0; e < batch.examples; ++e) {
      const float* row = y.view().data + e * own.cols;
      const reference::TargetRow target = reference::target_row(
          output, *batch.of_layer[std::size_t(layer)], e, batch.ignore_absent[std::size_t(layer)]);
      sum +=
          reference::output_cost(descriptor_, output, reference::Row(row, row + own.cols), target);
    }
    return sum;
  }

  void weigh_features(int layer, Dataset& set) {
    const LayerDescriptor& descriptor = descriptor_.layers[std::size_t(layer)];
    std::vector<float> weights;
    for (const std::int64_t count : count_features(set, set.info().width()))
      weights.push_back(
          float(feature_weight(descriptor.input_weighting, count, set.info().examples)));
    network_->set_feature_weights(layer, weights);
  }

  NetworkDescriptor descriptor_;
  Index batches_ = 0;
  std::int64_t number_ = 0;
  std::map<std::string, std::vector<HostBatch>> of_set_;
  std::unique_ptr<Network> network_;
};

}  // namespace norn::bench
