// SPDX-License-Identifier: Apache-2.0
// Gradients beside differences of the cost.
#include "src/engine/train/gradient_check.h"

#include "norn/base/error.h"
#include "src/base/philox.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include <fmt/format.h>

namespace norn {
namespace {

// Costs are sums of float32 values, so a step must be large enough for them to differ; over this
// one the cost bends little. Where it has kinks, as many as maxima have, steps become smaller.
constexpr double kStep = 0.01;
constexpr double kLeastStep = kStep / 64;
constexpr int kStays = 2;  // kinks on both sides may be nearer than a step, and than a fourth of it
constexpr double kTolerance = 0.02;  // of the largest gradient of a group
constexpr double kRounding = 1e-6;   // of the cost
// Of a factored layer, by its width, which its activations rarely exceed: its steps of rate 1 would
// be too long. A power of two.
constexpr float kFactoredRate = 1.0f / 64.0f;
constexpr Index kUnknownWidth = 4096;  // of a source that its data tell

// A place where a float stands, for every parameter of a group.
struct Group {
  std::string name;
  int layer = -1;     // whose units it belongs to
  float rate = 1.0f;  // of a step
  Index count = 0;
  std::function<float&(Index)> at;
};

std::vector<Group> groups_of(Network& network) {
  std::vector<Group> groups;
  const Graph& graph = network.graph();
  for (const NetworkParameter& parameter : network.parameters()) {
    const int layer =
        parameter.vector ? parameter.layer : graph.edges[std::size_t(parameter.edge)].destination;
    const float rate = graph.network.layers[std::size_t(layer)].factored.rate.value_or(1.0f);
    if (HeldBuffer<float>* vector = parameter.vector) {
      groups.push_back({parameter.name, layer, rate, vector->size(),
                        [vector](Index i) -> float& { return vector->data()[i]; }});
      continue;
    }
    const MatrixView<float> values = parameter.matrix->floats();
    groups.push_back(
        {parameter.name, layer, rate, values.rows * values.cols, [values](Index i) -> float& {
           return values.data[i / values.cols * values.stride + i % values.cols];
         }});
  }
  return groups;
}

// All of a group where it is small. Else numbers drawn from the seed, every other one of a
// parameter that the batch moves: of sparse inputs it moves few.
std::vector<Index> drawn(const std::vector<float>& gradient, Index most, std::uint64_t seed) {
  std::vector<Index> all(gradient.size());
  std::iota(all.begin(), all.end(), Index(0));
  if (Index(all.size()) <= most) return all;
  std::vector<Index> moved;
  for (const Index i : all)
    if (gradient[std::size_t(i)] != 0.0f) moved.push_back(i);
  const Philox random = Philox::stream(seed, RandomPurpose::validation);
  std::vector<Index> chosen;
  for (Index i = 0; i < most; ++i) {
    const std::vector<Index>& from = i % 2 == 0 && !moved.empty() ? moved : all;
    const Philox::Block block = random.block(std::uint64_t(i), 0);
    const std::uint64_t number = (std::uint64_t(block.word[0]) << 32) | block.word[1];
    chosen.push_back(from[std::size_t(number % from.size())]);
  }
  return chosen;
}

class Checker {
 public:
  Checker(Network& network, const BoundBatch& batch)
      : network_(network), batch_(batch), cost_(mean_cost()) {}

  void check(const Group& group, Index i, double gradient, CheckedGroup& result) const {
    const double allowed = kTolerance * result.largest;
    double difference = 0.0;
    bool agrees = false;
    int stayed = 0;  // how often the slopes of a smaller step were those of the one before
    std::optional<Slopes> before;
    for (double step = kStep; !agrees && stayed < kStays && step >= kLeastStep; step /= 4) {
      const Slopes slopes = slopes_at(group, i, step);
      // Rounded too: the parameter, from whose change the gradient is read.
      const double rounding =
          kRounding * (std::abs(cost_) / step + std::abs(double(group.at(i))) / double(group.rate));
      difference = std::max({slopes.low - gradient, gradient - slopes.high, 0.0});
      agrees = difference <= allowed + rounding;
      const bool stays = before && std::abs(slopes.low - before->low) <= rounding &&
                         std::abs(slopes.high - before->high) <= rounding;
      stayed = stays ? stayed + 1 : 0;
      before = slopes;
    }
    ++result.checked;
    result.difference = std::max(result.difference, difference);
    if (!agrees) ++result.wrong;
  }

 private:
  // Of the cost on both sides: at a kink they differ, and the gradient lies between them.
  struct Slopes {
    double low = 0.0;
    double high = 0.0;
  };
  Slopes slopes_at(const Group& group, Index i, double step) const {
    float& parameter = group.at(i);
    const float before = parameter;
    const auto slope = [&](double by) {
      parameter = before + float(by);
      network_.restart_factors(group.layer);
      const double moved = double(parameter) - double(before);
      const double value = (mean_cost() - cost_) / moved;
      parameter = before;
      return value;
    };
    const double right = slope(step), left = slope(-step);
    network_.restart_factors(group.layer);
    return {std::min(left, right), std::max(left, right)};
  }
  double mean_cost() const { return network_.cost(batch_).value() / double(batch_.examples); }
  Network& network_;
  const BoundBatch& batch_;
  double cost_;
};

// The step that is checked is the layer's own, V U, by the plain gradient.
void keep_plain_factors(NetworkDescriptor& network, std::vector<std::string>& left_out) {
  for (LayerDescriptor& layer : network.layers) {
    if (!layer.factored.is_on()) continue;
    if (layer.factored.rule != FactoredRule::sgd)
      left_out.push_back(layer.name + ": the Rule of Factored");
    layer.factored = {};
    layer.factored.rule = FactoredRule::sgd;
    layer.factored.fold_every = 1;
    Index width = 1;
    for (const LayerDescriptor& source : network.layers)
      if (std::ranges::find(layer.sources, source.name) != layer.sources.end())
        width += source.auto_size ? kUnknownWidth : source.units();
    layer.factored.rate = kFactoredRate / std::exp2(std::ceil(std::log2(float(width))));
  }
}

}  // namespace

std::vector<std::string> prepare_gradient_check(NetworkDescriptor& network) {
  std::vector<std::string> left_out;
  const auto drop = [&](auto& value, auto plain, const std::string& name) {
    if (value == plain) return;
    value = plain;
    left_out.push_back(name);
  };
  drop(network.denoising, 0.0f, "Denoising");
  drop(network.boost_one, 1.0f, "DeltaBoost one");
  drop(network.boost_zero, 1.0f, "DeltaBoost zero");
  drop(network.decay, 0.0f, "Decay");
  drop(network.sparseness.beta, 0.0f, "SparsenessPenalty");
  for (LayerDescriptor& layer : network.layers) {
    if (layer.batch_normalization)
      throw UsageError(fmt::format(
          "layer \"{}\": the gradients of BatchNormalization cannot be compared with differences "
          "of the cost, which is computed with running statistics; leave it out",
          layer.name));
    drop(layer.augment, Augmentation{}, layer.name + ": Augment");
    drop(layer.dropout, 0.0f, layer.name + ": pDropout");
    drop(layer.delta_norm, 0.0f, layer.name + ": DeltaNorm");
    drop(layer.weight_norm, 0.0f, layer.name + ": WeightNorm");
    layer.sparseness.reset();
  }
  keep_plain_factors(network, left_out);
  TrainingDescriptor& training = network.training;
  training.optimizer = Sgd{};
  training.rate = 1.0f;
  training.lambda = training.lambda1 = 0.0f;
  return left_out;
}

std::vector<CheckedGroup> check_gradients(Network& network, const BoundBatch& batch, Index most,
                                          std::uint64_t seed) {
  require(network.context().compute.memory.is_host(), "check_gradients: a network on the CPU");
  const std::vector<Group> groups = groups_of(network);
  std::vector<std::vector<float>> before;
  for (const Group& group : groups) {
    std::vector<float>& values = before.emplace_back();
    for (Index i = 0; i < group.count; ++i) values.push_back(group.at(i));
  }
  network.train_step(batch, {});
  network.catch_up(1);
  // A step of rate 1 takes the gradient away from the parameter.
  std::vector<std::vector<float>> gradient = before;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (Index i = 0; i < groups[g].count; ++i) {
      gradient[g][std::size_t(i)] -= groups[g].at(i);
      gradient[g][std::size_t(i)] /= groups[g].rate;
      groups[g].at(i) = before[g][std::size_t(i)];
    }
  for (int layer : network.order()) network.restart_factors(layer);
  const Checker checker(network, batch);
  std::vector<CheckedGroup> results;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    CheckedGroup& result = results.emplace_back();
    result.name = groups[g].name;
    result.parameters = groups[g].count;
    for (const float each : gradient[g])
      result.largest = std::max(result.largest, double(std::abs(each)));
    for (const Index i : drawn(gradient[g], most, seed + g))
      checker.check(groups[g], i, double(gradient[g][std::size_t(i)]), result);
  }
  return results;
}

}  // namespace norn
