// SPDX-License-Identifier: Apache-2.0
// Steps and predictions of whole networks: against the float64 reference, and what they refuse.
#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "tests/data/support.h"
#include "tests/support/gradient_check.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Index kExamples = 5;
const LayerActivation kTanh = Activation(Tanh{});
const LayerActivation kSigmoid = Activation(Sigmoid{});

Problem chain(const LayerActivation& output = SoftMax{}) {
  Problem problem;
  problem.network.layers = {input_layer("In", 9), hidden_layer("Hidden", 7, {"In"}, kTanh),
                            output_layer("Out", 8, {"Hidden"}, output)};
  problem.set_data("In", {.valued = true}, kExamples, 1);
  problem.set_data("Out", {}, kExamples, 2);
  return problem;
}

// Two outputs, a skip, batch normalisation, and everything that training adds and predictions lack.
Problem rich() {
  Problem problem;
  problem.network.denoising = 0.5f;
  problem.network.layers = {input_layer("In", 9), hidden_layer("First", 7, {"In"}, kTanh),
                            hidden_layer("Second", 7, {"First"}, SoftMax{}),
                            output_layer("Near", 8, {"First"}, SoftMax{}),
                            output_layer("Far", 5, {"Second", "In"}, kSigmoid)};
  problem.network.layers[0].sparse = true;
  problem.network.layers[1].batch_normalization = true;
  problem.network.layers[1].dropout = 0.5f;
  problem.network.layers[2].skips = {"First"};
  problem.set_data("In", {.valued = true, .weighted = true}, kExamples, 1);
  problem.set_data("Near", {}, kExamples, 2);
  problem.set_data("Far", {}, kExamples, 3);
  return problem;
}

double furthest(const reference::Rows& expected, const reference::Rows& got) {
  double distance = 0.0;
  for (std::size_t b = 0; b < expected.size(); ++b)
    for (std::size_t j = 0; j < expected[b].size(); ++j) {
      const double d = std::abs(expected[b][j] - got.at(b).at(j));
      if (!(d <= distance)) distance = d;
    }
  return distance;
}

reference::Rows outputs_of(Network& network, const BoundBatch& batch, int layer) {
  const auto width = std::size_t(network.descriptor().layers[std::size_t(layer)].units());
  reference::Rows rows(std::size_t(batch.examples), reference::Row(width, std::nan("")));
  const MatrixView<const float> y = network.outputs(batch, layer);
  for (Index b = 0; b < y.rows; ++b)
    for (Index j = 0; j < y.cols; ++j) rows[std::size_t(b)][std::size_t(j)] = double(y(b, j));
  return rows;
}

TEST(NetworkPrediction, IsTheReferencesWithRunningStatisticsAndWithoutCorruption) {
  const Problem problem = rich();
  const BoundBatch batch = problem.bound();
  const reference::Network network(problem.network, problem.planned_batch, Pass::prediction);
  const auto parameters = random_parameters(network, 7);
  const reference::Activity expected = network.forward(parameters, batch);
  for (const Pass purpose : {Pass::prediction, Pass::training}) {
    Engine engine(problem, purpose);
    engine.set(parameters);
    for (const int layer : {3, 4})
      EXPECT_LT(
          furthest(expected.output[std::size_t(layer)], outputs_of(engine.network(), batch, layer)),
          2e-6 * tolerance_factor());
    for (const int layer : {1, 2}) {
      const MatrixView<const float> y = engine.network().activations(batch, layer);
      reference::Rows got(std::size_t(y.rows));
      for (Index b = 0; b < y.rows; ++b) got[std::size_t(b)].assign(y.row(b), y.row(b) + y.cols);
      EXPECT_LT(furthest(expected.output[std::size_t(layer)], got), 2e-6 * tolerance_factor());
    }
  }
}

TEST(NetworkPrediction, NeedsNoTargets) {
  Problem problem = chain();
  const reference::Network network(problem.network, problem.planned_batch, Pass::prediction);
  const auto parameters = random_parameters(network, 8);
  const auto expected = network.forward(parameters, problem.bound()).output[2];
  Engine engine(problem, Pass::prediction);
  engine.set(parameters);
  problem.data[2].reset();
  EXPECT_LT(furthest(expected, outputs_of(engine.network(), problem.bound(), 2)),
            2e-6 * tolerance_factor());
}

// Formulas of docs/user/numerics.md for one parameter, in float64.
class ReferenceRule {
 public:
  explicit ReferenceRule(const UpdateRule& rule) : name_(name_of(rule)) {}
  void step(double& w, double h, double rate, double t) {
    constexpr double kMu = 0.9, kMu1 = 0.999;
    const double before = v_;
    if (name_ == "SGD") {
      w -= rate * h;
    } else if (name_ == "Momentum" || name_ == "Nesterov") {
      v_ = kMu * v_ - rate * h;
      w += name_ == "Momentum" ? v_ : v_ + kMu * (v_ - before);
    } else if (name_ == "AdaGrad" || name_ == "RMSProp") {
      v_ = name_ == "AdaGrad" ? v_ + h * h : kMu * v_ + (1 - kMu) * h * h;
      w -= rate * h / std::sqrt(std::max(1e-9, v_));
    } else if (name_ == "AdaDelta") {
      g_ = kMu * g_ + (1 - kMu) * h * h;
      const double change = h * std::sqrt(std::max(1e-9, v_) / std::max(1e-9, g_));
      v_ = kMu * v_ + (1 - kMu) * change * change;
      w -= change;
    } else if (name_ == "Adam" || name_ == "AMSGrad" || name_ == "AdamW") {
      g_ = kMu * g_ + (1 - kMu) * h;
      v_ = kMu1 * v_ + (1 - kMu1) * h * h;
      most_ = std::max(most_, v_);
      const double v = name_ == "AMSGrad" ? most_ : v_;
      w -= rate * (g_ / (1 - std::pow(kMu, t + 1))) /
           (std::sqrt(v / (1 - std::pow(kMu1, t + 1))) + 1e-8);
    } else {
      throw std::logic_error("write the formula of " + name_ + " into network_test.cpp");
    }
  }

 private:
  std::string name_;
  double v_ = 0.0;
  double g_ = 0.0;
  double most_ = 0.0;
};

class Updates : public testing::TestWithParam<std::string> {};

TEST_P(Updates, FollowTheFormulasOverSeveralSteps) {
  constexpr double kRate = 0.05, kLambda = 0.02, kLambda1 = 0.003, kDecay = 0.1;
  Problem problem = chain(kSigmoid);
  TrainingDescriptor& training = problem.network.training;
  training.optimizer = *find_named<UpdateRule>(GetParam());
  training.rate = float(kRate);
  training.lambda = float(kLambda);
  training.lambda1 = float(kLambda1);
  problem.network.decay = float(kDecay);
  const BoundBatch batch = problem.bound();
  const reference::Network network(problem.network, problem.planned_batch, Pass::training);
  reference::Parameters p = random_parameters(network, 31);
  Engine engine(problem, Pass::training);
  engine.set(p);

  std::map<const double*, ReferenceRule> rules;
  const auto update = [&](reference::Row& w, const reference::Row& g, bool regularised, int t) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double sign = w[i] > 0.0 ? 1.0 : -1.0;
      const double rate = kRate / (1.0 + kDecay * t);
      const double decay = regularised ? kLambda * w[i] : 0.0;
      const double h = g[i] + (regularised ? kLambda1 * sign : 0.0);
      const bool decouples = GetParam() == "AdamW";
      rules.try_emplace(&w[i], training.optimizer)
          .first->second.step(w[i], decouples ? h : h + decay, rate, t);
      if (decouples) w[i] -= rate * decay;
    }
  };
  for (int t = 0; t < 4; ++t) {
    const reference::Parameters gradient = expected_gradients(network, p, batch);
    for (std::size_t e : {0, 1}) update(p.weight[e], gradient.weight[e], true, t);
    for (std::size_t l : {1, 2}) update(p.of("bias")[l], gradient.of("bias")[l], false, t);
    engine.network().train_step(batch, {t, 0, 1});
  }
  engine.network().catch_up(4);
  const reference::Parameters got = engine.get();
  // In units of what a step changes at most.
  EXPECT_LT(furthest(p.weight, got.weight), 2e-5 * tolerance_factor());
  EXPECT_LT(furthest(p.of("bias"), got.of("bias")), 2e-5 * tolerance_factor());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Updates, testing::ValuesIn(names_of<UpdateRule>()),
                         [](const auto& named) { return named.param; });

TEST(Regularization, CountsEveryMatrixOnceAndNoBias) {
  Problem problem;
  problem.network.layers = {input_layer("In", 9), hidden_layer("Hidden", 7, {"In"}),
                            output_layer("Out", 9, {"Hidden"}, kSigmoid)};
  problem.network.layers[2].shared_weights = {{"Hidden", "In", "Hidden", true}};
  problem.network.training.lambda = 0.5f;
  problem.network.training.lambda1 = 0.25f;
  problem.set_data("In", {}, kExamples, 1);
  problem.set_data("Out", {}, kExamples, 2);
  const reference::Network network(problem.network, problem.planned_batch, Pass::training);
  const auto parameters = random_parameters(network, 5);
  double expected = 0.0;
  for (double w : parameters.weight[0]) expected += 0.25 * w * w + 0.25 * std::abs(w);
  Engine engine(problem, Pass::training);
  engine.set(parameters);
  EXPECT_NEAR(engine.network().regularization_cost(), expected, 1e-6 * expected);
}

TEST(WeightNorm, CapsTheIncomingWeightsOfEveryUnitAndLeavesShortOnesAlone) {
  for (const bool sparse : {true, false}) {
    SCOPED_TRACE(sparse ? "sparse input" : "dense input");
    constexpr double kLimit = 1.2;
    Problem problem = chain();
    problem.set_data("In", {.sparse = sparse}, kExamples, 1);
    Problem capped = problem;
    capped.network.layers[1].weight_norm = capped.network.layers[2].weight_norm = float(kLimit);
    const reference::Network network(problem.network, problem.planned_batch, Pass::training);
    const auto parameters = random_parameters(network, 9);
    const reference::Parameters free = engine_step(problem, parameters).after;
    const reference::Parameters held = engine_step(capped, parameters).after;
    int shortened = 0;
    int kept = 0;
    for (const std::size_t edge : {0, 1}) {
      const std::size_t units = edge == 0 ? 7 : 8;
      for (std::size_t j = 0; j < units; ++j) {
        double squares = 0.0;
        for (std::size_t i = j; i < free.weight[edge].size(); i += units)
          squares += free.weight[edge][i] * free.weight[edge][i];
        const double factor = std::min(1.0, kLimit / std::sqrt(squares));
        ++(factor < 1.0 ? shortened : kept);
        for (std::size_t i = j; i < free.weight[edge].size(); i += units)
          EXPECT_NEAR(held.weight[edge][i], factor * free.weight[edge][i], 1e-6);
      }
    }
    EXPECT_GT(shortened, 0);
    EXPECT_GT(kept, 0);
  }
}

// What a run that diverges says.
std::string message_of_divergence(int ranks) {
  Problem problem = chain(Activation(Linear{}));
  problem.network.layers[1].activation = Activation(Linear{});
  problem.network.loss = SquaredError{};
  problem.network.training.rate = 1e20f;
  const auto body = [&](Communicator& communicator) {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
    const Context context = runtime->context(communicator);
    context.compute.kernels.block_rule = kSmallBlocks;
    Network network(make_graph(problem.network, problem.shapes(), "test"), problem.shapes(),
                    context, problem.planned_batch, Pass::training);
    network.initialise(1);
    for (std::int64_t step = 0; step < 20; ++step)
      network.train_step(problem.bound(), {step, step / 4, 1});
  };
  return message_of<DivergenceError>([&] {
    if (ranks == 1)
      body(*make_single_process());
    else
      run_thread_group(ranks, body);
  });
}

const auto kNamesLayerAndStep = AllOf(HasSubstr("layer \""), HasSubstr("at step "),
                                      HasSubstr("(epoch "), HasSubstr("learning rate"));

TEST(Divergence, NamesLayerAndStep) {
  EXPECT_THAT(message_of_divergence(1), kNamesLayerAndStep);
}

TEST(Divergence, NamesLayerAndStepOnSeveralRanks) {
  EXPECT_THAT(message_of_divergence(3), kNamesLayerAndStep);
}

TEST(NetworkRefuses, BatchesLargerThanPlannedAndEmptyOnes) {
  Problem problem = chain();
  problem.planned_batch = kExamples - 1;
  Engine engine(problem, Pass::training);
  EXPECT_THROW(engine.network().train_step(problem.bound(), {}), ShapeError);
  EXPECT_THROW(outputs_of(engine.network(), problem.bound(), 2), ShapeError);
  EXPECT_THROW(engine.network().activations(problem.bound(), 1), ShapeError);
  BoundBatch nothing = problem.bound();
  nothing.examples = 0;
  EXPECT_THROW(engine.network().train_step(nothing, {}), ShapeError);
}

TEST(NetworkRefuses, TrainingWhenBuiltForPrediction) {
  const Problem problem = chain();
  Engine engine(problem, Pass::prediction);
  EXPECT_THROW(engine.network().train_step(problem.bound(), {}), ShapeError);
}

TEST(NetworkRefuses, ToPredictWhatIsNoOutputAndToShowWhatIsNoHiddenLayer) {
  const Problem problem = chain();
  Engine engine(problem, Pass::prediction);
  EXPECT_THROW(engine.network().predict(problem.bound(), 1, {}), ShapeError);
  EXPECT_THROW(engine.network().predict(problem.bound(), 0, {}), ShapeError);
  EXPECT_THROW(engine.network().activations(problem.bound(), 2), ShapeError);
}

TEST(NetworkRefuses, MissingData) {
  Problem problem = chain();
  Engine engine(problem, Pass::training);
  for (const std::size_t layer : {0, 2}) {
    Problem lacking = problem;
    lacking.data[layer].reset();
    EXPECT_THROW(engine.network().train_step(lacking.bound(), {}), ShapeError);
  }
}

TEST(NetworkRefuses, DropoutWhereItIsNotSupported) {
  Problem output = chain();
  output.network.layers[2].dropout = 0.5f;
  EXPECT_THAT(message_of<UsageError>([&] { Engine(output, Pass::training); }),
              AllOf(HasSubstr("\"Out\""), HasSubstr("pDropout 0.5")));
  Problem hidden = chain();
  hidden.network.layers[1].activation = SoftMax{};
  hidden.network.layers[1].dropout = 0.5f;
  EXPECT_THAT(message_of<UsageError>([&] { Engine(hidden, Pass::training); }),
              AllOf(HasSubstr("\"Hidden\""), HasSubstr("pDropout 0.5"), HasSubstr("SoftMax")));
  EXPECT_NO_THROW(Engine(output, Pass::prediction)) << "predictions drop nothing";
  EXPECT_NO_THROW(Engine(hidden, Pass::prediction));
}

TEST(NetworkRefuses, ToSkipFromASparseInput) {
  Problem problem = chain();
  problem.network.layers[1].extent[0] = 9;
  problem.network.layers[1].skips = {"In"};
  EXPECT_THAT(message_of<UsageError>([&] { Engine(problem, Pass::training); }),
              AllOf(HasSubstr("\"Hidden\""), HasSubstr("Skip"), HasSubstr("\"In\"")));
}

}  // namespace
}  // namespace norn::test
