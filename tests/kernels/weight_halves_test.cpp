// SPDX-License-Identifier: Apache-2.0
// Weights in two halves: updates and norms have the bits of those of floats.
#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"
#include "tests/kernels/rule_state.h"

#include <bit>

namespace norn {
namespace {

using samples::PaddedMatrix;
using samples::RuleState;

/// The halves of a matrix, each with padding of its own.
struct Halves {
  Halves(Index rows, Index cols, std::pair<Index, Index> padding)
      : high(rows, cols, padding.first), low(rows, cols, padding.second) {}
  Halves(PaddedMatrix<float>& floats, std::pair<Index, Index> padding)
      : Halves(floats.rows(), floats.cols(), padding) {
    for (Index r = 0; r < floats.rows(); ++r)
      for (Index c = 0; c < floats.cols(); ++c) {
        const FloatHalves halves = FloatHalves::of(floats(r, c));
        high(r, c) = halves.high;
        low(r, c) = halves.low;
      }
  }
  WeightView view() { return {high.view(), low.view()}; }
  float joined(Index r, Index c) { return FloatHalves{high(r, c), low(r, c)}.joined(); }
  bool padding_is_intact() const { return high.padding_is_intact() && low.padding_is_intact(); }
  PaddedMatrix<Bfloat16> high;
  PaddedMatrix<std::int16_t> low;
};

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

class WeightHalvesTest : public samples::RandomTest {
 protected:
  PaddedMatrix<float> normal(Index rows, Index cols, Index padding = 5) {
    PaddedMatrix<float> m(rows, cols, padding);
    samples::fill_normal(m.view(), random_);
    return m;
  }
  /// Any bits, NaN and infinity among them; half of them half way between two bfloat16s.
  PaddedMatrix<float> of_any_bits(Index rows, Index cols, Index padding) {
    PaddedMatrix<float> m(rows, cols, padding);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) {
        auto bits = std::uint32_t(random_());
        if (c % 2 == 0) bits = (bits & 0xFFFF0000u) | 0x8000u;
        m(r, c) = std::bit_cast<float>(bits);
      }
    return m;
  }
  static void expect_same(PaddedMatrix<float>& floats, Halves& halves) {
    for (Index r = 0; r < floats.rows(); ++r)
      for (Index c = 0; c < floats.cols(); ++c) {
        ASSERT_EQ(bits_of(halves.joined(r, c)), bits_of(floats(r, c))) << r << ", " << c;
        ASSERT_EQ(halves.high(r, c).bits, FloatHalves::of(floats(r, c)).high.bits);
      }
    EXPECT_TRUE(halves.padding_is_intact());
  }

  static std::vector<std::pair<Index, Index>> shapes() {
    return {{0, 4},    {4, 0},    {1, 1},   {1, 33},     {31, 32},  {33, 31},
            {127, 15}, {128, 16}, {129, 1}, {1000, 129}, {2, 20000}};
  }
  static std::vector<std::pair<Index, Index>> paddings() {
    return {{0, 0}, {4, 4}, {5, 5}, {8, 3}, {0, 4}};
  }
  Executor executor_{2};
  std::unique_ptr<UpdateKernels> kernels_ = samples::make_update(executor_);
};

TEST_F(WeightHalvesTest, AreSplitAndJoined) {
  for (const auto& [rows, cols] : shapes())
    for (const auto& padding : paddings()) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols << " + " << padding.first);
      auto floats = of_any_bits(rows, cols, padding.second);
      Halves halves(rows, cols, padding);
      kernels_->split(floats.view(), halves.view());
      PaddedMatrix<float> joined(rows, cols, padding.first);
      kernels_->join(halves.view(), joined.view());
      for (Index r = 0; r < rows; ++r)
        for (Index c = 0; c < cols; ++c) {
          const FloatHalves expected = FloatHalves::of(floats(r, c));
          ASSERT_EQ(halves.high(r, c).bits, expected.high.bits) << r << ", " << c;
          ASSERT_EQ(halves.low(r, c), expected.low) << r << ", " << c;
          ASSERT_EQ(bits_of(joined(r, c)), bits_of(expected.joined())) << r << ", " << c;
        }
      EXPECT_TRUE(halves.padding_is_intact() && joined.padding_is_intact());
    }
}

TEST_F(WeightHalvesTest, EveryRuleStepsThemAsFloats) {
  const UpdateStep step{0.01f, 1e-3f, 1e-4f, 2.0f, 3.0f};
  for (const std::string& name : names_of<UpdateRule>())
    for (const auto& [rows, cols] : shapes())
      for (const auto& padding : paddings()) {
        SCOPED_TRACE(testing::Message() << name << " " << rows << " x " << cols << " + "
                                        << padding.first << ", " << padding.second);
        const UpdateRule rule = *find_named<UpdateRule>(name);
        auto floats = normal(rows, cols), g = normal(rows, cols, padding.second);
        Halves halves(floats, padding);
        RuleState state(g), state_of_halves(g);
        kernels_->update(rule, step, floats.view(), g.view(), state.views());
        kernels_->update(rule, step, halves.view(), g.view(), state_of_halves.views());
        expect_same(floats, halves);
        for (std::size_t s = 0; s < state.slot.size(); ++s)
          EXPECT_TRUE(state.slot[s].same_bits(state_of_halves.slot[s]));
      }
}

TEST_F(WeightHalvesTest, AThousandUpdatesHaveTheBitsOfThoseOfFloats) {
  for (const std::string& name : names_of<UpdateRule>()) {
    SCOPED_TRACE(name);
    const UpdateRule rule = *find_named<UpdateRule>(name);
    auto floats = normal(9, 20, 4);
    Halves halves(floats, {4, 4});
    RuleState state(floats), state_of_halves(floats);
    for (std::int64_t i = 0; i < 1000; ++i) {
      auto g = normal(9, 20, 4);
      const UpdateStep step = UpdateSchedule{}.at(rule, i);
      kernels_->update(rule, step, floats.view(), g.view(), state.views());
      kernels_->update(rule, step, halves.view(), g.view(), state_of_halves.views());
      if (i % 100 == 99) expect_same(floats, halves);
    }
    for (std::size_t s = 0; s < state.slot.size(); ++s)
      EXPECT_TRUE(state.slot[s].same_bits(state_of_halves.slot[s]));
  }
}

TEST_F(WeightHalvesTest, NormsHaveTheBitsOfThoseOfFloats) {
  for (const auto& [rows, cols] : shapes())
    for (const auto& padding : paddings()) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols << " + " << padding.first);
      auto floats = normal(rows, cols);
      Halves halves(floats, padding);
      double expected[2] = {-1, -1}, norms[2] = {-2, -2};
      kernels_->norms(floats.view(), expected, expected + 1);
      kernels_->norms(halves.view(), norms, norms + 1);
      EXPECT_EQ(norms[0], expected[0]);
      EXPECT_EQ(norms[1], expected[1]);
    }
}

TEST_F(WeightHalvesTest, OfOtherShapesAreRefused) {
  auto floats = normal(3, 4);
  PaddedMatrix<Bfloat16> high(3, 4), narrow(3, 3);
  PaddedMatrix<std::int16_t> low(3, 4), fewer(2, 4);
  const WeightView whole{high.view(), low.view()};
  const SlotViews slots{floats.view(), floats.view()};
  for (const WeightView& bad :
       {WeightView{high.view(), fewer.view()}, WeightView{narrow.view(), low.view()},
        WeightView{high.view(), {}}}) {
    EXPECT_THROW(kernels_->update(Adam{}, UpdateStep{}, bad, floats.view(), slots), ShapeError);
    EXPECT_THROW(kernels_->join(bad, floats.view()), ShapeError);
    EXPECT_THROW(kernels_->split(floats.view(), bad), ShapeError);
  }
  EXPECT_THROW(kernels_->join(floats.view(), floats.view()), ShapeError);
  EXPECT_THROW(kernels_->split(normal(4, 4).view(), whole), ShapeError);
}

}  // namespace
}  // namespace norn
