// SPDX-License-Identifier: Apache-2.0
// SoftMax layers cut into blocks, against the float64 derivative of the whole row's cost.
#include "kernels/cost.h"
#include "norn/base/error.h"
#include "tests/kernels/cost_reference.h"
#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

#include <numeric>

namespace norn {
namespace {

using reference::Kind;
using reference::Targets;
using samples::PaddedMatrix;

constexpr Kind kKinds[] = {Kind::boolean, Kind::valued, Kind::dense};

/// One layer of B rows, evaluated block by block as the engine does it.
struct Pipeline {
  Pipeline(CostKernels& kernels_, const SoftMaxCost& rule_, const Targets& targets_,
           const std::vector<Index>& cuts_)
      : kernels(kernels_), rule(rule_), targets(targets_), cuts(cuts_) {}

  Index blocks() const { return Index(cuts.size()) - 1; }
  MatrixView<float> block(PaddedMatrix<float>& z, Index b) const {
    return z.view().columns(cuts[std::size_t(b)], cuts[std::size_t(b) + 1] - cuts[std::size_t(b)]);
  }
  SoftMaxRows rows() const {
    return {samples::view_of(maximum), samples::view_of(total), samples::view_of(coupling)};
  }

  void combine_statistics(PaddedMatrix<float>& z) {
    const Index batch = z.rows();
    PaddedMatrix<float> block_maximum(blocks(), batch);
    PaddedMatrix<float> block_sum(blocks(), batch);
    for (Index b = 0; b < blocks(); ++b)
      kernels.softmax_statistics(block(z, b), {block_maximum.view().row(b), batch},
                                 {block_sum.view().row(b), batch});
    maximum.assign(std::size_t(batch), 0.0f);
    total.assign(std::size_t(batch), 0);
    coupling.assign(std::size_t(batch), 0);
    kernels.softmax_maximum(block_maximum.view(), samples::view_of(maximum));
    kernels.softmax_total(block_maximum.view(), block_sum.view(),
                          samples::view_of(std::as_const(maximum)), samples::view_of(total),
                          &out_of_range);
  }

  /// z becomes delta; returns the cost.
  double evaluate(PaddedMatrix<float>& z) {
    combine_statistics(z);
    const TargetView view = targets.view();
    if (CostKernels::coupling_from_targets(rule))
      kernels.softmax_coupling(rule, view, samples::view_of(coupling), &out_of_range);
    else
      for (Index b = 0; b < blocks(); ++b)
        kernels.softmax_coupling(rule, view, cuts[std::size_t(b)], block(z, b), rows(),
                                 samples::view_of(coupling), &out_of_range);
    double cost = 0;
    for (Index b = 0; b < blocks(); ++b) {
      double part = 0;
      kernels.softmax_delta(rule, view, cuts[std::size_t(b)], rows(), block(z, b), &part);
      cost += part;
    }
    return cost;
  }

  CostKernels& kernels;
  const SoftMaxCost& rule;
  const Targets& targets;
  std::vector<Index> cuts;
  std::vector<float> maximum;
  std::vector<std::int64_t> total;
  std::vector<std::int64_t> coupling;
  std::int64_t out_of_range = 0;
};

/// The same without weights of entries.
double unweighted_tau_of(const SoftMaxCost& rule, const Targets& targets, Index r, Index unit,
                         double y) {
  const std::optional<double> raw = targets.stored(r, unit);
  if (!raw) return 0;
  const bool has_weight = !targets.weight.empty();
  const double weight = targets.example_weight(r);
  const double entry = has_weight ? weight
                       : rule.target_weight == TargetWeight::one
                           ? 1.0
                           : 1.0 / double(targets.stored_count(r));
  if (std::holds_alternative<CrossEntropy>(rule.loss))
    return targets.kind == Kind::boolean ? entry : weight * *raw;
  if (const auto* smce = std::get_if<ScaledMarginalCrossEntropy>(&rule.loss)) {
    if (smce->one_target < 1 && y >= double(smce->one_target)) return 0;
    if (targets.kind == Kind::dense) return *raw == 1 ? double(smce->one_scale) * weight : 0.0;
    return double(smce->one_scale) * entry;
  }
  const auto& dsmce = std::get<DataScaledMarginalCrossEntropy>(rule.loss);
  if (dsmce.one_target < 1 && y >= double(dsmce.one_target)) return 0;
  return double(dsmce.one_scale) * weight * *raw;
}

/// What a stored or dense target of a cross entropy counts for under SoftMax, as documented.
double tau_of(const SoftMaxCost& rule, const Targets& targets, Index r, Index unit, double y) {
  return targets.unit_weight(r, unit) * unweighted_tau_of(rule, targets, r, unit, y);
}

bool is_cross_entropy(const Loss& loss) {
  return std::holds_alternative<CrossEntropy>(loss) ||
         std::holds_alternative<ScaledMarginalCrossEntropy>(loss) ||
         std::holds_alternative<DataScaledMarginalCrossEntropy>(loss);
}

std::vector<double> softmax(const std::vector<double>& z) {
  const double top = *std::max_element(z.begin(), z.end());
  std::vector<double> y;
  double total = 0;
  for (double x : z) total += std::exp(x - top);
  for (double x : z) y.push_back(std::exp(x - top) / total);
  return y;
}

/// The whole row's cost in float64.
double row_cost(const SoftMaxCost& rule, const Targets& targets, Index r,
                const std::vector<double>& z) {
  const std::vector<double> y = softmax(z);
  double sum = 0;
  for (Index j = 0; j < Index(z.size()); ++j) {
    const double y_j = y[std::size_t(j)];
    if (is_cross_entropy(rule.loss)) {
      sum -= tau_of(rule, targets, r, j, y_j) * std::log(y_j);
      continue;
    }
    std::visit(
        [&](const auto& loss) {
          if (const std::optional<double> t = targets.seen_by(loss, r, j))
            sum += targets.example_weight(r) * targets.unit_weight(r, j) *
                   reference::cost(loss, y_j, *t);
        },
        rule.loss);
  }
  return sum;
}

class SoftMaxCostTest : public samples::RandomTest {
 protected:
  auto draw() {
    return [this](float low, float high) { return uniform(low, high); };
  }
  std::vector<Index> random_cuts(Index width) {
    std::vector<Index> cuts{0};
    while (cuts.back() < width)
      cuts.push_back(std::min(width, cuts.back() + 1 + below(std::max<Index>(1, width / 2))));
    return cuts;
  }
  PaddedMatrix<float> random_z(Index rows, Index cols, float low, float high) {
    PaddedMatrix<float> z(rows, cols);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) z(r, c) = uniform(low, high);
    return z;
  }

  /// The kernels' pipeline against central differences of row_cost, boosted where that is asked
  /// for.
  void compare(const SoftMaxCost& rule, const Targets& targets) {
    const Index width = targets.width;
    PaddedMatrix<float> z = random_z(targets.rows, width, -2, 2);
    std::vector<std::vector<double>> rows;
    double cost = 0;
    for (Index r = 0; r < targets.rows; ++r) {
      std::vector<double> row;
      for (Index c = 0; c < width; ++c) row.push_back(double(z(r, c)));
      cost += row_cost(rule, targets, r, row);
      rows.push_back(row);
    }
    const double actual = Pipeline(*kernels_, rule, targets, random_cuts(width)).evaluate(z);
    EXPECT_LT(samples::relative_error(actual, cost, 1.0), 2e-6);
    constexpr double h = 1e-5;
    int kinks = 0;
    for (Index r = 0; r < targets.rows; ++r)
      for (Index c = 0; c < width; ++c) {
        std::vector<double>& row = rows[std::size_t(r)];
        const double middle = row_cost(rule, targets, r, row);
        const double kept = row[std::size_t(c)];
        row[std::size_t(c)] = kept + h;
        const double rising = (row_cost(rule, targets, r, row) - middle) / h;
        row[std::size_t(c)] = kept - h;
        const double falling = (middle - row_cost(rule, targets, r, row)) / h;
        row[std::size_t(c)] = kept;
        if (std::abs(rising - falling) > 1e-3) {
          ++kinks;
          continue;
        }
        const bool is_stored = targets.stored(r, c).has_value();
        const bool has_delta = !targets.ignore_absent || is_stored;
        const double boost = targets.kind == Kind::dense ? 1.0
                             : is_stored                 ? double(rule.boost_one)
                                                         : double(rule.boost_zero);
        EXPECT_NEAR(double(z(r, c)), has_delta ? boost * (rising + falling) / 2 : 0.0,
                    5e-6 * std::max(1.0, boost) * (targets.entry_weight.empty() ? 1.0 : 3.0))
            << "row " << r << ", unit " << c;
      }
    EXPECT_LE(kinks, targets.rows * width / 10);
    EXPECT_TRUE(z.padding_is_intact());
  }

  Executor executor_{1};
  std::unique_ptr<CostKernels> kernels_ = samples::make_cost(executor_);
};

TEST_F(SoftMaxCostTest, EveryLossAndTargetAgreesWithTheDerivativeOfTheCost) {
  std::vector<Loss> losses = reference::losses();
  // Probabilities of 30 units are near 1/30: margins that some of them are beyond.
  losses.push_back(ScaledMarginalCrossEntropy{.one_target = 0.04f, .one_scale = 1.5f});
  losses.push_back(DataScaledMarginalCrossEntropy{.one_target = 0.04f, .one_scale = 0.5f});
  for (const Loss& loss : losses)
    for (Kind kind : kKinds)
      for (TargetWeight target_weight : {TargetWeight::inverse_count, TargetWeight::one})
        for (bool is_weighted : {false, true})
          for (bool ignores_absent : {false, true}) {
            if (ignores_absent && kind == Kind::dense) continue;
            SCOPED_TRACE(std::string(name_of(loss)) + " " + reference::word(kind) +
                         (is_weighted ? " weighted" : "") +
                         (ignores_absent ? " ignoring absent" : "") +
                         (target_weight == TargetWeight::one ? " one" : " inverse count"));
            Targets targets = reference::random_targets(kind, 4, 30, draw());
            targets.ignore_absent = ignores_absent;
            if (is_weighted)
              for (Index r = 0; r < targets.rows; ++r)
                targets.weight.push_back(uniform(0.5f, 2.0f));
            compare({loss, target_weight}, targets);
            compare({loss, target_weight, 30.0f, 0.25f}, targets);
          }
}

TEST_F(SoftMaxCostTest, WeightsOfEntriesMultiplyWhatIsStored) {
  std::vector<Loss> losses = reference::losses();
  losses.push_back(ScaledMarginalCrossEntropy{.one_target = 0.04f, .one_scale = 1.5f});
  for (const Loss& loss : losses)
    for (Kind kind : {Kind::boolean, Kind::valued})
      for (TargetWeight target_weight : {TargetWeight::inverse_count, TargetWeight::one})
        for (bool is_weighted : {false, true})
          for (bool ignores_absent : {false, true}) {
            SCOPED_TRACE(std::string(name_of(loss)) + " " + reference::word(kind) +
                         (is_weighted ? " weighted" : "") +
                         (ignores_absent ? " ignoring absent" : "") +
                         (target_weight == TargetWeight::one ? " one" : " inverse count"));
            Targets targets = reference::random_targets(kind, 4, 25 + below(10), draw());
            targets.ignore_absent = ignores_absent;
            reference::weigh_entries(targets, draw());
            if (is_weighted)
              for (Index r = 0; r < targets.rows; ++r)
                targets.weight.push_back(uniform(0.5f, 2.0f));
            compare({loss, target_weight, 2.0f, 0.25f}, targets);
          }
}

TEST_F(SoftMaxCostTest, WeightsOfOneChangeNoBit) {
  for (const Loss& loss : reference::losses())
    for (Kind kind : {Kind::boolean, Kind::valued}) {
      SCOPED_TRACE(std::string(name_of(loss)) + " " + reference::word(kind));
      Targets targets = reference::random_targets(kind, 5, 1 + below(700), draw());
      const std::vector<Index> cuts = random_cuts(targets.width);
      const SoftMaxCost rule{loss, TargetWeight::inverse_count};
      PaddedMatrix<float> without = random_z(5, targets.width, -9, 9);
      PaddedMatrix<float> with = without;
      const double cost = Pipeline(*kernels_, rule, targets, cuts).evaluate(without);
      targets.entry_weight.assign(targets.sparse.column.size(), 1.0f);
      EXPECT_EQ(Pipeline(*kernels_, rule, targets, cuts).evaluate(with), cost);
      EXPECT_TRUE(with.same_bits(without));
    }
}

TEST_F(SoftMaxCostTest, ClosedFormOfCrossEntropyHoldsAtEdgeWidths) {
  for (Index width : samples::edge_widths()) {
    SCOPED_TRACE(width);
    const Targets targets = reference::random_targets(Kind::boolean, 4, width, draw());
    const SoftMaxCost rule{CrossEntropy{}, TargetWeight::inverse_count};
    PaddedMatrix<float> z = random_z(4, width, -30, 30);
    std::vector<double> expected;
    double cost = 0;
    for (Index r = 0; r < 4; ++r) {
      std::vector<double> row;
      for (Index c = 0; c < width; ++c) row.push_back(double(z(r, c)));
      const std::vector<double> y = softmax(row);
      const double sum = targets.stored_count(r) == 0 ? 0.0 : 1.0;
      for (Index c = 0; c < width; ++c) {
        const double y_c = y[std::size_t(c)];
        const double tau = tau_of(rule, targets, r, c, y_c);
        expected.push_back(y_c * sum - tau);
        if (tau > 0) cost -= tau * std::log(y_c);
      }
    }
    const double actual = Pipeline(*kernels_, rule, targets, random_cuts(width)).evaluate(z);
    EXPECT_LT(samples::relative_error(actual, cost, 1.0), 1e-6);
    for (Index r = 0; r < 4; ++r)
      for (Index c = 0; c < width; ++c)
        ASSERT_NEAR(double(z(r, c)), expected[std::size_t(r * width + c)], 5e-7);
  }
}

TEST_F(SoftMaxCostTest, Bf16DeltasAreTheDeltasRounded) {
  constexpr Index kWidth = 5001;
  for (Kind kind : kKinds)
    for (const Loss& loss : {Loss(CrossEntropy{}), Loss(SquaredError{})}) {
      const Targets targets = reference::random_targets(kind, 4, kWidth, draw());
      const SoftMaxCost rule{loss, TargetWeight::one};
      PaddedMatrix<float> z = random_z(4, kWidth, -3, 3);
      PaddedMatrix<float> alone = z;
      Pipeline pipeline(*kernels_, rule, targets, {0, kWidth});
      const double cost = pipeline.evaluate(alone);
      double cost_again = 0;
      std::vector<Bfloat16> bf16(std::size_t(4 * kWidth));
      kernels_->softmax_delta(rule, targets.view(), 0, pipeline.rows(), z.view(), &cost_again,
                              {bf16.data(), 4, kWidth, kWidth});
      EXPECT_EQ(cost_again, cost);
      EXPECT_TRUE(z.same_bits(alone));
      for (Index r = 0; r < 4; ++r)
        for (Index c = 0; c < kWidth; ++c)
          ASSERT_EQ(bf16[std::size_t(r * kWidth + c)].bits, Bfloat16::rounded(z(r, c)).bits);
    }
}

TEST_F(SoftMaxCostTest, ValuesSumToOneWhateverTheCuts) {
  constexpr Index kWidth = 1000;
  const Targets targets = reference::random_targets(Kind::boolean, 3, kWidth, draw());
  const SoftMaxCost rule{CrossEntropy{}, TargetWeight::one};
  PaddedMatrix<float> z = random_z(3, kWidth, -50, 50);
  Pipeline pipeline(*kernels_, rule, targets, random_cuts(kWidth));
  pipeline.combine_statistics(z);
  for (Index b = 0; b < pipeline.blocks(); ++b)
    kernels_->softmax_values(pipeline.rows(), pipeline.block(z, b));
  for (Index r = 0; r < 3; ++r) {
    double sum = 0;
    for (Index c = 0; c < kWidth; ++c) sum += double(z(r, c));
    EXPECT_NEAR(sum, 1.0, 1e-6);
  }
}

TEST_F(SoftMaxCostTest, TotalsDoNotDependOnTheOrderOfTheBlocks) {
  constexpr Index kBatch = 9;
  PaddedMatrix<float> tops = random_z(20, kBatch, -5, 5);
  PaddedMatrix<float> sums = random_z(20, kBatch, 1, 300);
  std::vector<float> maximum(kBatch);
  kernels_->softmax_maximum(tops.view(), samples::view_of(maximum));
  std::vector<std::int64_t> forward(kBatch, 0);
  std::vector<std::int64_t> backward(kBatch, 0);
  const VectorView<const float> top = samples::view_of(maximum);
  std::int64_t out_of_range = 0;
  kernels_->softmax_total(tops.view(), sums.view(), top, samples::view_of(forward), &out_of_range);
  for (Index b = 19; b >= 0; --b)
    kernels_->softmax_total(tops.view().row_range(b, 1), sums.view().row_range(b, 1), top,
                            samples::view_of(backward), &out_of_range);
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(out_of_range, 0);
}

TEST_F(SoftMaxCostTest, LanesDoNotChangeTheBits) {
  constexpr Index kRows = 50;
  constexpr Index kWidth = 2000;
  const Targets targets = reference::random_targets(Kind::boolean, kRows, kWidth, draw());
  const std::vector<Index> cuts = random_cuts(kWidth);
  const PaddedMatrix<float> z = random_z(kRows, kWidth, -9, 9);
  for (const Loss& loss : {Loss(CrossEntropy{}), Loss(SquaredError{})}) {
    const SoftMaxCost rule{loss, TargetWeight::inverse_count};
    PaddedMatrix<float> expected = z;
    const double expected_cost = Pipeline(*kernels_, rule, targets, cuts).evaluate(expected);
    for (int lanes : {1, 2, 7}) {
      Executor executor(lanes);
      const std::unique_ptr<CostKernels> kernels = samples::make_cost(executor);
      PaddedMatrix<float> actual = z;
      EXPECT_EQ(Pipeline(*kernels, rule, targets, cuts).evaluate(actual), expected_cost) << lanes;
      EXPECT_TRUE(actual.same_bits(expected)) << lanes;
    }
  }
}

TEST_F(SoftMaxCostTest, SumsBeyondTheFixedPointRangeAreReported) {
  PaddedMatrix<float> top = random_z(1, 3, 0, 0);
  PaddedMatrix<float> sum = random_z(1, 3, 1, 2);
  std::vector<float> maximum(3, 0.0f);
  std::vector<std::int64_t> total(3, 0);
  for (const bool beyond : {false, true}) {
    if (beyond) sum(0, 1) = 0x1.1p26f;
    std::int64_t out_of_range = 0;
    kernels_->softmax_total(top.view(), sum.view(), samples::view_of(std::as_const(maximum)),
                            samples::view_of(total), &out_of_range);
    EXPECT_EQ(out_of_range, beyond ? 1 : 0);
  }
}

TEST_F(SoftMaxCostTest, NanReachesEveryDeltaOfItsRowAndNoOther) {
  constexpr Index kWidth = 100;
  for (const Loss& loss : {Loss(CrossEntropy{}), Loss(SquaredError{})}) {
    const Targets targets = reference::random_targets(Kind::boolean, 4, kWidth, draw());
    PaddedMatrix<float> z = random_z(4, kWidth, -3, 3);
    z(2, below(kWidth)) = std::numeric_limits<float>::quiet_NaN();
    const SoftMaxCost rule{loss, TargetWeight::one};
    EXPECT_TRUE(std::isnan(Pipeline(*kernels_, rule, targets, random_cuts(kWidth)).evaluate(z)));
    for (Index c = 0; c < kWidth; ++c) {
      EXPECT_TRUE(std::isnan(z(2, c)));
      EXPECT_FALSE(std::isnan(z(1, c)));
    }
  }
}

TEST_F(SoftMaxCostTest, OnlyUngatedCrossEntropiesCoupleThroughTargetsAlone) {
  const auto follows = [](const Loss& loss) {
    return CostKernels::coupling_from_targets({loss, TargetWeight::one});
  };
  EXPECT_TRUE(follows(CrossEntropy{}));
  EXPECT_TRUE(follows(ScaledMarginalCrossEntropy{.one_target = 1.0f}));
  EXPECT_FALSE(follows(ScaledMarginalCrossEntropy{.one_target = 0.9f}));
  EXPECT_FALSE(follows(SquaredError{}));
  const Targets targets = reference::random_targets(Kind::boolean, 4, 10, draw());
  std::vector<std::int64_t> coupling(4);
  std::int64_t out_of_range = 0;
  EXPECT_THROW(kernels_->softmax_coupling({SquaredError{}}, targets.view(),
                                          samples::view_of(coupling), &out_of_range),
               ShapeError);
}

}  // namespace
}  // namespace norn
