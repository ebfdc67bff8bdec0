// SPDX-License-Identifier: Apache-2.0
// Cost and gradients of single layers: every activation, loss and kind of data, from the lists in
// the library, so that a new one is checked without a change here.
#include "tests/gradient/kinds.h"

#include <fmt/format.h>

namespace norn::test {
namespace {

constexpr Index kExamples = 5;

std::string letters_only(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

class OutputGradient : public testing::TestWithParam<std::string> {};
class HiddenGradient : public testing::TestWithParam<std::string> {};

Problem one_hidden_layer(const Loss& loss, const LayerActivation& hidden,
                         const LayerActivation& output) {
  Problem problem;
  problem.network.loss = loss;
  problem.network.layers = {input_layer("In", 9), hidden_layer("Hidden", 7, {"In"}, hidden),
                            output_layer("Out", 8, {"Hidden"}, output)};
  return problem;
}

// A cross entropy's slope is 1 / y or 1 / (1 - y), which magnifies the rounding of a y near 0 or 1.
// Sigmoid and SoftMax have closed forms without it.
Tolerance tolerance_of(const LayerActivation& output, const Loss& loss) {
  const auto* f = std::get_if<Activation>(&output);
  Tolerance tolerance;
  if (f && !std::holds_alternative<Sigmoid>(*f) && is_cross_entropy(loss))
    tolerance.gradient = 5e-5;
  return tolerance;
}

TEST_P(OutputGradient, OfEveryLossAndKindOfTarget) {
  const LayerActivation activation = activation_named(GetParam());
  std::uint64_t seed = 1000;
  for (const std::string& name : names_of<Loss>()) {
    const Loss loss = loss_named(name);
    for (const DataKind& kind : target_kinds(loss)) {
      for (const TargetWeight weight : {TargetWeight::inverse_count, TargetWeight::one}) {
        const bool matters = std::holds_alternative<SoftMax>(activation) && is_cross_entropy(loss);
        if (weight == TargetWeight::one && !matters) continue;
        SCOPED_TRACE(fmt::format("{}, {}, target weight {}", name, kind.name, int(weight)));
        Problem problem = one_hidden_layer(loss, Activation(Tanh{}), activation);
        problem.network.target_weight = weight;
        problem.set_data("In", {.valued = true}, kExamples, ++seed);
        problem.set_data("Out", kind, kExamples, ++seed);
        EXPECT_TRUE(engine_agrees(problem, seed, tolerance_of(activation, loss)));
      }
    }
  }
}

TEST_P(OutputGradient, WithoutHiddenLayersFromEveryKindOfInput) {
  const LayerActivation activation = activation_named(GetParam());
  std::uint64_t seed = 2000;
  for (const DataKind& kind : input_kinds()) {
    SCOPED_TRACE(kind.name);
    Problem problem;
    problem.network.loss = SquaredError{};
    problem.network.layers = {input_layer("In", 9), output_layer("Out", 8, {"In"}, activation)};
    problem.set_data("In", kind, kExamples, ++seed);
    problem.set_data("Out", {.valued = true}, kExamples, ++seed);
    EXPECT_TRUE(engine_agrees(problem, seed));
  }
}

TEST_P(HiddenGradient, FromEveryKindOfInputToEveryKindOfCost) {
  const LayerActivation hidden = activation_named(GetParam());
  const std::vector<std::pair<Loss, LayerActivation>> costs = {
      {CrossEntropy{}, Activation(Sigmoid{})},
      {CrossEntropy{}, SoftMax{}},
      {SquaredError{}, Activation(Linear{})}};
  std::uint64_t seed = 3000;
  for (const DataKind& kind : input_kinds())
    for (const auto& [loss, output] : costs) {
      SCOPED_TRACE(fmt::format("{}, {}", kind.name, name_of(loss)));
      Problem problem = one_hidden_layer(loss, hidden, output);
      problem.set_data("In", kind, kExamples, ++seed);
      problem.set_data("Out", {}, kExamples, ++seed);
      EXPECT_TRUE(engine_agrees(problem, seed));
    }
}

TEST_P(HiddenGradient, WithBatchNormalisation) {
  const LayerActivation hidden = activation_named(GetParam());
  std::uint64_t seed = 4000;
  for (const DataKind& kind : {DataKind{.valued = true}, DataKind{.sparse = false}}) {
    SCOPED_TRACE(kind.name);
    Problem problem = one_hidden_layer(CrossEntropy{}, hidden, SoftMax{});
    problem.network.layers[1].batch_normalization = true;
    problem.set_data("In", kind, kExamples, ++seed);
    problem.set_data("Out", {}, kExamples, ++seed);
    EXPECT_TRUE(engine_agrees(problem, seed));
  }
}

// Not of SoftMax: NetworkRefuses, DropoutWhereItIsNotSupported.
class DropoutGradient : public HiddenGradient {};

TEST_P(DropoutGradient, AgreesWithFloat64) {
  const LayerActivation hidden = activation_named(GetParam());
  std::uint64_t seed = 5000;
  for (const DataKind& kind : {DataKind{}, DataKind{.sparse = false}}) {
    SCOPED_TRACE(kind.name);
    Problem problem = one_hidden_layer(CrossEntropy{}, hidden, Activation(Sigmoid{}));
    problem.network.layers[1].dropout = 0.4f;
    problem.set_data("In", kind, kExamples, ++seed);
    problem.set_data("Out", {}, kExamples, ++seed);
    EXPECT_TRUE(engine_agrees(problem, seed));
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, OutputGradient, testing::ValuesIn(activation_names()),
                         letters_only);
INSTANTIATE_TEST_SUITE_P(Activations, HiddenGradient, testing::ValuesIn(activation_names()),
                         letters_only);
INSTANTIATE_TEST_SUITE_P(Activations, DropoutGradient, testing::ValuesIn(names_of<Activation>()),
                         letters_only);

}  // namespace
}  // namespace norn::test
