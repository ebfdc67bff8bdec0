// SPDX-License-Identifier: Apache-2.0
// The best K units against a sort of all scores: ties, filters, any K, any number of ranks.
#include "src/engine/predict/predictor.h"

#include "norn/base/error.h"
#include "tests/support/problem.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

constexpr Index kUnits = 53;
constexpr Index kExamples = 6;
constexpr int kOutput = 2;

// ReLU outputs: about half of the scores are 0, so there are many ties.
Problem make_problem(std::uint64_t seed) {
  Problem problem;
  problem.network.layers = {input_layer("In", 20), hidden_layer("Hidden", 9, {"In"}),
                            output_layer("Out", kUnits, {"Hidden"}, Activation(Relu{}))};
  problem.set_data("In", DataKind{}, kExamples, seed);
  problem.set_data("Out", DataKind{}, kExamples, seed + 1);
  return problem;
}

using Scores = std::vector<std::vector<float>>;

Scores all_scores(Network& network, const BoundBatch& batch) {
  Scores scores(kExamples, std::vector<float>(kUnits));
  const MatrixView<const float> y = network.outputs(batch, kOutput);
  for (Index r = 0; r < y.rows; ++r) scores[std::size_t(r)].assign(y.row(r), y.row(r) + y.cols);
  return scores;
}

// What is left out or changed, for each example.
struct Filters {
  std::vector<std::vector<Column>> excluded = std::vector<std::vector<Column>>(kExamples);
  std::vector<std::vector<Column>> scaled = std::vector<std::vector<Column>>(kExamples);
  std::vector<std::vector<float>> factor = std::vector<std::vector<float>>(kExamples);
  std::vector<std::uint8_t> allowed;
};

Filters random_filters(std::mt19937& random) {
  Filters filters;
  std::bernoulli_distribution some(0.2);
  std::bernoulli_distribution most(0.7);
  std::normal_distribution<float> factor(0.0f, 2.0f);
  for (std::size_t r = 0; r < kExamples; ++r)
    for (Column u = 0; u < kUnits; ++u) {
      if (some(random)) filters.excluded[r].push_back(u);
      if (!some(random)) continue;
      filters.scaled[r].push_back(u);
      filters.factor[r].push_back(factor(random));
    }
  for (Index u = 0; u < kUnits; ++u) filters.allowed.push_back(most(random));
  return filters;
}

struct CsrVectors {
  std::vector<RowOffset> begin = {0};
  std::vector<Column> column;
  std::vector<float> value;
  explicit CsrVectors(const std::vector<std::vector<Column>>& rows) {
    for (const auto& row : rows) {
      column.insert(column.end(), row.begin(), row.end());
      begin.push_back(RowOffset(column.size()));
    }
  }
  CsrView view() const {
    return {begin.data(), column.data(), value.empty() ? nullptr : value.data(), kExamples, kUnits};
  }
};

// The units of one example by a full sort, best first.
std::vector<Index> sorted_units(std::vector<float> scores, std::size_t example,
                                const Filters& filters, Index units) {
  for (std::size_t i = 0; i < filters.scaled[example].size(); ++i)
    scores[filters.scaled[example][i]] *= filters.factor[example][i];
  std::vector<Index> order;
  for (Index u = 0; u < units; ++u) {
    const auto& excluded = filters.excluded[example];
    if (std::count(excluded.begin(), excluded.end(), Column(u)) > 0) continue;
    if (filters.allowed.empty() || filters.allowed[std::size_t(u)]) order.push_back(u);
  }
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
    return scores[std::size_t(a)] > scores[std::size_t(b)];
  });
  return order;
}

void expect_best(const TopK& best, const Scores& scores, const Filters& filters, Index k,
                 Index units) {
  ASSERT_EQ(best.count.size(), kExamples);
  for (std::size_t r = 0; r < kExamples; ++r) {
    std::vector<Index> expected = sorted_units(scores[r], r, filters, units);
    expected.resize(std::min(expected.size(), std::size_t(k)));
    const Index* unit = best.unit.view().row(Index(r));
    const std::vector<Index> got(unit, unit + best.count.data()[r]);
    EXPECT_EQ(got, expected) << "example " << r << ", K " << k;
  }
}

class PredictorTest : public testing::Test {
 protected:
  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937 random_{seed_};
  Problem problem_ = make_problem(seed_);
};

TEST_F(PredictorTest, FindsTheBestForEveryK) {
  Engine engine(problem_, Pass::prediction, 2);
  engine.network().initialise(seed_);
  const BoundBatch batch = problem_.bound();
  const Scores scores = all_scores(engine.network(), batch);
  for (Index k : {Index(1), Index(2), Index(25), Index(26), kUnits - 1, kUnits, 3 * kUnits}) {
    Predictor predictor(engine.network(), kOutput, k);
    expect_best(predictor.predict(batch, {}), scores, Filters{}, k, kUnits);
  }
}

TEST_F(PredictorTest, LeavesOutScalesAndAllows) {
  Engine engine(problem_, Pass::prediction, 3);
  engine.network().initialise(seed_);
  const BoundBatch batch = problem_.bound();
  const Scores scores = all_scores(engine.network(), batch);
  const Filters filters = random_filters(random_);
  const CsrVectors excluded(filters.excluded);
  CsrVectors factors(filters.scaled);
  for (const auto& row : filters.factor)
    factors.value.insert(factors.value.end(), row.begin(), row.end());
  ScoreFilter filter;
  filter.excluded = excluded.view();
  filter.factors = factors.view();
  filter.allowed = {filters.allowed.data(), kUnits};
  for (Index k : {Index(3), kUnits}) {
    Predictor predictor(engine.network(), kOutput, k);
    expect_best(predictor.predict(batch, filter), scores, filters, k, kUnits);
  }
}

TEST_F(PredictorTest, ScalesNothingInABatchThatNoListNames) {
  Engine engine(problem_, Pass::prediction, 2);
  engine.network().initialise(seed_);
  const BoundBatch batch = problem_.bound();
  const Scores scores = all_scores(engine.network(), batch);
  Predictor predictor(engine.network(), kOutput, 7);
  const CsrVectors nobody(Filters{}.scaled);
  ScoreFilter filter;
  filter.factors = nobody.view();
  expect_best(predictor.predict(batch, filter), scores, Filters{}, 7, kUnits);
}

TEST_F(PredictorTest, NeverChoosesUnitsBeyondTheCatalogue) {
  Engine engine(problem_, Pass::prediction, 2);
  engine.network().initialise(seed_);
  const BoundBatch batch = problem_.bound();
  const Scores scores = all_scores(engine.network(), batch);
  for (Index units : {Index(1), Index(14), kUnits - 1}) {
    Predictor predictor(engine.network(), kOutput, 20, units);
    expect_best(predictor.predict(batch, {}), scores, Filters{}, std::min<Index>(20, units), units);
  }
}

TEST_F(PredictorTest, GivesTheSameOnAnyNumberOfRanks) {
  Engine engine(problem_, Pass::prediction, 1);
  engine.network().initialise(seed_);
  const BoundBatch batch = problem_.bound();
  const Scores scores = all_scores(engine.network(), batch);
  const Filters filters = random_filters(random_);
  const CsrVectors excluded(filters.excluded);
  Filters only_excluded;
  only_excluded.excluded = filters.excluded;
  for (int ranks : {2, 3, 4}) {
    run_thread_group(ranks, [&](Communicator& communicator) {
      const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
      Context context = runtime->context(communicator);
      context.compute.kernels.block_rule = kSmallBlocks;
      Network network(make_graph(problem_.network, problem_.shapes(), "test"), problem_.shapes(),
                      context, problem_.planned_batch, Pass::prediction);
      network.initialise(seed_);
      Predictor predictor(network, kOutput, 11);
      const TopK& best = predictor.predict(batch, {excluded.view(), {}, {}});
      expect_best(best, scores, only_excluded, 11, kUnits);
    });
  }
}

TEST_F(PredictorTest, RejectsFiltersOfAnotherShape) {
  Engine engine(problem_, Pass::prediction, 1);
  const BoundBatch batch = problem_.bound();
  EXPECT_THROW(Predictor(engine.network(), kOutput, 0), ShapeError);
  EXPECT_THROW(Predictor(engine.network(), kOutput, 1, kUnits + 1), ShapeError);
  Predictor predictor(engine.network(), kOutput, 3);
  const CsrVectors rows(Filters{}.excluded);
  ScoreFilter filter;
  filter.excluded = rows.view();
  filter.excluded.rows = kExamples - 1;
  EXPECT_THROW(predictor.predict(batch, filter), ShapeError);
  filter.excluded = {};
  filter.factors = rows.view();  // lists without entries need no values
  EXPECT_NO_THROW(predictor.predict(batch, filter));
  Filters listed;
  listed.scaled.back() = {Column(kUnits - 1)};
  const CsrVectors some(listed.scaled);
  filter.factors = some.view();  // an entry, and no value for it
  EXPECT_THROW(predictor.predict(batch, filter), ShapeError);
}

}  // namespace
}  // namespace norn::test
