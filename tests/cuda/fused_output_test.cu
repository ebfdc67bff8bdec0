// SPDX-License-Identifier: Apache-2.0
// Fused output layers against float64 sums of the same bfloat16 operands.
#include "kernels/batch.h"
#include "tests/cuda/fused_support.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace norn {
namespace {

struct OutputProblem {
  Padded<Bfloat16> x, w, delta;
  std::vector<float> bias, weight, value;
  std::vector<float> entry_weight;  ///< of the stored targets; or none
  std::vector<RowOffset> row_begin;
  std::vector<Column> column;
  std::vector<float> gradient;  ///< becomes that of the biases
  Index first_unit = 1000;
  bool has_values = true;
  std::vector<double> costs;  ///< become those of the blocks
  Range runs;                 ///< units whose stored targets are looked up before; or empty
};

class FusedOutputTest : public FusedTest {
 protected:
  OutputProblem draw(const Shape& shape, int stored) {
    OutputProblem p;
    p.x = random_bfloat16(shape.examples, shape.width, 1.0f);
    p.w = random_bfloat16(shape.units, shape.width, 2.0f / std::sqrt(float(shape.width)));
    p.delta = Padded<Bfloat16>(shape.examples, (shape.units + 7) / 8 * 8, memory_);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (Index i = 0; i < shape.units; ++i) p.bias.push_back(uniform(random_));
    p.row_begin.push_back(0);
    for (Index b = 0; b < shape.examples; ++b) {
      p.weight.push_back(1.5f + uniform(random_));
      std::set<Column> columns;  // some beyond either end of the block
      for (int i = 0; i < stored; ++i)
        columns.insert(
            Column(p.first_unit - 20 + Index(random_() % std::uint64_t(shape.units + 40))));
      p.column.insert(p.column.end(), columns.begin(), columns.end());
      p.row_begin.push_back(RowOffset(p.column.size()));
    }
    for (std::size_t i = 0; i < p.column.size(); ++i) p.value.push_back(1.0f + uniform(random_));
    return p;
  }
  /// Some of the examples, the others left out.
  OutputProblem examples_of(OutputProblem& p, Index first, Index count) {
    OutputProblem some;
    some.x = Padded<Bfloat16>(count, p.x.cols, memory_);
    some.w = Padded<Bfloat16>(p.w.rows, p.w.cols, memory_);
    some.delta = Padded<Bfloat16>(count, p.delta.cols, memory_);
    const auto from = p.x.host.begin() + first * (p.x.cols + kPadding);
    std::copy(from, from + count * (p.x.cols + kPadding), some.x.host.begin());
    some.w.host = p.w.host;
    some.x.send();
    some.w.send();
    some.bias = p.bias;
    some.weight.assign(p.weight.begin() + first, p.weight.begin() + first + count);
    some.row_begin.assign(p.row_begin.begin() + first, p.row_begin.begin() + first + count + 1);
    some.column = p.column;
    some.value = p.value;
    return some;
  }
  void weigh_entries(OutputProblem& p) {
    std::uniform_real_distribution<float> uniform(0.0f, 4.0f);
    for (std::size_t i = 0; i < p.column.size(); ++i)
      p.entry_weight.push_back(i % 9 == 0 ? 0.0f : uniform(random_));
  }
  /// All stored targets are 1, and no values are stored: p.value is what is expected.
  static void make_boolean(OutputProblem& p) {
    std::fill(p.value.begin(), p.value.end(), 1.0f);
    p.has_values = false;
  }
  /// Returns the cost, of blocks of `part` units if that is given, in one call each or in one.
  double run(FusedKernels& kernels, const UnitCost& rule, OutputProblem& p, bool weighted = true,
             Index part = 0, bool in_one_call = false) {
    Buffer<float> bias = on_gpu(p.bias), weight = on_gpu(p.weight), value = on_gpu(p.value);
    Buffer<float> entry_weight = on_gpu(p.entry_weight);
    Buffer<RowOffset> row_begin = on_gpu(p.row_begin);
    Buffer<Column> column = on_gpu(p.column);
    if (part == 0) part = p.w.rows;
    std::vector<double> costs(std::size_t((p.w.rows + part - 1) / part));
    Buffer<double> cost(Index(costs.size()), memory_);
    Buffer<float> gradient(p.w.rows, memory_);
    p.delta.send();
    OutputBlock block{.x = {{nullptr, p.x.rows, p.x.cols, p.x.cols}, p.x.view()},
                      .w = {},
                      .bias = {},
                      .rule = rule,
                      .target = {},
                      .delta = {},
                      .bf16_delta = {},
                      .bias_gradient = {},
                      .bias_scale = kBiasScale};
    block.target.sparse = {row_begin.data(),
                           column.data(),
                           p.has_values ? value.data() : nullptr,
                           p.x.rows,
                           p.first_unit + p.w.rows + 20,
                           Index(p.column.size())};
    if (weighted) block.target.weight = weight.view();
    if (!p.entry_weight.empty()) block.target.entry_weight = entry_weight.data();
    Buffer<int> runs(ColumnRuns::size(p.x.rows, p.runs.count()), memory_);
    if (p.runs.count() > 0)
      block.target_runs = cuda::make_batch({nullptr, memory_, Precision::fp32, 1})
                              ->find_runs(block.target.sparse, p.runs, runs.view());
    if (in_one_call) block.block_width = part;
    const Index each = in_one_call ? p.w.rows : part;
    for (Index first = 0; first < p.w.rows; first += each) {
      const Index count = std::min(each, p.w.rows - first);
      block.w = {{nullptr, count, p.w.cols, p.w.cols}, p.w.view().row_range(first, count)};
      block.bias = bias.view().range(first, count);
      block.first_unit = p.first_unit + first;
      block.bf16_delta = p.delta.view().columns(first, count);
      block.cost = cost.data() + first / part;
      block.bias_gradient = gradient.view().range(first, count);
      EXPECT_TRUE(kernels.output_delta(block));
    }
    kernels.add_totals();
    cost.read(costs.data(), cost.size());
    p.costs = costs;
    const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
    p.gradient.resize(std::size_t(p.w.rows));
    gradient.read(p.gradient.data(), gradient.size());
    p.delta.fetch();
    return sum;
  }
  /// What stored targets of one row have, NaN where there is none.
  static std::vector<float> stored_of(const OutputProblem& p, const std::vector<float>& of_entries,
                                      Index row) {
    std::vector<float> stored(std::size_t(p.w.rows), std::numeric_limits<float>::quiet_NaN());
    for (RowOffset i = p.row_begin[std::size_t(row)]; i < p.row_begin[std::size_t(row) + 1]; ++i) {
      const Index unit = Index(p.column[std::size_t(i)]) - p.first_unit;
      if (unit >= 0 && unit < p.w.rows) stored[std::size_t(unit)] = of_entries[std::size_t(i)];
    }
    return stored;
  }
  template <class F, class L>
  void expect_deltas(const F& f, const L& loss, float boost_one, float boost_zero, OutputProblem& p,
                     double cost) {
    double expected_cost = 0;
    for (Index b = 0; b < p.x.rows; ++b) {
      const std::vector<float> stored = stored_of(p, p.value, b);
      const std::vector<float> weights =
          p.entry_weight.empty() ? std::vector<float>() : stored_of(p, p.entry_weight, b);
      for (Index u = 0; u < p.w.rows; ++u) {
        double z = p.bias[std::size_t(u)];
        for (Index k = 0; k < p.x.cols; ++k)
          z += double(p.x(b, k).value()) * double(p.w(u, k).value());
        const float value = stored[std::size_t(u)];
        const bool is_stored = !std::isnan(value);
        const double target = is_stored ? double(loss.stored_target(value)) : 0.0;
        const ElementCost<double> e = element_cost(f, loss, z, target);
        const double weight = double(p.weight[std::size_t(b)]) *
                              (is_stored && !weights.empty() ? weights[std::size_t(u)] : 1.0);
        const double delta = weight * (is_stored ? boost_one : boost_zero) * e.delta;
        expected_cost += weight * e.cost;
        ASSERT_NEAR(p.delta(b, u).value(), delta, 0.0041 * std::abs(delta) + 4e-6)
            << L::name << " at " << b << ", " << u << ", z " << z << (is_stored ? " stored" : "");
      }
      for (Index u = p.w.rows; u < p.delta.cols; ++u) ASSERT_EQ(p.delta(b, u).value(), 0.0f);
    }
    EXPECT_NEAR(cost, expected_cost, 3e-6 * expected_cost);
    EXPECT_TRUE(p.delta.padding_is_intact());
    expect_gradient(p);
  }
  /// The biases' gradient is the sum of the very deltas that were written.
  static void expect_gradient(OutputProblem& p) {
    for (Index u = 0; u < p.w.rows; ++u) {
      double sum = 0;
      double magnitude = 0;
      for (Index b = 0; b < p.x.rows; ++b) {
        sum += double(p.delta(b, u).value());
        magnitude += std::abs(double(p.delta(b, u).value()));
      }
      ASSERT_NEAR(p.gradient[std::size_t(u)], kBiasScale * sum, 4e-6 * kBiasScale * magnitude)
          << "unit " << u;
    }
  }
  static constexpr float kBiasScale = 0.375f;
};

TEST_F(FusedOutputTest, DeltasAndCostsAreThoseOfTheUnits) {
  const auto kernels = make();
  const std::vector<std::pair<Activation, Loss>> pairs = {
      {Sigmoid{}, CrossEntropy{}},
      // Margins lie where no random unit is likely to be so near that rounding decides.
      {Sigmoid{}, ScaledMarginalCrossEntropy{1.0f, 0.0f, 1.0f, 1.0f}},
      {Sigmoid{}, ScaledMarginalCrossEntropy{0.9999f, 1e-5f, 2.0f, 0.5f}},
      {Sigmoid{}, DataScaledMarginalCrossEntropy{1.0f, 0.0f, 1.0f, 1.0f}},
      {Sigmoid{}, DataScaledMarginalCrossEntropy{0.9999f, 1e-5f, 2.0f, 0.5f}},
      {Sigmoid{}, SquaredError{}},
      {Linear{}, SquaredError{}}};
  for (const auto& [activation, loss] : pairs)
    for (const Shape& shape : {Shape{64, 64, 64}, Shape{136, 323, 72}, Shape{300, 264, 256}}) {
      OutputProblem p = draw(shape, 20);
      const double cost = run(*kernels, {activation, loss, 1.25f, 0.75f}, p);
      std::visit([&](const auto& f, const auto& l) { expect_deltas(f, l, 1.25f, 0.75f, p, cost); },
                 activation, loss);
    }
}

TEST_F(FusedOutputTest, RandomLayersAgreeWithFloat64) {
  const auto kernels = make();
  const auto below = [&](Index limit) { return Index(random_() % std::uint64_t(limit)); };
  for (int i = 0; i < 10; ++i) {
    // Widths of which stages hold all of k, and others.
    const Index width = below(2) == 0 ? 64 * (1 + below(4)) : 8 * (8 + below(41));
    const Shape shape{64 + below(600), 1 + below(500), width};
    SCOPED_TRACE(::testing::Message()
                 << shape.examples << " x " << shape.units << " x " << shape.width);
    OutputProblem p = draw(shape, int(below(3) == 0 ? shape.units / 2 : below(30)));
    if (below(2) == 0) make_boolean(p);
    if (below(2) == 0) weigh_entries(p);
    const ScaledMarginalCrossEntropy loss{1.0f, 0.0f, 1.5f, 0.5f};
    const double cost = run(*kernels, {Sigmoid{}, loss, 1.25f, 0.75f}, p);
    expect_deltas(Sigmoid{}, loss, 1.25f, 0.75f, p, cost);
    if (HasFatalFailure()) return;
  }
}

TEST_F(FusedOutputTest, OfAnExampleTheBitsAreTheSameWhateverComesWithIt) {
  const auto kernels = make();
  const auto below = [&](Index limit) { return Index(random_() % std::uint64_t(limit)); };
  const UnitCost rule{Sigmoid{}, ScaledMarginalCrossEntropy{}, 1.0f, 1.0f};
  // More tiles of rows than blocks have a turn for, and few.
  for (const Index examples : {3400 + below(180), 9000 + below(1000), 513 + below(1500)}) {
    const Shape shape{examples, 1 + below(400), 64 * (1 + below(4))};
    SCOPED_TRACE(::testing::Message()
                 << shape.examples << " x " << shape.units << " x " << shape.width);
    OutputProblem p = draw(shape, 20);
    run(*kernels, rule, p);
    for (int i = 0; i < 4; ++i) {
      const Index first = 128 * below((examples - 64) / 128);
      OutputProblem some = examples_of(p, first, 64 + below(examples - first - 64));
      run(*kernels, rule, some);
      for (Index b = 0; b < some.x.rows; ++b)
        ASSERT_EQ(std::memcmp(&some.delta(b, 0), &p.delta(first + b, 0),
                              std::size_t(p.delta.cols) * sizeof(Bfloat16)),
                  0)
            << first << " + " << b;
    }
  }
}

TEST_F(FusedOutputTest, StoredTargetsMayHaveWeights) {
  const auto kernels = make();
  const std::vector<std::pair<Activation, Loss>> pairs = {
      {Sigmoid{}, CrossEntropy{}},
      {Sigmoid{}, ScaledMarginalCrossEntropy{0.9999f, 1e-5f, 2.0f, 0.5f}},
      {Sigmoid{}, SquaredError{}},
      {Linear{}, SquaredError{}}};
  for (const auto& [activation, loss] : pairs)
    for (const bool has_values : {true, false})
      for (const int stored : {20, 200}) {
        OutputProblem p = draw({136, 323, 72}, stored);
        if (!has_values) make_boolean(p);
        weigh_entries(p);
        const double cost = run(*kernels, {activation, loss, 1.25f, 0.75f}, p);
        std::visit(
            [&](const auto& f, const auto& l) { expect_deltas(f, l, 1.25f, 0.75f, p, cost); },
            activation, loss);
      }
}

TEST_F(FusedOutputTest, TilesMayBeFullOfStoredTargets) {
  const auto kernels = make();
  for (const int stored : {0, 6, 400})
    for (const bool has_values : {true, false})
      for (const float boost_one : {1.0f, 1.5f}) {
        OutputProblem p = draw({264, 264, 64}, stored);
        if (!has_values) make_boolean(p);
        const double cost = run(*kernels, {Sigmoid{}, CrossEntropy{}, boost_one, 1.0f}, p);
        expect_deltas(Sigmoid{}, CrossEntropy{}, boost_one, 1.0f, p, cost);
      }
}

TEST_F(FusedOutputTest, PreActivationsMayBeLarge) {
  const auto kernels = make();
  OutputProblem p = draw({136, 328, 64}, 20);
  for (std::size_t u = 0; u < p.bias.size(); ++u) {
    if (u % 7 == 0) p.bias[u] = 45.0f;
    if (u % 31 == 0) p.bias[u] = 300.0f;
    if (u % 11 == 0) p.bias[u] = -200.0f;
    if (u >= 256) p.bias[u] = 3.0f;  // the sum is large, not one of them
  }
  for (const bool has_values : {true, false}) {
    if (!has_values) make_boolean(p);
    const double cost = run(*kernels, {Sigmoid{}, CrossEntropy{}, 1.0f, 1.0f}, p);
    expect_deltas(Sigmoid{}, CrossEntropy{}, 1.0f, 1.0f, p, cost);
  }
}

TEST_F(FusedOutputTest, RunsHaveTheSameBits) {
  const auto kernels = make();
  const UnitCost rule{Sigmoid{}, ScaledMarginalCrossEntropy{}, 1.0f, 1.0f};
  OutputProblem p = draw({1032, 8200, 256}, 100);
  const double cost = run(*kernels, rule, p);
  const std::vector<Bfloat16> delta = p.delta.host;
  const std::vector<float> gradient = p.gradient;
  expect_gradient(p);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(run(*kernels, rule, p), cost);
    EXPECT_EQ(p.gradient, gradient);
    EXPECT_EQ(std::memcmp(delta.data(), p.delta.host.data(), delta.size() * 2), 0);
  }
}

TEST_F(FusedOutputTest, TargetsMayBeLookedUpForManyBlocksAtOnce) {
  const auto kernels = make();
  const UnitCost rule{Sigmoid{}, ScaledMarginalCrossEntropy{}, 1.0f, 1.0f};
  OutputProblem p = draw({136, 328, 72}, 20);
  const double cost = run(*kernels, rule, p);
  const std::vector<Bfloat16> delta = p.delta.host;
  // The last two have no run that begins or ends with the block.
  for (const Range runs : {Range{1000, 1328}, Range{744, 1328}, Range{1000, 1384}, Range{0, 1328},
                           Range{1000, 1340}}) {
    p.runs = runs;
    EXPECT_EQ(run(*kernels, rule, p), cost) << runs.begin;
    EXPECT_EQ(std::memcmp(delta.data(), p.delta.host.data(), delta.size() * 2), 0) << runs.begin;
  }
}

TEST_F(FusedOutputTest, BlocksGetTheirTotalsTogether) {
  const auto kernels = make();
  const UnitCost rule{Sigmoid{}, CrossEntropy{}, 1.0f, 1.0f};
  OutputProblem p = draw({264, 64 * 19, 64}, 100);
  const double cost = run(*kernels, rule, p);
  const std::vector<float> gradient = p.gradient;
  // As many as are added up at once, and fewer, and more.
  for (Index part : {152, 608, 64}) {
    EXPECT_NEAR(run(*kernels, rule, p, true, part), cost, 1e-6 * cost) << part;
    EXPECT_EQ(p.gradient, gradient) << part;
    expect_gradient(p);
  }
}

TEST_F(FusedOutputTest, BlocksMayBeGivenAsOne) {
  const auto kernels = make();
  const UnitCost rule{Sigmoid{}, ScaledMarginalCrossEntropy{}, 1.0f, 1.0f};
  for (const Shape& shape : {Shape{136, 328, 72}, Shape{64, 968, 64}, Shape{300, 1024, 128}})
    for (const Index width : {128, 256, 1024}) {
      if ((shape.units + width - 1) / width > 8) continue;
      OutputProblem p = draw(shape, 20);
      run(*kernels, rule, p, true, width);
      const std::vector<double> costs = p.costs;
      const std::vector<float> gradient = p.gradient;
      const std::vector<Bfloat16> delta = p.delta.host;
      run(*kernels, rule, p, true, width, true);
      EXPECT_EQ(p.costs, costs) << shape.units << ' ' << width;
      EXPECT_EQ(p.gradient, gradient) << shape.units << ' ' << width;
      EXPECT_EQ(std::memcmp(delta.data(), p.delta.host.data(), delta.size() * 2), 0);
    }
}

TEST_F(FusedOutputTest, SmallCostsAreNotLostAndNanIsHandedOn) {
  const auto kernels = make();
  const UnitCost rule{Sigmoid{}, CrossEntropy{}, 1.0f, 1.0f};
  OutputProblem p = draw({256, 512, 64}, 0);
  for (auto& w : p.w.host) w = Bfloat16{};
  p.w.send();
  p.bias.assign(p.bias.size(), -14.0f);
  const double expected = 256.0 * 512.0 * std::log1p(std::exp(-14.0));
  EXPECT_NEAR(run(*kernels, rule, p, false), expected, 1e-5 * expected);
  p.bias[100] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(run(*kernels, rule, p, false)));
  EXPECT_TRUE(std::isnan(p.delta(3, 100).value()));
  EXPECT_FALSE(std::isnan(p.delta(3, 101).value()));
}

}  // namespace
}  // namespace norn
