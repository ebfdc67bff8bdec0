// SPDX-License-Identifier: Apache-2.0
// Cosines of units, and diversity of lists, against dense loops in float64.
#include "src/engine/predict/unit_similarity.h"

#include "norn/base/error.h"
#include "norn/data/memory_set.h"
#include "src/engine/predict/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

class UnitSimilarityTest : public testing::Test {
 protected:
  UnitSimilarityTest() {
    const double density = std::uniform_real_distribution<double>(0.001, 0.5)(random_);
    has_.assign(std::size_t(examples_), std::vector<bool>(std::size_t(width_)));
    for (auto& row : has_) {
      for (Index u = 0; u < width_; ++u) {
        if (!std::bernoulli_distribution(density)(random_)) continue;
        row[std::size_t(u)] = true;
        for (int times = random_() % 20 == 0 ? 2 : 1; times > 0; --times)
          columns_.push_back(Column(u));  // what is there twice is there once
      }
      begin_.push_back(RowOffset(columns_.size()));
    }
  }
  std::shared_ptr<const UnitSimilarity> similarity(Index units) const {
    const MemorySet set{
        .name = "trained", .width = width_, .row_begin = begin_, .columns = columns_};
    return std::make_shared<const UnitSimilarity>(*open_memory_set(set, Role::input), units);
  }
  double cosine(Index a, Index b) const {
    double both = 0.0, of_a = 0.0, of_b = 0.0;
    for (const auto& row : has_) {
      both += row[std::size_t(a)] && row[std::size_t(b)];
      of_a += row[std::size_t(a)];
      of_b += row[std::size_t(b)];
    }
    return both == 0.0 ? 0.0 : both / std::sqrt(of_a * of_b);
  }
  Index below(Index count) { return Index(random_() % std::uint64_t(count)); }

  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
  const Index examples_ = 1 + below(9) * below(700);
  const Index width_ = 2 + below(50);
  std::vector<std::vector<bool>> has_;
  std::vector<RowOffset> begin_ = {0};
  std::vector<Column> columns_;
};

TEST_F(UnitSimilarityTest, DiversityIsThatOfAllPairs) {
  const Index units = 2 + below(width_ - 1);
  RankingMetrics metrics({1, 2, units}, units);
  metrics.set_similarity(similarity(units));
  std::vector<double> expected(3, 0.0);
  const int lists = 1 + int(below(5));
  for (int list = 0; list < lists; ++list) {
    std::vector<Index> ranked(static_cast<std::size_t>(units));
    std::iota(ranked.begin(), ranked.end(), Index(0));
    std::ranges::shuffle(ranked, random_);
    metrics.add(ranked, std::vector<Column>{0});
    for (std::size_t at = 1; at < 3; ++at) {
      const Index k = at == 1 ? 2 : units;
      double sum = 0.0;
      for (Index i = 0; i < k; ++i)
        for (Index j = 0; j < i; ++j)
          sum += 1.0 - cosine(ranked[std::size_t(i)], ranked[std::size_t(j)]);
      expected[at] += 2.0 * sum / double(k * (k - 1)) / lists;
    }
  }
  for (std::size_t at = 0; at < 3; ++at)
    EXPECT_NEAR(metrics.result()[at].of<metric::Diversity>(), expected[at], 1e-9);
}

TEST_F(UnitSimilarityTest, ListsDoNotDependOnThoseBefore) {
  const auto all = similarity(width_);
  UnitSimilarity::Workspace used;
  std::vector<double> sums;
  for (int list = 0; list < 4; ++list) {
    std::vector<Index> units(std::size_t(below(width_) + 1));
    for (Index& unit : units) unit = below(width_);
    all->to_those_before(units, used, sums);
    UnitSimilarity::Workspace fresh;
    std::vector<double> expected;
    all->to_those_before(units, fresh, expected);
    EXPECT_EQ(sums, expected);
  }
  EXPECT_THROW(RankingMetrics({1}, width_ + 1).set_similarity(all), ShapeError);
}

}  // namespace
}  // namespace norn::test
