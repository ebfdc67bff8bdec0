// SPDX-License-Identifier: Apache-2.0
// Factored output layers at rates and dampings that nobody has chosen for their data.
#include "norn/base/error.h"
#include "src/engine/model/model_parts.h"
#include "tests/data/support.h"
#include "tests/support/problem.h"
#include "tests/support/recipes.h"

#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

class FactoredRates : public testing::Test {
 protected:
  Index below(Index count) { return Index(random_() % std::uint64_t(count)); }
  float magnitude(double low, double high) {
    return float(std::pow(10.0, std::uniform_real_distribution<double>(low, high)(random_)));
  }
  // A layer that is fed with data, and its batch.
  Problem draw_problem(FactoredRule rule) {
    Problem problem;
    NetworkDescriptor& network = problem.network;
    network.loss = SquaredError{};
    network.training.lambda = 0.0f;
    network.training.batch = problem.planned_batch = 1 + below(90);
    network.layers = {input_layer("In", 1 + below(70)),
                      output_layer("Out", 1 + below(700), {"In"}, Activation(Linear{}))};
    network.layers[1].factored = {rule, magnitude(-3.0, 3.0), magnitude(-3.0, 1.0),
                                  1 + int(below(64))};
    problem.set_data("In", {.sparse = false}, network.training.batch, random_());
    problem.set_data("Out", {.valued = below(2) == 1}, network.training.batch, random_());
    return problem;
  }
  static std::string name_of(const Problem& problem) {
    const FactoredOutput& factored = problem.network.layers[1].factored;
    return fmt::format("{} -> {}, batch {}, rate {}, damping {}, fold {}",
                       problem.network.layers[0].units(), problem.network.layers[1].units(),
                       problem.planned_batch, *factored.rate, factored.damping,
                       *factored.fold_every);
  }

  const unsigned seed_ = fresh_seed();
  std::mt19937_64 random_{seed_};
  testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("seed {}", seed_)};
};

// What the weights of a problem's only edge make of its batch, in float64.
struct Judged {
  double cost = 0.0;
  double terms =
      0.0;  // squares of what the outputs would be if nothing cancelled: float32 rounds these
};

Judged judge(Engine& engine, const Problem& problem) {
  const HostBatch& x = *problem.data[0];
  const CsrView targets = problem.data[1]->csr();
  const std::vector<float> bias =
      gather_units(engine.network(), 1, engine.network().unit_layer(1)->bias.value);
  const auto units = bias.size();
  std::vector<double> z, terms;
  for (Index e = 0; e < x.examples; ++e)
    for (float b : bias) {
      z.push_back(double(b));
      terms.push_back(std::abs(double(b)));
    }
  gather_rows(engine.network(), 0, 0, [&](Index first, MatrixView<const float> rows) {
    for (Index e = 0; e < x.examples; ++e)
      for (Index j = 0; j < rows.rows; ++j)
        for (std::size_t i = 0; i < units; ++i) {
          const double term = double(x.matrix()(e, first + j)) * double(rows(j, Index(i)));
          z[std::size_t(e) * units + i] += term;
          terms[std::size_t(e) * units + i] += std::abs(term);
        }
  });
  for (Index e = 0; e < x.examples; ++e)
    for (RowOffset k = targets.row_begin[e]; k < targets.row_begin[e + 1]; ++k)
      z[std::size_t(e) * units + std::size_t(targets.column[k])] -=
          targets.value ? double(targets.value[k]) : 1.0;
  Judged judged;
  for (double d : z) judged.cost += 0.5 * d * d;
  for (double t : terms) judged.terms += t * t;
  return judged;
}

// However popular a unit is, and however few the examples are for the width of the source. Batches
// that are nearly singular make weights that are large, whose outputs cancel.
TEST_F(FactoredRates, NoStepOfNewtonRaisesTheCostOfItsBatch) {
  constexpr double kOfWeights = 1e-7, kOfSums = 1e-5;  // found: 2e-10, 4e-7 of 24,000 steps' most
  for (int round = 0; round < 20; ++round) {
    const Problem problem = draw_problem(FactoredRule::newton);
    SCOPED_TRACE(name_of(problem));
    Engine engine(problem, Pass::training);
    engine.network().initialise(seed_ + unsigned(round));
    double first = 0.0, before = HUGE_VAL;
    for (std::int64_t step = 0; step < 80; ++step) {
      const Judged now = judge(engine, problem);
      const double said = engine.network().train_step(problem.bound(), {step, 0, 1}).value();
      if (step == 0) first = now.cost;
      ASSERT_LE(now.cost, before + kOfWeights * (first + now.terms)) << "step " << step;
      ASSERT_NEAR(said, now.cost, kOfSums * (first + now.terms)) << "step " << step;
      before = now.cost;
    }
  }
}

// Hidden layers by their rules' usual rates: activations change under the layer, by much at first.
TEST_F(FactoredRates, CostsStayFiniteBesideHiddenLayersOfAnyRule) {
  for (const UpdateRule& optimizer :
       {UpdateRule(Sgd{}), UpdateRule(Momentum{}), UpdateRule(Adam{})})
    for (int round = 0; round < 2; ++round) {
      Recipe recipe = factored_recipe(FactoredRule::newton, optimizer);
      NetworkDescriptor& network = recipe.network;
      network.training.rate = TrainingDescriptor{}.rate;
      network.decay = 0.0f;
      network.training.batch = 1 + below(100);
      network.boost_one = magnitude(0.0, 2.0);
      network.boost_zero = 1.0f;
      network.layers[2].factored = {};
      network.layers[2].factored.rule = FactoredRule::newton;
      SCOPED_TRACE(fmt::format("rule {}, batch {}, boost {}", optimizer.index(),
                               network.training.batch, network.boost_one));
      const Outcome outcome = run(recipe, 60, 1, 2);
      EXPECT_THAT(outcome.costs,
                  testing::Each(testing::Truly([](double c) { return std::isfinite(c); })));
    }
}

std::string number_after(const std::string& text, const std::string& words) {
  const std::string rest = text.substr(text.find(words) + words.size());
  return rest.substr(0, rest.find(' '));
}

void expect_advice(const std::string& text, float rate) {
  EXPECT_EQ(text, fmt::format("layer \"Out\": a step at rate {:.3g} would take its weights to 0 or "
                              "beyond in some direction, at step {} (epoch {}); lower \"Rate\" of "
                              "Factored to {} or less",
                              rate, number_after(text, "at step "),
                              number_after(text, "(epoch ").substr(0, 1),
                              number_after(text, "Factored to ")));
}

TEST(Factored, SaysWhichRateOfGradientDescentWouldHold) {
  Recipe recipe = factored_recipe(FactoredRule::sgd, Sgd{});
  recipe.network.decay = 0.0f;
  std::optional<float>& rate = recipe.network.layers[2].factored.rate;
  rate = 30.0f;
  bool holds = false;
  for (int tries = 0; tries < 5 && !holds; ++tries) try {
      run(recipe, 40, 1, 1);
      holds = true;
    } catch (const DivergenceError& error) {
      expect_advice(error.what(), *rate);
      const float advised = std::stof(number_after(error.what(), "Factored to "));
      EXPECT_LT(advised, 0.75f * *rate);
      rate = advised;
    }
  EXPECT_TRUE(holds);
}

// Examples that are much alike, of sources that grow ten thousand times between two steps, before
// the curvature is made anew.
TEST_F(FactoredRates, NewtonHoldsWhereSourcesGrowTenThousandTimes) {
  Problem problem = draw_problem(FactoredRule::newton);
  problem.network.layers[0].extent[0] = 40 + below(40);
  problem.network.training.batch = problem.planned_batch = 10 + below(80);
  problem.set_data("In", {.sparse = false}, problem.planned_batch, seed_);
  problem.set_data("Out", {}, problem.planned_batch, seed_);
  problem.network.layers[1].factored.rate = 0.5f;
  SCOPED_TRACE(name_of(problem));
  Engine engine(problem, Pass::training);
  engine.network().initialise(seed_);
  engine.network().train_step(problem.bound(), {0, 0, 1});
  auto larger = std::make_shared<HostBatch>(random_batch({.sparse = false}, problem.planned_batch,
                                                         problem.network.layers[0].units(), seed_));
  for (Index e = larger->examples - 1; e >= 0; --e)
    for (Index j = 0; j < larger->width; ++j) {
      const float first = larger->matrix()(0, j), second = larger->matrix()(1, j);
      larger->dense.view()(e, j) = 1e4f * (first + float(e) * second);
    }
  problem.data[0] = larger;
  const double before = engine.network().train_step(problem.bound(), {1, 0, 1}).value();
  const double after = engine.network().train_step(problem.bound(), {2, 0, 1}).value();
  EXPECT_LE(after, before * 1.0001);
}

}  // namespace
}  // namespace norn::test
