// SPDX-License-Identifier: Apache-2.0
// What is said at the end of a run that was validated.
#include "src/run/validation_curve.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace norn::run {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// All that is said of these values, the last of which is that of the last epoch.
std::vector<std::string> said_of(const std::vector<double>& values, const std::string& watched,
                                 bool is_of_recipe, std::int64_t epochs = 0) {
  ValidationCurve curve;
  const TrainingObserver observer = curve.observer();
  TrainingState state;
  state.watched = watched;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ValidationReport report;
    report.epoch = std::int64_t(i) + 1;
    report.value = values[i];
    observer.on_validation(report);
  }
  state.epoch = state.search.best_epoch = std::int64_t(values.size());
  TrainingDescriptor training;
  training.epochs = epochs > 0 ? epochs : std::int64_t(values.size());
  std::vector<std::string> lines;
  const Log log([&](LogLevel, const std::string& line) { lines.push_back(line); });
  curve.tell(log, TrainingEnd::completed, state, training, is_of_recipe);
  return lines;
}

TEST(ValidationCurve, SaysWhereAMetricStillRoseInTheLastQuarter) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 100; ++i) {
    const auto epochs = std::size_t(8 + random() % 100);
    std::vector<double> rising, flat;
    double value = std::uniform_real_distribution<>(0.05, 0.5)(random);
    for (std::size_t e = 0; e < epochs; ++e) {
      flat.push_back(value);
      rising.push_back(value * (1.0 + 0.1 * double(e) / double(epochs)));
    }
    const auto rose = Contains(HasSubstr("ndcg@20 still rose at the end: more `epochs`"));
    EXPECT_THAT(said_of(rising, "ndcg@20", true), rose);
    EXPECT_THAT(said_of(flat, "ndcg@20", true), Not(rose));
    EXPECT_THAT(said_of(rising, "ndcg@20", false), Not(rose));
    EXPECT_THAT(said_of(rising, "ndcg@20", true, std::int64_t(2 * epochs)), Not(rose));
    EXPECT_THAT(said_of(rising, "loss", true), Not(Contains(HasSubstr("still rose"))));
    rising.back() = rising.front();
    EXPECT_THAT(said_of(rising, "ndcg@20", true), Not(rose));
  }
}

TEST(ValidationCurve, SaysNothingWithoutAValidation) {
  EXPECT_TRUE(said_of({}, "ndcg@20", true).empty());
}

TEST(ValidationCurve, NeedsAnEarlierValueToSeeARise) {
  EXPECT_FALSE(still_rises(std::nan(""), 0.5));
  EXPECT_TRUE(still_rises(0.4, 0.5));
  EXPECT_FALSE(still_rises(0.5, 0.501));
}

}  // namespace
}  // namespace norn::run
