// SPDX-License-Identifier: Apache-2.0
// Costs and deltas of independent units: every activation x loss x kind of target against float64.
#include "kernels/cost.h"

#include "norn/base/error.h"
#include "tests/kernels/cost_reference.h"
#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

namespace norn {
namespace {

using reference::Kind;
using reference::Targets;
using samples::PaddedMatrix;

constexpr Kind kKinds[] = {Kind::boolean, Kind::valued, Kind::dense};

class Cost : public samples::RandomTest {
 protected:
  auto draw() {
    return [this](float low, float high) { return uniform(low, high); };
  }

  /// Cost and slope by central difference; nothing where the cost has a kink or bends sharply.
  template <typename F, typename L>
  static std::optional<ElementCost<double>> smooth_cost(const F& f, const L& loss, double z,
                                                        double t) {
    const auto at = [&](double x) { return reference::cost(loss, reference::value(f, x), t); };
    constexpr double near = 1e-3;
    const double rising = (at(z + near) - at(z)) / near;
    const double falling = (at(z) - at(z - near)) / near;
    if (std::abs(rising - falling) > 0.01 * (1 + std::abs(rising))) return std::nullopt;
    constexpr double h = 1e-5;
    return ElementCost<double>{at(z), (at(z + h) - at(z - h)) / (2 * h)};
  }

  /// Runs the kernel on units [first, first + cols) and compares with float64.
  void compare(const UnitCost& rule, const Targets& targets, Index first, Index cols) {
    PaddedMatrix<float> z(targets.rows, cols);
    std::vector<double> delta(std::size_t(targets.rows * cols), 0.0);
    double cost = 0;
    double magnitude = 0;  // valued cross entropies have terms of both signs
    std::visit(
        [&](const auto& f, const auto& loss) {
          const bool boosts = targets.kind != Kind::dense;
          for (Index r = 0; r < targets.rows; ++r)
            for (Index c = 0; c < cols; ++c) {
              const std::optional<double> t = targets.seen_by(loss, r, first + c);
              std::optional<ElementCost<double>> e;
              for (int attempt = 0; !e && attempt < 200; ++attempt) {
                z(r, c) = uniform(-3, 3);
                e = smooth_cost(f, loss, double(z(r, c)), t.value_or(0.0));
              }
              ASSERT_TRUE(e) << "no smooth point found";
              if (!t) continue;
              const bool is_stored = targets.stored(r, first + c).has_value();
              const double boost =
                  boosts ? double(is_stored ? rule.boost_one : rule.boost_zero) : 1.0;
              const double weight = targets.example_weight(r) * targets.unit_weight(r, first + c);
              cost += weight * e->cost;
              magnitude += weight * std::abs(e->cost);
              delta[std::size_t(r * cols + c)] = weight * boost * e->delta;
            }
        },
        rule.activation, rule.loss);
    if (::testing::Test::HasFatalFailure()) return;
    double actual = -1;
    kernels_->delta(rule, targets.view(), first, z.view(), &actual);
    EXPECT_NEAR(actual, cost, 2e-6 * std::max(1.0, magnitude));
    double worst = 0;
    for (Index r = 0; r < targets.rows; ++r)
      for (Index c = 0; c < cols; ++c)
        worst = std::max(
            worst, samples::relative_error(double(z(r, c)), delta[std::size_t(r * cols + c)], 1.0));
    EXPECT_LT(worst, 5e-5);
    EXPECT_TRUE(z.padding_is_intact());
  }

  UnitCost rule_of(const Activation& activation, const Loss& loss) {
    return {.activation = activation, .loss = loss, .boost_one = 3.0f, .boost_zero = 0.5f};
  }

  Executor executor_{1};
  std::unique_ptr<CostKernels> kernels_ = samples::make_cost(executor_);
};

TEST_F(Cost, EveryActivationLossAndTargetAgreesWithFloat64) {
  for (const std::string& name : names_of<Activation>())
    for (const Loss& loss : reference::losses())
      for (Kind kind : kKinds)
        for (bool is_weighted : {false, true})
          for (bool ignores_absent : {false, true}) {
            if (ignores_absent && kind == Kind::dense) continue;
            SCOPED_TRACE(name + " " + std::string(name_of(loss)) + " " + reference::word(kind) +
                         (is_weighted ? " weighted" : "") +
                         (ignores_absent ? " ignoring absent" : ""));
            Targets targets = reference::random_targets(kind, 5, 90, draw());
            targets.ignore_absent = ignores_absent;
            if (is_weighted)
              for (Index r = 0; r < targets.rows; ++r)
                targets.weight.push_back(uniform(0.5f, 2.0f));
            compare(rule_of(*find_named<Activation>(name), loss), targets, 33, 57);
            if (::testing::Test::HasFatalFailure()) return;
          }
}

TEST_F(Cost, WeightsOfEntriesMultiplyWhatIsStored) {
  for (const Loss& loss : reference::losses())
    for (Kind kind : {Kind::boolean, Kind::valued})
      for (bool is_weighted : {false, true})
        for (bool ignores_absent : {false, true}) {
          SCOPED_TRACE(std::string(name_of(loss)) + " " + reference::word(kind) +
                       (is_weighted ? " weighted" : "") +
                       (ignores_absent ? " ignoring absent" : ""));
          const Index width = 1 + below(300);
          const Index first = below(width);
          Targets targets = reference::random_targets(kind, 1 + below(8), width, draw());
          targets.ignore_absent = ignores_absent;
          reference::weigh_entries(targets, draw());
          if (is_weighted)
            for (Index r = 0; r < targets.rows; ++r) targets.weight.push_back(uniform(0.5f, 2.0f));
          compare(rule_of(Sigmoid{}, loss), targets, first, width - first);
          compare(rule_of(Linear{}, loss), targets, first, width - first);
          if (::testing::Test::HasFatalFailure()) return;
        }
}

TEST_F(Cost, WeightsOfOneChangeNoBitAndOneWeightIsTheBoostOfStoredTargets) {
  for (const Loss& loss : reference::losses())
    for (Kind kind : {Kind::boolean, Kind::valued}) {
      SCOPED_TRACE(std::string(name_of(loss)) + " " + reference::word(kind));
      const Index width = 1 + below(2000);
      Targets targets = reference::random_targets(kind, 6, width, draw());
      PaddedMatrix<float> z(6, width);
      for (Index r = 0; r < 6; ++r)
        for (Index c = 0; c < width; ++c) z(r, c) = uniform(-6, 6);
      PaddedMatrix<float> ones = z, all = z, boosted = z;
      double cost = 0, cost_of_ones = 0, other = 0;
      UnitCost rule{Sigmoid{}, loss};
      kernels_->delta(rule, targets.view(), 0, z.view(), &cost);
      targets.entry_weight.assign(targets.sparse.column.size(), 1.0f);
      kernels_->delta(rule, targets.view(), 0, ones.view(), &cost_of_ones);
      EXPECT_TRUE(ones.same_bits(z));
      EXPECT_EQ(cost_of_ones, cost);
      targets.entry_weight.assign(targets.sparse.column.size(), 3.0f);
      kernels_->delta(rule, targets.view(), 0, all.view(), &other);
      targets.entry_weight.clear();
      rule.boost_one = 3.0f;
      kernels_->delta(rule, targets.view(), 0, boosted.view(), &other);
      EXPECT_TRUE(all.same_bits(boosted));
    }
}

TEST_F(Cost, EdgeWidthsAgreeWithFloat64) {
  for (Index width : samples::edge_widths())
    for (Kind kind : kKinds) {
      SCOPED_TRACE(std::to_string(width) + " " + reference::word(kind));
      const Targets targets = reference::random_targets(kind, 4, width, draw());
      compare(rule_of(Sigmoid{}, ScaledMarginalCrossEntropy{}), targets, 0, width);
      compare(rule_of(Tanh{}, SquaredError{}), targets, 0, width);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST_F(Cost, EmptyBlocksAndBatchesCostNothing) {
  const Targets none = reference::random_targets(Kind::boolean, 0, 7, draw());
  double cost = -1;
  kernels_->delta({Sigmoid{}, CrossEntropy{}}, none.view(), 0, {nullptr, 0, 7, 7}, &cost);
  EXPECT_EQ(cost, 0.0);
  const Targets some = reference::random_targets(Kind::boolean, 3, 7, draw());
  kernels_->delta({Sigmoid{}, CrossEntropy{}}, some.view(), 7, {nullptr, 3, 0, 0}, &cost);
  EXPECT_EQ(cost, 0.0);
}

TEST_F(Cost, BlocksCutAnywhereGiveTheSameDeltas) {
  constexpr Index kRows = 6;
  constexpr Index kWidth = 700;
  for (Kind kind : kKinds) {
    const Targets targets = reference::random_targets(kind, kRows, kWidth, draw());
    const UnitCost rule = rule_of(Sigmoid{}, ScaledMarginalCrossEntropy{});
    PaddedMatrix<float> whole(kRows, kWidth);
    for (Index r = 0; r < kRows; ++r)
      for (Index c = 0; c < kWidth; ++c) whole(r, c) = uniform(-6, 6);
    PaddedMatrix<float> parts = whole;
    double whole_cost = 0;
    kernels_->delta(rule, targets.view(), 0, whole.view(), &whole_cost);
    double parts_cost = 0;
    for (Index first = 0; first < kWidth;) {
      const Index count = std::min(kWidth - first, 1 + below(300));
      double cost = 0;
      kernels_->delta(rule, targets.view(), first, parts.view().columns(first, count), &cost);
      parts_cost += cost;
      first += count;
    }
    EXPECT_TRUE(parts.same_bits(whole)) << reference::word(kind);
    EXPECT_NEAR(parts_cost, whole_cost, 1e-12 * std::abs(whole_cost));
  }
}

TEST_F(Cost, Bf16DeltasAreTheDeltasRounded) {
  for (Index width : {Index(1), Index(30), Index(257), Index(5000), Index(8192)})
    for (Kind kind : kKinds)
      for (Index padding : {Index(0), Index(5)}) {
        SCOPED_TRACE(std::to_string(width) + " " + reference::word(kind));
        const Targets targets = reference::random_targets(kind, 4, width, draw());
        PaddedMatrix<float> z(4, width, padding);
        for (Index r = 0; r < 4; ++r)
          for (Index c = 0; c < width; ++c) z(r, c) = uniform(-6, 6);
        PaddedMatrix<float> alone = z;
        const Index stride = width + padding;
        std::vector<Bfloat16> bf16(std::size_t(4 * stride), Bfloat16::rounded(7.0f));
        double cost = 0;
        double cost_alone = 0;
        const UnitCost rule = rule_of(Sigmoid{}, CrossEntropy{});
        kernels_->delta(rule, targets.view(), 0, alone.view(), &cost_alone);
        kernels_->delta(rule, targets.view(), 0, z.view(), &cost, {bf16.data(), 4, width, stride});
        EXPECT_EQ(cost, cost_alone);
        EXPECT_TRUE(z.same_bits(alone));
        for (Index r = 0; r < 4; ++r)
          for (Index c = 0; c < stride; ++c) {
            const float expected = c < width ? z(r, c) : 7.0f;
            ASSERT_EQ(bf16[std::size_t(r * stride + c)].bits, Bfloat16::rounded(expected).bits)
                << "row " << r << ", unit " << c;
          }
      }
}

TEST_F(Cost, WideBlocksAgreeWithFloat64) {
  for (Kind kind : kKinds)
    for (Index width : {Index(4096), Index(4097), Index(12293)}) {
      SCOPED_TRACE(std::to_string(width) + " " + reference::word(kind));
      const Targets targets = reference::random_targets(kind, 4, width + 8, draw());
      compare(rule_of(Sigmoid{}, ScaledMarginalCrossEntropy{}), targets, 7, width);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST_F(Cost, LanesDoNotChangeTheBits) {
  constexpr Index kRows = 64;
  constexpr Index kWidth = 1500;
  const Targets targets = reference::random_targets(Kind::valued, kRows, kWidth, draw());
  PaddedMatrix<float> z(kRows, kWidth);
  for (Index r = 0; r < kRows; ++r)
    for (Index c = 0; c < kWidth; ++c) z(r, c) = uniform(-6, 6);
  const UnitCost rule = rule_of(Sigmoid{}, DataScaledMarginalCrossEntropy{});
  PaddedMatrix<float> expected = z;
  double expected_cost = 0;
  kernels_->delta(rule, targets.view(), 0, expected.view(), &expected_cost);
  for (int lanes : {1, 2, 7})
    for (bool is_inside : {false, true}) {
      Executor executor(lanes);
      const std::unique_ptr<CostKernels> kernels = samples::make_cost(executor);
      PaddedMatrix<float> actual = z;
      double cost = 0;
      if (is_inside)
        executor.for_each(
            1, [&](Index, int) { kernels->delta(rule, targets.view(), 0, actual.view(), &cost); });
      else
        kernels->delta(rule, targets.view(), 0, actual.view(), &cost);
      EXPECT_TRUE(actual.same_bits(expected)) << lanes;
      EXPECT_EQ(cost, expected_cost) << lanes;
    }
}

TEST_F(Cost, NanAnywhereReachesCostAndDelta) {
  for (const Loss& loss : reference::losses()) {
    SCOPED_TRACE(std::string(name_of(loss)));
    const Targets targets = reference::random_targets(Kind::boolean, 3, 40, draw());
    PaddedMatrix<float> z(3, 40);
    for (Index r = 0; r < 3; ++r)
      for (Index c = 0; c < 40; ++c) z(r, c) = uniform(-1, 1);
    z(below(3), below(40)) = std::numeric_limits<float>::quiet_NaN();
    double cost = 0;
    kernels_->delta({Sigmoid{}, loss}, targets.view(), 0, z.view(), &cost);
    EXPECT_TRUE(std::isnan(cost));
  }
}

TEST_F(Cost, ShapesThatDoNotFitAreRefused) {
  const Targets targets = reference::random_targets(Kind::boolean, 3, 40, draw());
  PaddedMatrix<float> z(4, 40);
  double cost = 0;
  EXPECT_THROW(kernels_->delta({Sigmoid{}, CrossEntropy{}}, targets.view(), 0, z.view(), &cost),
               ShapeError);
  PaddedMatrix<float> wide(3, 40);
  EXPECT_THROW(kernels_->delta({Sigmoid{}, CrossEntropy{}}, targets.view(), 1, wide.view(), &cost),
               ShapeError);
  std::vector<float> weight(2, 1.0f);
  TargetView view = targets.view();
  view.weight = samples::view_of(weight);
  EXPECT_THROW(kernels_->delta({Sigmoid{}, CrossEntropy{}}, view, 0, wide.view(), &cost),
               ShapeError);
  view = reference::random_targets(Kind::dense, 3, 40, draw()).view();
  view.entry_weight = weight.data();
  EXPECT_THROW(kernels_->delta({Sigmoid{}, CrossEntropy{}}, view, 0, wide.view(), &cost),
               ShapeError);
}

}  // namespace
}  // namespace norn
