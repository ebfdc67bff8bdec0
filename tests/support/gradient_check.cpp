// SPDX-License-Identifier: Apache-2.0
// Central differences in float64, and the engine's gradients beside them.
#include "tests/support/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

namespace norn::test {
namespace {

using reference::Parameters;
using reference::Row;
using reference::Rows;

constexpr double kStep = 1e-6;
constexpr double kOffKinks = 5e-3;

// Whether an output layer's deltas are more than the derivative of the objective.
bool deltas_are_changed(const reference::Network& network, const BoundBatch& batch, int layer) {
  const NetworkDescriptor& descriptor = network.descriptor();
  const LayerDescriptor& output = descriptor.layers[std::size_t(layer)];
  const bool is_softmax = std::holds_alternative<SoftMax>(output.activation);
  return output.delta_norm > 0.0f || descriptor.boost_one != 1.0f ||
         descriptor.boost_zero != 1.0f || (is_softmax && batch.ignore_absent[std::size_t(layer)]);
}

void clip(double limit, Rows& rows) {
  for (Row& row : rows) {
    double squares = 0.0;
    for (double v : row) squares += v * v;
    const double factor = std::min(1.0, limit / std::sqrt(squares));
    for (double& v : row) v *= factor;
  }
}

// The deltas that the outputs hand down, for networks where they are more than a derivative.
std::map<int, Rows> changed_deltas(const reference::Network& network, const Parameters& parameters,
                                   const BoundBatch& batch) {
  std::map<int, Rows> deltas;
  const auto& layers = network.descriptor().layers;
  bool any = false;
  for (std::size_t i = 0; i < layers.size(); ++i)
    any =
        any || (layers[i].kind == LayerKind::output && deltas_are_changed(network, batch, int(i)));
  if (!any) return deltas;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != LayerKind::output) continue;
    Rows delta = network.deltas(parameters, batch, int(i));
    const Rows factors = network.delta_factors(batch, int(i));
    for (std::size_t b = 0; b < delta.size(); ++b)
      for (std::size_t j = 0; j < delta[b].size(); ++j) delta[b][j] *= factors[b][j];
    if (layers[i].delta_norm > 0.0f) clip(double(layers[i].delta_norm), delta);
    deltas[int(i)] = std::move(delta);
  }
  return deltas;
}

// Names the groups of parameters that have gradients and visits them, with the number of their
// users.
template <typename Visit>
void for_each_group(const reference::Network& network, const Visit& visit) {
  const auto& layers = network.descriptor().layers;
  for (const ParameterShape& shape : parameter_shapes(network.descriptor())) {
    if (shape.edge >= 0) {
      const auto l = std::size_t(shape.edge);
      const reference::Link& link = network.links()[l];
      visit(
          fmt::format("weights {} -> {}", layers[std::size_t(link.source)].name,
                      layers[std::size_t(link.destination)].name),
          [l](auto& p) -> auto& { return p.weight[l]; }, double(link.users));
    } else if (shape.tensor.is_learnt) {
      const auto layer = std::size_t(shape.layer);
      const std::string& item = shape.tensor.item;
      visit(
          layers[layer].name + " " + item,
          [ layer, item ](auto& p) -> auto& { return p.of(item)[layer]; }, 1.0);
    }
  }
}

double largest(const Row& row) {
  double result = 0.0;
  for (double v : row) result = std::max(result, std::abs(v));
  return result;
}

bool moves_anything(const reference::Network& network, const Parameters& gradient) {
  double scale = 0.0;
  for_each_group(network, [&](const std::string&, const auto& group, double) {
    scale = std::max(scale, largest(group(gradient)));
  });
  return scale > 1e-6;
}

}  // namespace

Parameters expected_gradients(const reference::Network& network, const Parameters& parameters,
                              const BoundBatch& batch) {
  const std::map<int, Rows> deltas = changed_deltas(network, parameters, batch);
  const auto value = [&](const Parameters& p) {
    const reference::Activity activity = network.forward(p, batch);
    if (deltas.empty()) return network.objective(activity, batch);
    // Linear in the outputs' pre-activations with the deltas as slopes: the same gradients.
    double sum = network.penalty(activity);
    for (const auto& [layer, delta] : deltas)
      for (std::size_t b = 0; b < delta.size(); ++b)
        for (std::size_t j = 0; j < delta[b].size(); ++j)
          sum += delta[b][j] * activity.z[std::size_t(layer)][b][j];
    return sum;
  };
  Parameters moved = parameters;
  Parameters gradient = parameters;
  for_each_group(network, [&](const std::string&, const auto& group, double users) {
    for (std::size_t i = 0; i < group(moved).size(); ++i) {
      double& parameter = group(moved)[i];
      const double before = parameter;
      parameter = before + kStep;
      const double above = value(moved);
      parameter = before - kStep;
      const double below = value(moved);
      parameter = before;
      group(gradient)[i] = (above - below) / (2.0 * kStep) / users / double(batch.examples);
    }
  });
  return gradient;
}

Parameters parameters_off_kinks(const reference::Network& network, const BoundBatch& batch,
                                std::uint64_t& seed) {
  for (int attempt = 0; attempt < 2000; ++attempt, ++seed) {
    Parameters parameters = random_parameters(network, seed);
    if (network.distance_to_kinks(network.forward(parameters, batch), batch) > kOffKinks)
      return parameters;
  }
  throw std::logic_error("no parameters off kinks found");
}

EngineStep engine_step(const Problem& problem, const Parameters& parameters) {
  Problem descending = problem;
  TrainingDescriptor& training = descending.network.training;
  training.optimizer = Sgd{};
  training.rate = 1.0f;
  training.lambda = training.lambda1 = 0.0f;
  descending.network.decay = 0.0f;
  Engine engine(descending, Pass::training);
  engine.set(parameters);
  EngineStep step;
  step.cost = engine.network().train_step(descending.bound(), descending.position).value();
  step.after = engine.get();
  step.gradient = engine.get();
  const auto subtract = [](std::vector<Row>& gradient, const std::vector<Row>& before) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
      for (std::size_t k = 0; k < gradient[i].size(); ++k)
        gradient[i][k] = before[i][k] - gradient[i][k];
  };
  subtract(step.gradient.weight, parameters.weight);
  for (auto& [item, rows] : step.gradient.unit) subtract(rows, parameters.of(item));
  return step;
}

testing::AssertionResult gradients_agree(const reference::Network& network,
                                         const Parameters& expected, const Parameters& parameters,
                                         const Parameters& got, const Tolerance& tolerance) {
  const double factor = tolerance_factor();
  std::string problems;
  for_each_group(network, [&](const std::string& name, const auto& group, double) {
    const Row& want = group(expected);
    const Row& have = group(got);
    if (want.size() != have.size()) {
      problems += fmt::format("\n  {}: {} gradients, expected {}", name, have.size(), want.size());
      return;
    }
    const double scale = largest(want);
    const double rounding = 1.2e-7 * (largest(group(parameters)) + scale);
    double worst = 0.0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double difference = std::abs(want[i] - have[i]);
      if (!(difference <= worst)) {
        worst = difference;
        where = i;
      }
    }
    if (!(worst <= factor * (tolerance.gradient * scale + tolerance.cancelled) + rounding))
      problems += fmt::format("\n  {} [{}]: {}, expected {}; the largest here is {}", name, where,
                              have[where], want[where], scale);
  });
  if (!moves_anything(network, expected))
    problems += "\n  no gradient at all: the case shows nothing";
  if (problems.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << problems;
}

testing::AssertionResult engine_agrees(Problem problem, std::uint64_t seed,
                                       const Tolerance& tolerance) {
  const BoundBatch batch = problem.bound();
  reference::Network network(problem.network, problem.planned_batch, Pass::training,
                             problem.position);
  network.set_feature_weights(problem.feature_weight);
  Parameters parameters = parameters_off_kinks(network, batch, seed);
  Parameters expected = expected_gradients(network, parameters, batch);
  // Some losses let go of every unit at times: a case without gradients would show nothing.
  for (int attempt = 0; attempt < 100 && !moves_anything(network, expected); ++attempt) {
    parameters = parameters_off_kinks(network, batch, ++seed);
    expected = expected_gradients(network, parameters, batch);
  }
  const double cost = network.cost(network.forward(parameters, batch), batch);
  const EngineStep step = engine_step(problem, parameters);
  if (!(std::abs(step.cost - cost) <=
        tolerance_factor() * tolerance.cost * std::max(std::abs(cost), 1e-3)))
    return testing::AssertionFailure()
           << fmt::format("cost {}, expected {} (seed {})", step.cost, cost, seed);
  return gradients_agree(network, expected, parameters, step.gradient, tolerance)
         << fmt::format(" (seed {})", seed);
}

}  // namespace norn::test
