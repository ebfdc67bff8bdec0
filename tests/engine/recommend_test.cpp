// SPDX-License-Identifier: Apache-2.0
// The best of many units, against scores in float64 made from what the products read: on a GPU in
// bfloat16 these scores are compared inside the product and never written.
#include "src/engine/model/model_parts.h"
#include "src/engine/predict/predictor.h"
#include "tests/support/problem.h"
#include "tests/support/test_runtime.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

constexpr Index kUnits = 40'000;
constexpr Index kExamples = 70;
constexpr int kHidden = 1;
constexpr int kOutput = 2;

Problem make_problem(const LayerActivation& output, float bias, unsigned seed) {
  Problem problem;
  problem.planned_batch = kExamples;
  problem.network.layers = {input_layer("In", 50), hidden_layer("Hidden", 96, {"In"}),
                            output_layer("Out", kUnits, {"Hidden"}, output)};
  problem.network.layers[2].init.bias = bias;
  problem.set_data("In", DataKind{}, kExamples, seed);
  problem.set_data("Out", DataKind{.labels = true}, kExamples, seed + 1);
  return problem;
}

// Units that each example has seen, ascending.
struct Seen {
  std::vector<RowOffset> begin = {0};
  std::vector<Column> column;
  explicit Seen(std::mt19937& random) {
    for (Index r = 0; r < kExamples; ++r) {
      std::set<Column> columns;
      while (columns.size() < 300) columns.insert(Column(random() % std::uint32_t(kUnits)));
      column.insert(column.end(), columns.begin(), columns.end());
      begin.push_back(RowOffset(column.size()));
    }
  }
  CsrView view() const { return {begin.data(), column.data(), nullptr, kExamples, kUnits}; }
  bool has(Index r, Index unit) const {
    return std::binary_search(column.begin() + begin[std::size_t(r)],
                              column.begin() + begin[std::size_t(r) + 1], Column(unit));
  }
};

class RecommendTest : public testing::Test {
 protected:
  void build(const LayerActivation& output, float bias) {
    problem_ = make_problem(output, bias, seed_);
    engine_.emplace(problem_, Pass::prediction, 2, BlockRule{});
    network().initialise(seed_);
    softmax_ = std::holds_alternative<SoftMax>(output);
    bias_ = bias;
    rounds_ = network().context().compute.kernels.precision.casts_operands();
    weights_.assign(std::size_t(96 * kUnits), 0.0f);
    gather_rows(network(), 1, 0, [&](Index first, MatrixView<const float> rows) {
      std::copy_n(rows.data, rows.size(), weights_.data() + first * kUnits);
    });
    const MatrixView<const float> h = network().activations(problem_.bound(), kHidden);
    hidden_.assign(h.data, h.data + h.size());
  }
  norn::Network& network() { return engine_->network(); }
  // As products read them.
  double activation(float x) const { return double(rounds_ ? Bfloat16::rounded(x).value() : x); }
  double weight(float x) const { return double(rounds_ ? FloatHalves::of(x).high.value() : x); }

  // Scores of one example in float64.
  std::vector<double> scores(Index example) const {
    std::vector<double> y(static_cast<std::size_t>(kUnits), double(bias_));
    for (Index i = 0; i < 96; ++i) {
      const double x = activation(hidden_[std::size_t(example * 96 + i)]);
      for (Index u = 0; u < kUnits; ++u)
        y[std::size_t(u)] += x * weight(weights_[std::size_t(i * kUnits + u)]);
    }
    if (!softmax_) {
      for (double& v : y) v = 1.0 / (1.0 + std::exp(-v));
      return y;
    }
    const double most = *std::max_element(y.begin(), y.end());
    double total = 0.0;
    for (double& v : y) total += v = std::exp(v - most);
    for (double& v : y) v /= total;
    return y;
  }

  // The list has the best candidates, but for scores closer than their rounding.
  template <typename May>
  void expect_best(const TopK& best, Index r, Index k, Index units, const May& may) const {
    const std::vector<double> exact = scores(r);
    const double tolerance = 1e-4 * *std::max_element(exact.begin(), exact.end());
    ASSERT_EQ(best.count.data()[r], k) << "example " << r;
    std::set<Index> listed;
    double last = 0.0;
    for (Index i = 0; i < k; ++i) {
      const Index unit = best.unit.view()(r, i);
      const double score = double(best.score.view()(r, i));
      ASSERT_TRUE(unit < units && may(unit)) << unit;
      ASSERT_TRUE(listed.insert(unit).second) << unit << " twice";
      ASSERT_NEAR(score, exact[std::size_t(unit)], tolerance);
      if (i > 0) {
        ASSERT_LE(score, last);
        ASSERT_TRUE(score < last || best.unit.view()(r, i - 1) < unit);
      }
      last = score;
    }
    for (Index u = 0; u < units; ++u)
      ASSERT_TRUE(!may(u) || listed.count(u) > 0 || exact[std::size_t(u)] <= last + tolerance)
          << "unit " << u << " is missing";
  }

  // Where scores are compared inside the product, they are not written.
  void expect_way(const Predictor& predictor) {
    EXPECT_EQ(predictor.wrote_scores(), !network().context().compute.kernels.recommend || !rounds_);
  }

  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937 random_{seed_};
  Problem problem_;
  std::optional<Engine> engine_;
  bool softmax_ = false;
  bool rounds_ = false;
  float bias_ = 0.0f;
  std::vector<float> weights_;  // [source x units]
  std::vector<float> hidden_;
};

TEST_F(RecommendTest, FindsTheBestSigmoids) {
  build(Activation(Sigmoid{}), -2.0f);
  for (Index k : {1, 10, 100, 700}) {
    Predictor predictor(network(), kOutput, k);
    const TopK& best = predictor.predict(problem_.bound(), {});
    expect_way(predictor);
    for (Index r : {Index(0), Index(33), kExamples - 1})
      expect_best(best, r, k, kUnits, [](Index) { return true; });
    if (HasFatalFailure()) return;
  }
}

TEST_F(RecommendTest, FindsTheBestProbabilitiesOfSoftMax) {
  build(SoftMax{}, 0.0f);
  Predictor predictor(network(), kOutput, 50);
  const TopK& best = predictor.predict(problem_.bound(), {});
  expect_way(predictor);
  for (Index r : {Index(0), kExamples - 1})
    expect_best(best, r, 50, kUnits, [](Index) { return true; });
}

TEST_F(RecommendTest, LeavesOutWhatWasSeenAndWhatIsNotAllowed) {
  build(Activation(Sigmoid{}), -1.0f);
  const Seen seen(random_);
  std::vector<std::uint8_t> allowed(static_cast<std::size_t>(kUnits));
  for (std::uint8_t& a : allowed) a = random_() % 4 != 0;
  const Index units = 39'990;
  Predictor predictor(network(), kOutput, 20, units);
  ScoreFilter filter;
  filter.excluded = seen.view();
  filter.allowed = {allowed.data(), kUnits};
  for (int repetition = 0; repetition < 3; ++repetition) {
    const TopK& best = predictor.predict(problem_.bound(), filter);
    expect_way(predictor);
    for (Index r : {Index(0), Index(40), kExamples - 1})
      expect_best(best, r, 20, units, [&](Index unit) {
        return allowed[std::size_t(unit)] != 0 && !seen.has(r, unit);
      });
    if (HasFatalFailure()) return;
  }
}

TEST_F(RecommendTest, WritesScoresThatAreScaled) {
  build(Activation(Sigmoid{}), -1.0f);
  std::vector<RowOffset> begin;
  std::vector<Column> column;
  std::vector<float> value;
  for (Index r = 0; r <= kExamples; ++r) begin.push_back(r);
  for (Index r = 0; r < kExamples; ++r) {
    column.push_back(Column(r * 100));
    value.push_back(1000.0f);
  }
  ScoreFilter filter;
  filter.factors = {begin.data(), column.data(), value.data(), kExamples, kUnits};
  Predictor predictor(network(), kOutput, 3);
  const TopK& best = predictor.predict(problem_.bound(), filter);
  EXPECT_TRUE(predictor.wrote_scores());
  for (Index r = 0; r < kExamples; ++r) EXPECT_EQ(best.unit.view()(r, 0), r * 100);
}

TEST_F(RecommendTest, GivesEqualScoresToTheLowestUnits) {
  build(Activation(Sigmoid{}), 60.0f);  // every score is 1
  Predictor predictor(network(), kOutput, 25);
  for (int repetition = 0; repetition < 6; ++repetition) {
    const TopK& best = predictor.predict(problem_.bound(), {});
    EXPECT_TRUE(predictor.wrote_scores());
    for (Index r = 0; r < kExamples; ++r)
      for (Index i = 0; i < 25; ++i) {
        ASSERT_EQ(best.unit.view()(r, i), i);
        ASSERT_EQ(best.score.view()(r, i), 1.0f);
      }
  }
}

TEST_F(RecommendTest, GivesTheSameBitsEachTime) {
  build(Activation(Sigmoid{}), -2.0f);
  Predictor predictor(network(), kOutput, 100);
  std::vector<float> score;
  std::vector<Index> unit;
  for (int repetition = 0; repetition < 20; ++repetition) {
    const TopK& best = predictor.predict(problem_.bound(), {});
    const std::vector<float> scores(best.score.view().data,
                                    best.score.view().data + best.score.view().size());
    const std::vector<Index> units(best.unit.view().data,
                                   best.unit.view().data + best.unit.view().size());
    if (repetition > 0) {
      ASSERT_EQ(scores, score);
      ASSERT_EQ(units, unit);
    }
    score = scores;
    unit = units;
  }
}

}  // namespace
}  // namespace norn::test
