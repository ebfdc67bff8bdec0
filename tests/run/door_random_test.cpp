// SPDX-License-Identifier: Apache-2.0
// Calls of the library with arrays and settings drawn at random, a few of them wrong: each ends
// with a result or with an error that says what is wrong, and nothing else.
#include "norn/base/error.h"
#include "norn/run/evaluate.h"
#include "norn/run/plan.h"
#include "norn/run/recommend.h"
#include "norn/run/train.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gmock/gmock.h>

namespace norn::run {
namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  Index below(Index end) { return Index(random_() % unsigned(end)); }
  bool once_in(Index times) { return below(times) == 0; }

 private:
  std::mt19937 random_;
};

struct Arrays {
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  std::vector<float> values;
  Index width = 1;

  explicit Arrays(Dice& dice) : width(1 + dice.below(60)) {
    const Index rows = 1 + dice.below(dice.once_in(10) ? 3 : 80);
    for (Index row = 0; row < rows; ++row) {
      for (Index unit = 0; unit < width; ++unit)
        if (dice.once_in(6)) columns.push_back(Column(unit));
      begin.push_back(RowOffset(columns.size()));
    }
    for (std::size_t i = 0; i < columns.size(); ++i) values.push_back(float(dice.below(5)));
    spoil(dice);
  }
  MemorySet set(std::string name) const {
    return {.name = std::move(name), .width = width, .row_begin = begin, .columns = columns};
  }

 private:
  void spoil(Dice& dice) {
    if (dice.once_in(20)) begin[std::size_t(dice.below(Index(begin.size())))] += dice.below(9) - 4;
    if (dice.once_in(30)) begin.resize(std::size_t(dice.below(Index(begin.size()))));
    if (dice.once_in(30)) std::ranges::reverse(columns);
    if (dice.once_in(30)) columns.push_back(Column(width + dice.below(3)));
    if (dice.once_in(30)) width -= dice.below(2 * width + 2);
    if (dice.once_in(20) && !values.empty()) values.back() = NAN;
    if (dice.once_in(20)) values.resize(values.size() / 2);
  }
};

struct OfTheProgram : std::exception {};

void call(Dice& dice) {
  const Arrays arrays(dice);
  MemorySet input = arrays.set(dice.once_in(20) ? "" : "films_input");
  if (dice.once_in(3)) input.values = arrays.values;
  const MemorySet output = arrays.set(dice.once_in(20) ? "films_input" : "films_output");

  TrainOptions options;
  options.recipe = dice.once_in(20) ? "linear" : dice.once_in(2) ? "sigmoid" : "softmax";
  if (dice.once_in(40)) options.network = "{ \"Layers\": 3 }";
  options.sets = {input, output};
  options.batch = dice.below(dice.once_in(3) ? 90 : 12);
  options.batch_may_shrink = !dice.once_in(4);
  options.epochs = dice.below(4);
  if (dice.once_in(20)) options.rate = NAN;
  if (dice.once_in(20)) options.optimizer = "Adamm";
  if (dice.once_in(3)) options.validation.split = 0.1f * float(dice.below(12));
  if (dice.once_in(8)) options.validation.early_stop = dice.once_in(3) ? "speed" : "ndcg@5";
  options.device.kind = DeviceChoice::Kind::cpu;
  options.device.threads = 1 + int(dice.below(3));
  TrainObserver observer;
  if (dice.once_in(20)) observer.on_step = [](const StepReport&) { throw OfTheProgram(); };

  if (dice.once_in(4)) plan(options);
  const std::unique_ptr<Model> trained = train(options, observer).model;
  std::string bytes = trained->bytes();
  if (dice.once_in(20)) bytes.resize(bytes.size() / 2);
  const std::unique_ptr<Model> model = Model::from_bytes(bytes, {.device = options.device});
  RecommendOptions wanted{.sets = {input}, .k = dice.below(70), .exclude_seen = dice.once_in(2)};
  const Recommendations best = recommend(*model, wanted);
  EXPECT_EQ(recommend(*trained, wanted).units, best.units);
  ASSERT_EQ(best.units.size(), std::size_t(best.examples * best.k));
  EXPECT_TRUE(
      std::ranges::all_of(best.units, [&](Index u) { return u >= -1 && u < arrays.width; }));
  EvaluateOptions evaluated{.sets = {input, output}, .top = {1 + dice.below(9)}};
  evaluated.seen = dice.once_in(2) ? SeenUnits::keep : SeenUnits::leave_out;
  evaluate(*model, evaluated);
}

TEST(DoorAtRandom, EndsWithAResultOrSaysWhatIsWrong) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Dice dice(seed);
  int results = 0;
  int errors = 0;
  for (int i = 0; i < 150; ++i) {
    try {
      call(dice);
      ++results;
    } catch (const OfTheProgram&) {
    } catch (const Error& error) {
      ++errors;
      EXPECT_NE(error.exit_code(), 1) << "call " << i << ", unforeseen: " << error.what();
      EXPECT_STRNE(error.what(), "") << "call " << i;
    } catch (const std::exception& other) {
      ADD_FAILURE() << "call " << i << ", foreign: " << other.what();
    }
  }
  EXPECT_GT(results, 0);
  EXPECT_GT(errors, 0);
}

}  // namespace
}  // namespace norn::run
