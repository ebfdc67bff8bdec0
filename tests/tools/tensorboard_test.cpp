// SPDX-License-Identifier: Apache-2.0
// Scalars of a run's events; that TensorBoard reads the files is for tests/integration to show.
#include "tools/training/tensorboard.h"

#include "src/run/run_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn::tools {
namespace {

TEST(TensorBoard, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);            // the catalogue's check value
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, GetsAScalarOfEveryMetricAndK) {
  ValidationReport report;
  report.cost = 1.5;
  report.metrics = {{10, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}},
                    {20, {0.2, 0.1, 0.3, 0.4, 0.5, 0.6, 0.8}}};
  const auto scalars = scalars_of(run::validation_event(report));
  EXPECT_EQ(scalars.size(), 1 + 2 * metric_names().size());
  EXPECT_THAT(scalars, testing::Contains(testing::Pair("eval/cost", 1.5)));
  EXPECT_THAT(scalars, testing::Contains(testing::Pair("eval/recall@10", 0.1)));
  EXPECT_THAT(scalars, testing::Contains(testing::Pair("eval/coverage@20", 0.8)));
}

TEST(TensorBoard, GetsNothingOfOtherEventsAndOfCostsThatAreNoNumbers) {
  EXPECT_TRUE(scalars_of(run::error_event("trouble", 6)).empty());
  EXPECT_TRUE(scalars_of(run::checkpoint_event(1, 2, "file")).empty());
  EpochReport report;
  report.training_cost = std::numeric_limits<double>::quiet_NaN();
  const auto scalars = scalars_of(run::epoch_event(report));
  EXPECT_THAT(scalars, testing::Contains(testing::Key("train/rate")));
  EXPECT_THAT(scalars, testing::Not(testing::Contains(testing::Key("epoch/cost"))));
}

}  // namespace
}  // namespace norn::tools
