// SPDX-License-Identifier: Apache-2.0
// Ranking metrics against numbers worked out by hand, and against plain loops on random cases. The
// whole evaluator is compared with NumPy in tests/integration.
#include "src/engine/predict/metrics.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/engine/train/watched_metric.h"
#include "src/nn/json_value.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <regex>
#include <set>

#include <gtest/gtest.h>

namespace norn {
namespace {

// A metric that is written but not listed would be told to nobody.
TEST(RankingMetrics, AreListedAsTheyAreWritten) {
  const auto text = read_text_file(NORN_SOURCE_DIR "/include/norn/engine/metric.h");
  ASSERT_TRUE(text);
  const std::regex written(R"(struct (\w+) \{\s+static constexpr MetricInfo info)");
  const std::size_t list = text->find("using RankingMetricsList");
  ASSERT_NE(list, std::string::npos);
  const std::string listed = text->substr(list, text->find(';', list) - list);
  std::size_t count = 0;
  for (std::sregex_iterator it(text->begin(), text->end(), written), end; it != end; ++it, ++count)
    EXPECT_TRUE(std::regex_search(listed, std::regex("metric::" + (*it)[1].str() + "\\b")))
        << (*it)[1] << " is not in RankingMetricsList";
  EXPECT_EQ(count, kMetrics.size());
}

TEST(RankingMetrics, OfOneExampleByHand) {
  RankingMetrics metrics({1, 4}, 10);
  const std::vector<Index> ranked = {7, 2, 9, 4};
  const std::vector<Column> held_out = {2, 4, 5};
  metrics.add(ranked, held_out);
  const std::vector<MetricsAtK> result = metrics.result();
  ASSERT_EQ(result.size(), 2u);
  EXPECT_EQ(result[0].of<metric::Recall>(), 0.0);
  EXPECT_EQ(result[0].of<metric::Mrr>(), 0.0);
  EXPECT_DOUBLE_EQ(result[0].of<metric::Coverage>(), 0.1);
  EXPECT_DOUBLE_EQ(result[1].of<metric::Recall>(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(result[1].of<metric::Precision>(), 2.0 / 4.0);
  const double gain = 1 / std::log2(3.0) + 1 / std::log2(5.0);
  const double ideal = 1 + 1 / std::log2(3.0) + 1 / std::log2(4.0);
  EXPECT_DOUBLE_EQ(result[1].of<metric::Ndcg>(), gain / ideal);
  EXPECT_DOUBLE_EQ(result[1].of<metric::Map>(), (1.0 / 2.0 + 2.0 / 4.0) / 3.0);
  EXPECT_DOUBLE_EQ(result[1].of<metric::Mrr>(), 0.5);
  EXPECT_DOUBLE_EQ(result[1].of<metric::HitRate>(), 1.0);
  EXPECT_DOUBLE_EQ(result[1].of<metric::Coverage>(), 0.4);
  EXPECT_EQ(result[0].of<metric::CappedRecall>(), 0.0);
  EXPECT_DOUBLE_EQ(result[1].of<metric::CappedRecall>(), 2.0 / 3.0);
}

TEST(RankingMetrics, ACappedRecallIsOneWhereTheListIsFullOfHits) {
  RankingMetrics metrics({1, 2, 5}, 10);
  metrics.add(std::vector<Index>{2, 7, 4}, std::vector<Column>{2, 4, 5});
  EXPECT_DOUBLE_EQ(metrics.result()[0].of<metric::CappedRecall>(), 1.0);
  EXPECT_DOUBLE_EQ(metrics.result()[0].of<metric::Recall>(), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(metrics.result()[1].of<metric::CappedRecall>(), 1.0 / 2.0);
  EXPECT_DOUBLE_EQ(metrics.result()[2].of<metric::CappedRecall>(), 2.0 / 3.0);
}

TEST(RankingMetrics, DsstnesIdealListHasAllHeldOutUnits) {
  RankingMetrics metrics({1, 2}, 10);
  metrics.add(std::vector<Index>{2, 7}, std::vector<Column>{2, 4, 5});
  const double ideal = 1 + 1 / std::log2(3.0) + 1 / std::log2(4.0);
  EXPECT_DOUBLE_EQ(metrics.result()[0].of<metric::NdcgOfAll>(), 1.0 / ideal);
  EXPECT_DOUBLE_EQ(metrics.result()[0].of<metric::Ndcg>(), 1.0);
  EXPECT_DOUBLE_EQ(metrics.result()[1].of<metric::NdcgOfAll>(), 1.0 / ideal);
}

TEST(RankingMetrics, CountExamplesWithoutHeldOutUnitsButLeaveThemOut) {
  RankingMetrics metrics({2}, 5);
  const std::vector<Index> ranked = {3, 1};
  metrics.add(ranked, {});
  const std::vector<Column> held_out = {3};
  metrics.add(ranked, held_out);
  metrics.add(ranked, {});
  EXPECT_EQ(metrics.examples(), 1);
  EXPECT_EQ(metrics.skipped(), 2);
  EXPECT_DOUBLE_EQ(metrics.result()[0].of<metric::Recall>(), 1.0);
}

TEST(RankingMetrics, TakeAUnitThatIsListedTwiceOnce) {
  RankingMetrics metrics({3}, 5);
  const std::vector<Index> ranked = {3, 1, 0};
  const std::vector<Column> held_out = {1, 1, 4, 4};
  metrics.add(ranked, held_out);
  EXPECT_DOUBLE_EQ(metrics.result()[0].of<metric::Recall>(), 0.5);
}

TEST(RankingMetrics, AreZeroWithoutAnyExample) {
  const RankingMetrics metrics({3}, 5);
  EXPECT_EQ(metrics.result()[0].of<metric::Recall>(), 0.0);
  EXPECT_EQ(metrics.result()[0].of<metric::Coverage>(), 0.0);
}

TEST(RankingMetrics, RejectAUnitOutsideOfTheCatalogue) {
  RankingMetrics metrics({1}, 5);
  const std::vector<Index> ranked = {5};
  const std::vector<Column> held_out = {1};
  EXPECT_THROW(metrics.add(ranked, held_out), ShapeError);
  EXPECT_THROW(RankingMetrics({0}, 5), ShapeError);
}

TEST(RankingMetrics, WeighHitsByGainsOverTheBestLists) {
  RankingMetrics metrics({1, 2}, 5);
  metrics.add(std::vector<Index>{0, 1}, std::vector<Column>{0});  // before there are gains
  EXPECT_TRUE(std::isnan(metrics.result()[0].of<metric::PropensityPrecision>()));
  RankingMetrics weighted({1, 2}, 5);
  weighted.set_gains({1.0, 2.0, 4.0, 8.0, 16.0});
  weighted.add(std::vector<Index>{0, 2, 3}, std::vector<Column>{0, 2, 4, 4});
  weighted.add(std::vector<Index>{3, 1, 0}, std::vector<Column>{1});
  weighted.add(std::vector<Index>{3, 1, 0}, {});
  // At 1: hits 1 and 0, of 16 and 2. At 2: 1 + 4 and 2, of 16 + 4 and 2.
  EXPECT_DOUBLE_EQ(weighted.result()[0].of<metric::PropensityPrecision>(), 1.0 / 18.0);
  EXPECT_DOUBLE_EQ(weighted.result()[1].of<metric::PropensityPrecision>(), 7.0 / 22.0);
  EXPECT_THROW(metrics.set_gains({1.0}), ShapeError);
}

// Every metric of the list, on an example drawn at random and on the same one with one hit more.
TEST(RankingMetrics, KeepTheirLimitsAndGetNoWorseByAHit) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr Index kUnits = 40;
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<Index> ranked(kUnits);
    std::iota(ranked.begin(), ranked.end(), Index(0));
    std::ranges::shuffle(ranked, random);
    const Index k = std::uniform_int_distribution<Index>(1, 12)(random);
    std::vector<Column> held_out;
    for (Index unit = 0; unit < kUnits; ++unit)
      if (random() % 4 == 0 || unit == ranked.back()) held_out.push_back(Column(unit));
    const auto values = [&](const std::vector<Index>& list) {
      RankingMetrics metrics({k}, kUnits);
      metrics.set_gains(std::vector<double>(kUnits, 1.5));
      metrics.add(list, held_out, kUnits - Index(held_out.size()));
      return metrics.result().front().values;
    };
    std::vector<Index> with_hit = ranked;
    std::swap(with_hit[random() % std::size_t(k)], with_hit.back());
    const auto before = values(ranked);
    const auto after = values(with_hit);
    for (std::size_t i = 0; i < kMetrics.size(); ++i) {
      SCOPED_TRACE(std::string(kMetrics[i].name) + " at " + std::to_string(k));
      if (std::isnan(before[i])) continue;  // it does not know of hits
      EXPECT_GE(before[i], 0.0);
      EXPECT_LE(after[i], kMetrics[i].most + 1e-12);
      if (kMetrics[i].better == Better::larger)
        EXPECT_GE(after[i], before[i] - 1e-12);
      else
        EXPECT_LE(after[i], before[i] + 1e-12);
    }
  }
}

TEST(RankingMetrics, AreListedForThePageOfARunAndTheSchemaOfItsLog) {
  const std::filesystem::path source = NORN_SOURCE_DIR;
  const JsonValue listed = read_json(source / "python/norn/report/metrics.json");
  EXPECT_EQ(listed.line(), parse_json(metric_reference_json(), "reference").line())
      << "run tools/dev/write_reference.sh";
  const JsonValue schema = read_json(source / "configs/schema/log.schema.json");
  std::set<std::string> in_schema;
  for (const JsonValue& event : schema["oneOf"].entries())
    for (const auto& [name, limits] :
         event["properties"]["metrics"]["items"]["properties"].members())
      if (name != "k") in_schema.insert(name);
  const std::vector<std::string> names = metric_names();
  EXPECT_EQ(in_schema, std::set<std::string>(names.begin(), names.end()))
      << "run tools/dev/write_reference.sh";
}

TEST(WatchedMetric, KnowsWhichValuesAreBetter) {
  const WatchedMetric ndcg = parse_watched_metric("NDCG@5");
  EXPECT_EQ(ndcg.name, "ndcg@5");
  EXPECT_TRUE(ndcg.is_better(0.4, 0.3, 0.05));
  EXPECT_FALSE(ndcg.is_better(0.4, 0.3, 0.2));
  EXPECT_FALSE(ndcg.is_better(0.3, 0.4, 0.0));
  EXPECT_TRUE(parse_watched_metric("Loss").is_better(0.3, 0.4, 0.05));
  constexpr MetricInfo kLess = {
      .name = "less", .title = "Less", .help = "less is better", .better = Better::smaller};
  const WatchedMetric less{"less@5", &kLess, 5};
  EXPECT_TRUE(less.is_better(0.3, 0.4, 0.05));
  EXPECT_FALSE(less.is_better(0.3, 0.4, 0.2));
  EXPECT_FALSE(less.is_better(0.4, 0.3, 0.0));
}

TEST(WatchedMetric, IsCalledByNameOrTitleAndTakesItsValueAtItsK) {
  MetricsAtK at{3, {}};
  for (std::size_t i = 0; i < kMetrics.size(); ++i) at.values[i] = double(i) + 1;
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    const std::string name(kMetrics[i].name);
    if (kMetrics[i].use != MetricUse::always) {
      EXPECT_THROW(parse_watched_metric(name + "@3"), UsageError) << name;
      continue;
    }
    for (const std::string& word : {name, std::string(kMetrics[i].title)}) {
      const WatchedMetric watched = parse_watched_metric(word + "@3");
      EXPECT_EQ(watched.name, name + "@3");
      EXPECT_EQ(watched.value_of({{2, {}}, at}, 9.0), double(i) + 1);
    }
  }
  EXPECT_EQ(parse_watched_metric("loss").value_of({at}, 9.0), 9.0);
  EXPECT_THROW(parse_watched_metric("recall@4").value_of({at}, 9.0), ShapeError);
}

// Of all pairs of a held-out unit and another one: 1 where the first is listed first, 1/2 where
// neither is listed.
double area_by_pairs(std::span<const Index> list, const std::vector<Column>& held_out,
                     const std::vector<Index>& others) {
  const auto place = [&](Index unit) { return std::ranges::find(list, unit) - list.begin(); };
  const auto end = std::ptrdiff_t(list.size());
  double sum = 0.0;
  for (const Column one : held_out)
    for (const Index other : others) {
      const auto a = place(Index(one)), b = place(other);
      sum += a < b ? 1.0 : a == end && b == end ? 0.5 : 0.0;
    }
  return sum / (double(held_out.size()) * double(others.size()));
}

TEST(RankingMetrics, TheAreaIsTheShareOfPairsThatAreInOrder) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int draw = 0; draw < 100; ++draw) {
    const Index units = 2 + Index(random() % 60);
    std::vector<Index> ranked(static_cast<std::size_t>(units));
    std::iota(ranked.begin(), ranked.end(), Index(0));
    std::ranges::shuffle(ranked, random);
    std::vector<Column> held_out;
    std::vector<Index> others;
    for (Index unit = 0; unit < units; ++unit)
      if (unit == 0 || (unit > 1 && random() % 5 == 0))
        held_out.push_back(Column(unit));
      else
        others.push_back(unit);
    std::vector<Index> ks = {1, 1 + Index(random() % std::uint64_t(units)), units, 2 * units};
    RankingMetrics metrics(ks, units);
    metrics.add(ranked, held_out, Index(others.size()));
    metrics.add(ranked, {}, units);
    const auto result = metrics.result();
    for (std::size_t i = 0; i < ks.size(); ++i)
      EXPECT_NEAR(result[i].of<metric::Auc>(),
                  area_by_pairs(std::span(ranked).first(std::size_t(std::min(ks[i], units))),
                                held_out, others),
                  1e-12)
          << ks[i] << " of " << units;
  }
  RankingMetrics all({3}, 2);
  all.add(std::vector<Index>{1, 0}, std::vector<Column>{0, 1}, 0);
  EXPECT_EQ(all.result()[0].of<metric::Auc>(), 1.0) << "there is nothing else";
  RankingMetrics uncounted({3}, 2);
  uncounted.add(std::vector<Index>{1, 0}, std::vector<Column>{0});
  EXPECT_TRUE(std::isnan(uncounted.result()[0].of<metric::Auc>()));
}

TEST(RankingMetrics, NoveltyIsTheMeanInformationOfTheList) {
  const std::vector<double> bits = self_information(std::vector<Index>{8, 4, 1, 0}, 8);
  EXPECT_EQ(bits, (std::vector<double>{0.0, 1.0, 3.0, 3.0}));
  RankingMetrics metrics({1, 2, 9}, 4);
  EXPECT_THROW(metrics.set_information({1.0}), ShapeError);
  metrics.set_information(bits);
  metrics.add(std::vector<Index>{1, 2, 0}, std::vector<Column>{0});
  metrics.add(std::vector<Index>{3}, std::vector<Column>{0});
  metrics.add(std::vector<Index>{}, std::vector<Column>{0});
  EXPECT_DOUBLE_EQ(metrics.result()[0].of<metric::Novelty>(), (1.0 + 3.0 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(metrics.result()[1].of<metric::Novelty>(), (2.0 + 3.0 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(metrics.result()[2].of<metric::Novelty>(), (4.0 / 3.0 + 3.0) / 3.0);
  EXPECT_TRUE(std::isnan(metrics.result()[2].of<metric::Diversity>()));
  const RankingMetrics nobody({1}, 4);
  EXPECT_TRUE(std::isnan(nobody.result()[0].of<metric::Novelty>()));
}

TEST(InversePropensities, AreLargerForRareUnits) {
  const std::vector<Index> counts = {0, 1, 100};
  const std::vector<double> inverse = inverse_propensities(counts, 1000, 0.55, 1.5);
  const double c = (std::log(1000.0) - 1.0) * std::pow(2.5, 0.55);
  EXPECT_DOUBLE_EQ(inverse[0], 1.0 + c * std::exp(-0.55 * std::log(1.5)));
  EXPECT_DOUBLE_EQ(inverse[2], 1.0 + c * std::exp(-0.55 * std::log(101.5)));
  EXPECT_GT(inverse[1], inverse[2]);
  try {
    inverse_propensities(counts, 2, 0.55, 1.5);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(),
                 "propensities need the counts of at least 3 training examples, and there are 2");
  }
}

struct Case {
  std::vector<Index> ranked;
  std::vector<Column> held_out;
};

std::vector<Case> random_cases(std::mt19937& random, Index units) {
  std::vector<Case> cases;
  std::uniform_int_distribution<std::size_t> held(0, 6);
  std::uniform_int_distribution<std::size_t> length(0, std::size_t(units));
  for (int i = 0; i < 40; ++i) {
    std::vector<Index> order(static_cast<std::size_t>(units));
    std::iota(order.begin(), order.end(), Index(0));
    Case c;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t h = held(random); h > 0; --h) c.held_out.push_back(Column(order[h]));
    std::sort(c.held_out.begin(), c.held_out.end());
    std::shuffle(order.begin(), order.end(), random);
    order.resize(length(random));
    c.ranked = order;
    cases.push_back(c);
  }
  return cases;
}

TEST(RankingMetrics, AgreeWithPlainLoopsWhateverTheOrderOfExamples) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr Index kUnits = 17;
  constexpr Index kK = 5;
  std::vector<Case> cases = random_cases(random, kUnits);
  double recall = 0.0;
  double ndcg = 0.0;
  std::set<Index> recommended;
  int count = 0;
  for (const Case& c : cases) {
    if (c.held_out.empty()) continue;
    ++count;
    double hits = 0.0;
    double gain = 0.0;
    double ideal = 0.0;
    for (std::size_t i = 0; i < std::min<std::size_t>(kK, c.ranked.size()); ++i) {
      recommended.insert(c.ranked[i]);
      const bool hit = std::count(c.held_out.begin(), c.held_out.end(), Column(c.ranked[i])) > 0;
      hits += hit;
      gain += hit ? std::log(2.0) / std::log(double(i) + 2.0) : 0.0;
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(kK, c.held_out.size()); ++i)
      ideal += std::log(2.0) / std::log(double(i) + 2.0);
    recall += hits / double(c.held_out.size());
    ndcg += gain / ideal;
  }
  RankingMetrics forward({kK}, kUnits);
  for (const Case& c : cases) forward.add(c.ranked, c.held_out);
  std::shuffle(cases.begin(), cases.end(), random);
  RankingMetrics shuffled({kK}, kUnits);
  for (const Case& c : cases) shuffled.add(c.ranked, c.held_out);

  const MetricsAtK got = forward.result()[0];
  EXPECT_EQ(forward.examples(), count);
  EXPECT_NEAR(got.of<metric::Recall>(), recall / count, 1e-12);
  EXPECT_NEAR(got.of<metric::Ndcg>(), ndcg / count, 1e-12);
  EXPECT_DOUBLE_EQ(got.of<metric::Coverage>(), double(recommended.size()) / kUnits);
  EXPECT_EQ(got.of<metric::Recall>(), shuffled.result()[0].of<metric::Recall>());
  EXPECT_EQ(got.of<metric::Ndcg>(), shuffled.result()[0].of<metric::Ndcg>());
  EXPECT_EQ(got.of<metric::Map>(), shuffled.result()[0].of<metric::Map>());
}

}  // namespace
}  // namespace norn
