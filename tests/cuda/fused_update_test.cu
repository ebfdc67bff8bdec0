// SPDX-License-Identifier: Apache-2.0
// Fused updates against float64 sums of the same bfloat16 operands.
#include "tests/cuda/fused_support.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

struct UpdateProblem {
  Padded<Bfloat16> delta, x, high;
  Padded<std::int16_t> low;
  Padded<float> w;  ///< on the host; the GPU has its halves
  std::array<Padded<float>, std::size_t(kMostSlots)> slot;
  float scale;

  void send_weights() {
    for (Index r = 0; r < w.rows; ++r)
      for (Index c = 0; c < w.cols; ++c) {
        const FloatHalves halves = FloatHalves::of(w(r, c));
        high(r, c) = halves.high;
        low(r, c) = halves.low;
      }
    high.send();
    low.send();
  }
  void fetch_weights() {
    high.fetch();
    low.fetch();
    for (Index r = 0; r < w.rows; ++r)
      for (Index c = 0; c < w.cols; ++c) w(r, c) = FloatHalves{high(r, c), low(r, c)}.joined();
  }
  WeightView weights() { return {high.view(), low.view()}; }
};

class FusedUpdateTest : public FusedTest {
 protected:
  UpdateProblem draw(const Shape& shape) {
    UpdateProblem p;
    p.delta = random_bfloat16(shape.examples, shape.units, 1.0f);
    p.x = random_bfloat16(shape.examples, shape.width, 1.0f);
    p.high = Padded<Bfloat16>(shape.units, shape.width, memory_);
    p.low = Padded<std::int16_t>(shape.units, shape.width, memory_);
    p.w = random_float(shape.units, shape.width, -1.0f, 1.0f);
    for (auto& slot : p.slot) slot = random_float(shape.units, shape.width, 0.1f, 0.3f);
    p.scale = 1.0f / float(shape.examples);
    return p;
  }
  /// Units [first, first + count) of the problem, from its values on the host; of the first `cols`
  /// columns, unless it is 0.
  bool run(FusedKernels& kernels, const UpdateRule& rule, UpdateProblem& p, Index first,
           Index count, Index cols = 0) {
    if (cols == 0) cols = p.w.cols;
    SlotViews slots;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      p.slot[s].send();
      slots[s] = p.slot[s].view().row_range(first, count).columns(0, cols);
    }
    p.send_weights();
    const DenseOperand delta({nullptr, p.delta.rows, p.delta.cols, p.delta.cols}, p.delta.view());
    const DenseOperand x({nullptr, p.x.rows, p.x.cols, p.x.cols}, p.x.view());
    const bool done =
        kernels.update(rule, step_, delta.columns(first, count), x.columns(0, cols), p.scale,
                       p.weights().row_range(first, count).columns(0, cols), slots);
    p.fetch_weights();
    for (auto& slot : p.slot) slot.fetch();
    return done;
  }
  static double gradient(UpdateProblem& p, Index unit, Index source) {
    double sum = 0;
    for (Index b = 0; b < p.x.rows; ++b)
      sum += double(p.delta(b, unit).value()) * double(p.x(b, source).value());
    return sum * double(p.scale);
  }
  template <class Rule>
  void expect_steps(const Rule& rule, UpdateProblem& before, UpdateProblem& after, Index units,
                    Index cols) {
    for (Index r = 0; r < units; ++r)
      for (Index c = 0; c < cols; ++c) {
        float w = before.w(r, c);
        float slot[kMostSlots];
        for (std::size_t s = 0; s < before.slot.size(); ++s) slot[s] = before.slot[s](r, c);
        const float g = float(gradient(before, r, c));
        rule.step(w, step_.clip > 0.0f ? clipped(g, step_.clip) : g, slot, step_);
        ASSERT_NEAR(after.w(r, c), w, 4e-6) << Rule::name << " at " << r << ", " << c;
        for (std::size_t s = 0; s < after.slot.size(); ++s)
          ASSERT_NEAR(after.slot[s](r, c), slot[s], 4e-6) << Rule::name << " at " << r << ", " << c;
        ASSERT_EQ(after.high(r, c).bits, FloatHalves::of(after.w(r, c)).high.bits);
      }
    EXPECT_TRUE(after.high.padding_is_intact() && after.low.padding_is_intact());
    for (auto& slot : after.slot) EXPECT_TRUE(slot.padding_is_intact());
  }
  static UpdateProblem copy(UpdateProblem& p, Memory& memory) {
    UpdateProblem c;
    const auto of = [&]<typename T>(Padded<T>& m) {
      Padded<T> made(m.rows, m.cols, memory);
      made.host = m.host;
      made.send();
      return made;
    };
    c.delta = of(p.delta);
    c.x = of(p.x);
    c.high = of(p.high);
    c.low = of(p.low);
    c.w = of(p.w);
    for (std::size_t s = 0; s < c.slot.size(); ++s) c.slot[s] = of(p.slot[s]);
    c.scale = p.scale;
    return c;
  }
  UpdateStep step_{0.01f, 1e-3f, 1e-4f, 1.5f, 2.0f};
};

template <std::size_t... I>
std::vector<UpdateRule> all_rules(std::index_sequence<I...>) {
  return {std::variant_alternative_t<I, UpdateRule>{}...};
}
std::vector<UpdateRule> all_rules() {
  return all_rules(std::make_index_sequence<std::variant_size_v<UpdateRule>>());
}

TEST_F(FusedUpdateTest, EveryRuleStepsEveryWeight) {
  const auto kernels = make();
  for (const Shape& shape : {Shape{64, 64, 64}, Shape{72, 136, 200}, Shape{72, 8, 200},
                             Shape{520, 264, 128}, Shape{1032, 136, 200}})
    for (const UpdateRule& rule : all_rules()) {
      SCOPED_TRACE(shape.units);
      step_.clip = shape.units == 136 ? 0.05f : 0.0f;
      UpdateProblem before = draw(shape);
      UpdateProblem after = copy(before, memory_);
      ASSERT_TRUE(run(*kernels, rule, after, 0, shape.units));
      std::visit([&](const auto& r) { expect_steps(r, before, after, shape.units, shape.width); },
                 rule);
    }
}

// Tiles have 64 or 128 rows and 128 columns. What lies beyond the units and columns of the call
// must stay as it is.
TEST_F(FusedUpdateTest, AnyUnitsAndColumnsAreSteppedAlone) {
  const auto kernels = make();
  const auto drawn = [&](Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(random_);
  };
  const std::vector<UpdateRule> rules = all_rules();
  for (int i = 0; i < 30; ++i) {
    const Index units = i % 2 == 0 ? drawn(1, 1040) : 128 * drawn(1, 3) + drawn(-1, 1);
    const Index cols = 4 * (i % 3 == 0 ? drawn(16, 128) : 32 * drawn(1, 3) + drawn(-1, 1));
    const Shape shape{drawn(64, 300), (units + 7) / 8 * 8 + 8, (cols + 7) / 8 * 8 + 8};
    const UpdateRule& rule = rules[std::size_t(i) % rules.size()];
    SCOPED_TRACE(testing::Message()
                 << units << " units of " << shape.examples << " examples, " << cols << " columns");
    step_.clip = i % 4 == 1 ? 0.05f : 0.0f;
    UpdateProblem before = draw(shape);
    UpdateProblem after = copy(before, memory_);
    ASSERT_TRUE(run(*kernels, rule, after, 0, units, cols));
    std::visit([&](const auto& r) { expect_steps(r, before, after, units, cols); }, rule);
    for (Index r = 0; r < shape.units; ++r)
      for (Index c = 0; c < shape.width; ++c)
        if (r >= units || c >= cols) {
          ASSERT_EQ(after.w(r, c), before.w(r, c)) << r << ", " << c;
          ASSERT_EQ(after.slot[0](r, c), before.slot[0](r, c)) << r << ", " << c;
        }
    EXPECT_FALSE(run(*kernels, rule, after, 0, units, cols + 2));
  }
}

TEST_F(FusedUpdateTest, RunsAndPartsOfTheUnitsHaveTheSameBits) {
  const auto kernels = make();
  // Of the second one, a part is few tiles, which are taken smaller than those of the whole.
  for (const Shape& shape : {Shape{2048, 4104, 264}, Shape{256, 9000, 264}})
    for (const UpdateRule& rule : {UpdateRule(Sgd{}), UpdateRule(Adam{})}) {
      UpdateProblem whole = draw(shape);
      UpdateProblem again = copy(whole, memory_);
      UpdateProblem parts = copy(whole, memory_);
      ASSERT_TRUE(run(*kernels, rule, whole, 0, shape.units));
      ASSERT_TRUE(run(*kernels, rule, again, 0, shape.units));
      ASSERT_TRUE(run(*kernels, rule, parts, 0, 200));
      ASSERT_TRUE(run(*kernels, rule, parts, 200, shape.units - 208));
      ASSERT_TRUE(run(*kernels, rule, parts, shape.units - 8, 8));
      EXPECT_TRUE(whole.w.same_bits(again.w) && whole.slot[1].same_bits(again.slot[1]));
      EXPECT_TRUE(whole.w.same_bits(parts.w) && whole.slot[0].same_bits(parts.slot[0]) &&
                  whole.high.same_bits(parts.high));
    }
}

// Blocks that go through several tiles: two and three rounds of small ones, then large ones. Copies
// of the next weights are under way while the last ones are read; repeats bring such races to
// light.
TEST_F(FusedUpdateTest, SeveralTilesHaveTheSameBitsEachTime) {
  const auto kernels = make();
  for (const Shape& shape : {Shape{1024, 1032, 1024}, Shape{1024, 1536, 1536},
                             Shape{1024, 1952, 1536}, Shape{1024, 4616, 1536}}) {
    UpdateProblem before = draw(shape);
    UpdateProblem first = copy(before, memory_);
    ASSERT_TRUE(run(*kernels, Adam{}, first, 0, shape.units));
    for (int i = 0; i < 20; ++i) {
      UpdateProblem again = copy(before, memory_);
      ASSERT_TRUE(run(*kernels, Adam{}, again, 0, shape.units));
      ASSERT_TRUE(first.w.same_bits(again.w) && first.slot[0].same_bits(again.slot[0]) &&
                  first.slot[1].same_bits(again.slot[1]) && first.high.same_bits(again.high))
          << shape.units << " units, repeat " << i;
    }
  }
}

TEST_F(FusedUpdateTest, LeavesWhatItDoesNotSupportAlone) {
  UpdateProblem before = draw({64, 128, 64});
  UpdateProblem after = copy(before, memory_);
  EXPECT_FALSE(run(*make(Precision::tf32), Adam{}, after, 0, 128));
  step_.l2 = step_.l1 = 0.0f;
  step_.clip = 0.5f;  // a product that is added to the weights cannot clip it
  EXPECT_FALSE(run(*make(Precision::tf32), Sgd{}, after, 0, 128));
  EXPECT_FALSE(run(*make(), Adam{}, after, 4, 124));  // the deltas begin at no multiple of 16 bytes
  EXPECT_TRUE(before.w.same_bits(after.w));
}

}  // namespace
}  // namespace norn
