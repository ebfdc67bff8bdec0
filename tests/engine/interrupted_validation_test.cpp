// SPDX-License-Identifier: Apache-2.0
// Validating while training, after any interruption.
#include "tests/engine/validating.h"

namespace norn::test {
namespace {

using testing::HasSubstr;

class Interrupted : public Validating {};

TEST_F(Interrupted, AtAnyStepIsNeverHavingStopped) {
  network_.training.epochs = 30;
  network_.training.rate = 0.05f;
  asked().early_stop = "ndcg@5";
  asked().patience = 3;
  asked().every = 2;
  const Result straight = live({});
  ASSERT_EQ(straight.end, TrainingEnd::early_stopped);
  const std::int64_t steps = 5;  // an epoch: 180 examples in batches of 37
  int turn = 0;
  for (std::int64_t step : {steps * 2 - 1, steps * 2, steps * 2 + 1, steps * 5, steps * 6 + 3}) {
    SCOPED_TRACE(fmt::format("stopped after step {}", step));
    forget_files();
    const Result first = live({.stop_after = step, .ranks = 1 + turn % 2});
    ASSERT_EQ(first.end, TrainingEnd::stopped);
    const Result second = live({.resume = true, .ranks = 1 + (turn + 2) % 3});
    ++turn;
    EXPECT_EQ(second.end, TrainingEnd::early_stopped);
    EXPECT_TRUE(same_bits(second.weights, straight.weights));
    EXPECT_EQ(second.state.search.ended_epoch, straight.state.search.ended_epoch);
    std::vector<ValidationReport> reports = first.reports;
    reports.insert(reports.end(), second.reports.begin(), second.reports.end());
    EXPECT_EQ(numbers(reports), numbers(straight.reports));
  }
}

TEST_F(Interrupted, KnowsHowLongItHasBeenOnAPlateau) {
  network_.training.epochs = 14;
  network_.training.rate = 0.05f;
  network_.training.schedule.kind = RateKind::plateau;
  network_.training.schedule.patience = 2;
  asked().keep_best = "loss";
  const Result straight = live({});
  ASSERT_LT(straight.rates.back(), 0.5f * straight.rates.front());
  for (const std::int64_t step : {33, 47, 56}) {
    forget_files();
    const Result first = live({.stop_after = step, .ranks = 2});
    const Result second = live({.resume = true, .ranks = 3});
    EXPECT_TRUE(same_bits(second.weights, straight.weights)) << "stopped after step " << step;
    std::vector<double> rates = first.rates;
    rates.insert(rates.end(), second.rates.begin(), second.rates.end());
    EXPECT_EQ(rates, straight.rates);
  }
}

TEST_F(Interrupted, HasItsBestModelWithTheCheckpoint) {
  network_.training.epochs = 12;
  network_.training.rate = 0.05f;
  asked().keep_best = "loss";
  const Result straight = live({});
  const int batches = int(straight.state.step / straight.state.epoch);
  std::mt19937 random(std::random_device{}());
  for (int turn = 0; turn < 4; ++turn) {
    const int stop = batches + int(random() % (10 * batches));
    forget_files();
    const Result first = live({.stop_after = stop, .ranks = 1 + turn % 3, .best_seconds = 1e6});
    ASSERT_EQ(first.end, TrainingEnd::stopped);
    const Result second =
        live({.resume = true, .ranks = 1 + (turn + 1) % 3, .best_seconds = turn % 2 ? 1e6 : 0.0});
    EXPECT_TRUE(same_bits(second.weights, straight.weights)) << "stopped after step " << stop;
  }
}

TEST_F(Interrupted, InAValidationValidatesAgain) {
  asked().keep_best = "ndcg@5";
  const Result straight = live({});
  forget_files();
  const Result first = live({.stop_in_validation = 3, .ranks = 2});
  EXPECT_EQ(first.end, TrainingEnd::stopped);
  EXPECT_EQ(first.reports.size(), 2u);
  EXPECT_TRUE(fs::exists(folder_ / "model.epoch3.nc"));
  const Result second = live({.resume = true});
  EXPECT_EQ(second.reports.front().epoch, 3);
  EXPECT_TRUE(same_bits(second.weights, straight.weights));
}

// A crash after the best model was written and before any checkpoint: that model is what the run
// goes on from.
TEST_F(Interrupted, AfterTheBestModelGoesOnFromThere) {
  network_.training.epochs = 12;
  network_.training.rate = 0.05f;
  asked().keep_best = "loss";
  const Result straight = live({});
  const std::string best = read_text(best_model(model_path()));
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_THAT(entry.path().filename(), testing::AnyOf("data.nc", "model.best.nc"));
  const Result second = live({.resume = true, .ranks = 2});
  EXPECT_EQ(second.reports.front().epoch, straight.state.epoch + 1);
  EXPECT_TRUE(same_bits(second.weights, straight.weights));
  EXPECT_EQ(read_text(best_model(model_path())), best);
}

// As the trainer leaves it at the end: the best model in the model's place, and checkpoints that
// are later than it.
TEST_F(Interrupted, AfterItsEndGoesOnFromTheBestModelAlone) {
  network_.training.epochs = 30;
  network_.training.rate = 0.05f;
  asked().early_stop = "ndcg@5";
  asked().patience = 3;
  const Result ended = live({.every_epochs = 1, .writes_model = true});
  ASSERT_EQ(ended.end, TrainingEnd::early_stopped);
  ASSERT_TRUE(fs::exists(folder_ / fmt::format("model.epoch{}.nc", ended.state.epoch + 2)));
  ASSERT_FALSE(fs::exists(best_model(model_path())));
  const Result again = live({.resume = true, .ranks = 2});
  EXPECT_EQ(again.end, TrainingEnd::early_stopped);
  EXPECT_TRUE(again.reports.empty());
  EXPECT_TRUE(same_bits(again.weights, ended.weights));

  asked().patience = 5;
  for (const int ranks : {1, 2}) {
    const Result kept = live({.resume = true, .ranks = ranks, .patience = 5, .best_seconds = 1e6});
    EXPECT_FALSE(fs::exists(best_model(model_path()))) << "it stands in model.nc";
    EXPECT_EQ(kept.reports.front().epoch, ended.state.epoch + 1);
    const Result written = live({.resume = true, .ranks = ranks, .patience = 5});
    EXPECT_TRUE(same_bits(written.weights, kept.weights));
    fs::remove(best_model(model_path()));
  }
  const Result more = live({.resume = true, .patience = 5, .writes_model = true});
  EXPECT_EQ(more.reports.front().epoch, ended.state.epoch + 1);
  forget_files();
  EXPECT_TRUE(same_bits(more.weights, live({}).weights));
}

TEST_F(Interrupted, WithoutItsBestModelSaysSo) {
  network_.training.rate = 0.05f;
  asked().keep_best = "ndcg@5";
  asked().every = 4;
  live({.stop_after = 22});
  fs::remove(best_model(model_path()));
  EXPECT_THAT(
      message_of<DataError>([&] { live({.resume = true}); }),
      HasSubstr("model.best.nc: the best model so far, of epoch 4, is not there; put it back, "
                "resume from the newest checkpoint, or start anew with `force`"));
}

}  // namespace
}  // namespace norn::test
