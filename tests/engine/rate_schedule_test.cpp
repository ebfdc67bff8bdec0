// SPDX-License-Identifier: Apache-2.0
// Learning rates from epoch to epoch, and that rows which lag behind went through the rates of
// their time.
#include "src/engine/train/rate_schedule.h"

#include "kernels/named_variant.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/thread_group.h"

#include <cmath>
#include <cstring>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

TrainingDescriptor training_of(RateKind kind) {
  TrainingDescriptor training;
  training.rate = 0.5f;
  training.epochs = 10;
  training.schedule.kind = kind;
  return training;
}

TEST(EarlyStop, ComesAfterAShareOfTheEpochsAndTheWarmUp) {
  TrainingDescriptor training;
  training.epochs = 41;
  EXPECT_EQ(earliest_stop(training), 11);
  training.schedule.warm_up = 12.5f;
  EXPECT_EQ(earliest_stop(training), 13);
  training.schedule.kind = RateKind::cosine;  // most is gained while the rate falls
  EXPECT_EQ(earliest_stop(training), 31);
  training.validation.stop_from = 0.0f;
  EXPECT_EQ(earliest_stop(training), 13);
  training.schedule.warm_up = 0.0f;
  EXPECT_EQ(earliest_stop(training), 0);
  training.validation.stop_from = 1.0f;
  EXPECT_EQ(earliest_stop(training), 41);
}

TEST(RateSchedule, SaysWhetherItDependsOnTheNumberOfEpochs) {
  for (const RateKind kind :
       {RateKind::constant, RateKind::step, RateKind::cosine, RateKind::plateau}) {
    TrainingDescriptor training = training_of(kind);
    training.schedule.interval = 2;
    PlateauState plateau;
    plateau.factor = 0.25;
    bool depends = false;
    for (int epoch = 0; epoch < 10; ++epoch) {
      training.epochs = 10;
      const float rate = rate_of_epoch(training, epoch, plateau);
      training.epochs = 17;
      depends |= rate_of_epoch(training, epoch, plateau) != rate;
    }
    EXPECT_EQ(falls_to_the_end(training.schedule), depends) << int(kind);
  }
}

TEST(RateSchedule, StepMultipliesEveryInterval) {
  TrainingDescriptor training = training_of(RateKind::step);
  training.schedule.interval = 3;
  training.schedule.multiplier = 0.8f;
  const double m = double(0.8f);
  for (int epoch = 0; epoch < 10; ++epoch)
    EXPECT_FLOAT_EQ(rate_of_epoch(training, epoch, {}), float(0.5 * std::pow(m, epoch / 3)));
}

TEST(RateSchedule, CosineFallsFromTheEndOfTheWarmUpToTheMinimum) {
  TrainingDescriptor training = training_of(RateKind::cosine);
  EXPECT_EQ(rate_of_epoch(training, 0, {}), 0.5f);
  EXPECT_FLOAT_EQ(rate_of_epoch(training, 5, {}), 0.25f);
  EXPECT_NEAR(rate_of_epoch(training, 9, {}), 0.25 * (1.0 + std::cos(0.9 * M_PI)), 1e-8);
  EXPECT_NEAR(rate_of_epoch(training, 10, {}), 0.0f, 1e-7f);
  training.schedule.minimum = 0.1f;
  training.schedule.warm_up = 2.0f;
  for (int epoch : {0, 1, 2}) EXPECT_EQ(rate_of_epoch(training, epoch, {}), 0.5f);
  EXPECT_FLOAT_EQ(rate_of_epoch(training, 6, {}), 0.5f * 0.55f);
  EXPECT_FLOAT_EQ(rate_of_epoch(training, 10, {}), 0.05f);
}

TEST(RateSchedule, PlateauWaitsForItsPatienceAndEndsAtTheMinimum) {
  TrainingDescriptor training = training_of(RateKind::plateau);
  training.schedule.patience = 2;
  training.schedule.minimum = 0.2f;
  PlateauState plateau;
  std::vector<float> rates;
  for (const bool better : {true, false, true, false, false, false, false, false, false, false}) {
    update_plateau(training.schedule, better, plateau);
    rates.push_back(rate_of_epoch(training, 0, plateau));
  }
  EXPECT_EQ(rates,
            (std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f, 0.25f, 0.25f, 0.125f, 0.125f, 0.1f, 0.1f}));
}

TEST(RateSchedule, WarmUpCountsPartsOfEpochs) {
  RateSchedule schedule;
  EXPECT_EQ(warm_up_steps(schedule, 100), 0);
  schedule.warm_up = 0.25f;
  EXPECT_EQ(warm_up_steps(schedule, 100), 25);
  schedule.warm_up = 3.0f;
  EXPECT_EQ(warm_up_steps(schedule, 7), 21);
}

// Rows rest for many steps, over several rates.
Recipe resting_recipe(const UpdateRule& optimizer, const RateSchedule& schedule, float lambda) {
  Recipe recipe = recipe_base("rates", optimizer, 0.01f);
  recipe.network.layers = {input_layer("In", 503), hidden_layer("Hidden", 19, {"In"}),
                           output_layer("Out", 31, {"Hidden", "In"}, SoftMax{})};
  recipe.inputs.labels = true;
  recipe.examples = 90;
  TrainingDescriptor& training = recipe.network.training;
  training.batch = 12;
  training.epochs = 6;
  training.lambda = lambda;
  training.lambda1 = 0.0f;
  training.schedule = schedule;
  training.clip_gradient = 0.003f;
  return recipe;
}

struct Trained {
  std::vector<float> weights;
  std::vector<double> rates;  // of every epoch's last step
};

Trained train_on(const Recipe& recipe, int ranks, bool catches_up_at_once) {
  const TempDir folder;
  write_data(recipe, folder / "data.nc");
  Trained result;
  std::mutex mutex;
  const auto body = [&](Communicator& communicator) {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(1, 0);
    const Context context = runtime->context(communicator);
    context.compute.kernels.block_rule = recipe.blocks;
    const DataBinding data(recipe.network, {{folder / "data.nc"}, {folder / "data.nc"}},
                           DataBinding::Layers::inputs_and_outputs);
    Network network(make_graph(recipe.network, data.shapes(), "test"), data.shapes(), context,
                    recipe.network.training.batch, Pass::training);
    network.initialise(1);
    Trained mine;
    TrainingObserver observer;
    observer.on_step = [&](const StepReport& report) {
      if (catches_up_at_once) network.catch_up(report.step);
    };
    observer.on_epoch = [&](const EpochReport& report) { mine.rates.push_back(report.rate); };
    TrainingState state;
    train(network, data, {}, false, observer, state);
    mine.weights = gather_state(network);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) result = std::move(mine);
  };
  if (ranks == 1)
    body(*make_single_process());
  else
    run_thread_group(ranks, body);
  return result;
}

class Rates : public testing::TestWithParam<std::string> {};

TEST_P(Rates, OfMissedStepsAreThoseOfTheirTime) {
  const RateSchedule schedules[] = {
      {.kind = RateKind::step, .warm_up = 1.5f, .interval = 2, .multiplier = 0.3f},
      {.kind = RateKind::cosine, .warm_up = 0.5f},
      {.kind = RateKind::plateau, .multiplier = 0.5f, .patience = 1}};
  for (const RateSchedule& schedule : schedules)
    for (const float lambda : {0.0f, 1e-2f}) {
      SCOPED_TRACE(fmt::format("schedule {} lambda {}", int(schedule.kind), lambda));
      const Recipe recipe = resting_recipe(*find_named<UpdateRule>(GetParam()), schedule, lambda);
      const Trained lazy = train_on(recipe, 1, false);
      const Trained dense = train_on(recipe, 1, true);
      const Trained ranks = train_on(recipe, 3, false);
      ASSERT_EQ(lazy.weights.size(), dense.weights.size());
      const auto bytes = lazy.weights.size() * sizeof(float);
      EXPECT_EQ(std::memcmp(lazy.weights.data(), dense.weights.data(), bytes), 0);
      EXPECT_EQ(std::memcmp(lazy.weights.data(), ranks.weights.data(), bytes), 0);
      if (schedule.kind == RateKind::plateau) continue;
      for (std::size_t e = 0; e < lazy.rates.size(); ++e) {
        const double decay = 1.0 + double(0.01f) * double(8 * e + 7);
        const double warm_up = std::min(1.0, double(8 * e + 8) / (8.0 * double(schedule.warm_up)));
        EXPECT_NEAR(lazy.rates[e],
                    double(rate_of_epoch(recipe.network.training, Index(e), {})) / decay * warm_up,
                    1e-8);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Rates, testing::ValuesIn(names_of<UpdateRule>()),
                         [](const auto& named) { return named.param; });

// Clipping must do something, and off must be off.
TEST(ClippedGradients, GiveOtherWeightsThanWholeOnesUnlessTheyAreLarge) {
  Recipe recipe = resting_recipe(Sgd{}, {}, 0.0f);
  const Trained clipped = train_on(recipe, 1, false);
  recipe.network.training.clip_gradient = 0.0f;
  const Trained whole = train_on(recipe, 1, false);
  recipe.network.training.clip_gradient = 1e6f;
  EXPECT_NE(clipped.weights, whole.weights);
  // A GPU takes plain steps inside the product, which rounds otherwise.
  EXPECT_THAT(train_on(recipe, 1, false).weights,
              testing::Pointwise(testing::FloatNear(1e-6f), whole.weights));
}

}  // namespace
}  // namespace norn::test
