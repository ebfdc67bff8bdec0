// SPDX-License-Identifier: Apache-2.0
// Fused products against float64 sums of the same bfloat16 operands. Rows have padding of NaN,
// which must not be read into results nor be written.
#include "kernels/cuda/families.h"
#include "kernels/cuda/memory.h"
#include "norn/kernels/batch.h"
#include "norn/kernels/fused.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

constexpr Index kPadding = 8;

/// A matrix with padded rows on the host and on the GPU.
template <typename T>
struct Padded {
  Padded() = default;
  Padded(Index all_rows, Index all_cols, Memory& memory)
      : rows(all_rows),
        cols(all_cols),
        host(std::size_t(all_rows * (all_cols + kPadding)), poison()),
        gpu(all_rows * (all_cols + kPadding), memory) {}
  static T poison() {
    if constexpr (std::is_same_v<T, float>)
      return std::numeric_limits<float>::quiet_NaN();
    else
      return Bfloat16{0x7FC1};
  }
  T& operator()(Index r, Index c) { return host[std::size_t(r * (cols + kPadding) + c)]; }
  void send() { gpu.write(host.data(), gpu.size()); }
  void fetch() { gpu.read(host.data(), gpu.size()); }
  MatrixView<T> view() { return {gpu.data(), rows, cols, cols + kPadding}; }
  bool padding_is_intact() {
    const T expected = poison();
    for (Index r = 0; r < rows; ++r)
      for (Index c = cols; c < cols + kPadding; ++c)
        if (std::memcmp(&(*this)(r, c), &expected, sizeof(T)) != 0) return false;
    return true;
  }
  bool same_bits(const Padded& other) const {
    return std::memcmp(host.data(), other.host.data(), host.size() * sizeof(T)) == 0;
  }
  Index rows = 0;
  Index cols = 0;
  std::vector<T> host;
  Buffer<T> gpu;
};

struct Shape {
  Index examples;
  Index units;
  Index width;
};

class FusedTest : public ::testing::Test {
 protected:
  FusedTest() {
    const unsigned seed = std::random_device()();
    RecordProperty("seed", int(seed & 0x7fffffff));
    random_.seed(seed);
  }
  Padded<Bfloat16> random_bfloat16(Index rows, Index cols, float deviation) {
    Padded<Bfloat16> m(rows, cols, memory_);
    std::normal_distribution<float> normal(0.0f, deviation);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = Bfloat16::rounded(normal(random_));
    m.send();
    return m;
  }
  Padded<float> random_float(Index rows, Index cols, float low, float high) {
    Padded<float> m(rows, cols, memory_);
    std::uniform_real_distribution<float> uniform(low, high);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = uniform(random_);
    m.send();
    return m;
  }
  template <typename T>
  Buffer<T> on_gpu(const std::vector<T>& values) {
    Buffer<T> buffer(Index(values.size()), memory_);
    buffer.write(values.data(), buffer.size());
    return buffer;
  }
  std::unique_ptr<FusedKernels> make(Precision precision = Precision::bf16) {
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
                "cudaDeviceGetAttribute");
    return cuda::make_fused({nullptr, memory_, precision, count});
  }

  cuda::DeviceMemory memory_{nullptr, true};
  std::mt19937 random_;
};

// Updates.

struct UpdateProblem {
  Padded<Bfloat16> delta, x, rounded;
  Padded<float> w, slot0, slot1;
  float scale;
};

class FusedUpdateTest : public FusedTest {
 protected:
  UpdateProblem draw(const Shape& shape) {
    UpdateProblem p;
    p.delta = random_bfloat16(shape.examples, shape.units, 1.0f);
    p.x = random_bfloat16(shape.examples, shape.width, 1.0f);
    p.rounded = Padded<Bfloat16>(shape.units, shape.width, memory_);
    p.w = random_float(shape.units, shape.width, -1.0f, 1.0f);
    p.slot0 = random_float(shape.units, shape.width, 0.1f, 0.3f);
    p.slot1 = random_float(shape.units, shape.width, 0.1f, 0.3f);
    p.scale = 1.0f / float(shape.examples);
    return p;
  }
  /// Units [first, first + count) of the problem, from its values on the host.
  bool run(FusedKernels& kernels, const UpdateRule& rule, UpdateProblem& p, Index first,
           Index count) {
    for (Padded<float>* m : {&p.w, &p.slot0, &p.slot1}) m->send();
    p.rounded.send();
    const DenseOperand delta({nullptr, p.delta.rows, p.delta.cols, p.delta.cols}, p.delta.view());
    const DenseOperand x({nullptr, p.x.rows, p.x.cols, p.x.cols}, p.x.view());
    const bool done = kernels.update(
        rule, kStep, delta.columns(first, count), x, p.scale, p.w.view().row_range(first, count),
        {p.slot0.view().row_range(first, count), p.slot1.view().row_range(first, count)},
        p.rounded.view().row_range(first, count));
    for (Padded<float>* m : {&p.w, &p.slot0, &p.slot1}) m->fetch();
    p.rounded.fetch();
    return done;
  }
  static double gradient(UpdateProblem& p, Index unit, Index source) {
    double sum = 0;
    for (Index b = 0; b < p.x.rows; ++b)
      sum += double(p.delta(b, unit).value()) * double(p.x(b, source).value());
    return sum * double(p.scale);
  }
  template <class Rule>
  void expect_steps(const Rule& rule, UpdateProblem& before, UpdateProblem& after) {
    for (Index r = 0; r < before.w.rows; ++r)
      for (Index c = 0; c < before.w.cols; ++c) {
        float w = before.w(r, c);
        float slot[2] = {before.slot0(r, c), before.slot1(r, c)};
        rule.step(w, float(gradient(before, r, c)), slot, kStep);
        ASSERT_NEAR(after.w(r, c), w, 4e-6) << Rule::name << " at " << r << ", " << c;
        ASSERT_NEAR(after.slot0(r, c), slot[0], 4e-6) << Rule::name << " at " << r << ", " << c;
        ASSERT_NEAR(after.slot1(r, c), slot[1], 4e-6) << Rule::name << " at " << r << ", " << c;
        ASSERT_EQ(after.rounded(r, c).bits, Bfloat16::rounded(after.w(r, c)).bits);
      }
    EXPECT_TRUE(after.w.padding_is_intact() && after.slot0.padding_is_intact() &&
                after.slot1.padding_is_intact() && after.rounded.padding_is_intact());
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
    c.rounded = of(p.rounded);
    c.w = of(p.w);
    c.slot0 = of(p.slot0);
    c.slot1 = of(p.slot1);
    c.scale = p.scale;
    return c;
  }
  static constexpr UpdateStep kStep{0.01f, 1e-3f, 1e-4f, 1.5f, 2.0f};
};

template <std::size_t... I>
std::vector<UpdateRule> all_rules(std::index_sequence<I...>) {
  return {std::variant_alternative_t<I, UpdateRule>{}...};
}
std::vector<UpdateRule> all_rules() {
  return all_rules(std::make_index_sequence<std::variant_size_v<UpdateRule>>());
}

TEST_F(FusedUpdateTest, EveryRuleStepsEveryWeightAndRoundsIt) {
  const auto kernels = make();
  for (const Shape& shape :
       {Shape{64, 64, 64}, Shape{72, 136, 200}, Shape{520, 264, 128}, Shape{1032, 136, 200}})
    for (const UpdateRule& rule : all_rules()) {
      SCOPED_TRACE(shape.units);
      UpdateProblem before = draw(shape);
      UpdateProblem after = copy(before, memory_);
      ASSERT_TRUE(run(*kernels, rule, after, 0, shape.units));
      std::visit([&](const auto& r) { expect_steps(r, before, after); }, rule);
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
      ASSERT_TRUE(run(*kernels, rule, parts, 200, shape.units - 200));
      EXPECT_TRUE(whole.w.same_bits(again.w) && whole.slot1.same_bits(again.slot1));
      EXPECT_TRUE(whole.w.same_bits(parts.w) && whole.slot0.same_bits(parts.slot0) &&
                  whole.rounded.same_bits(parts.rounded));
    }
}

TEST_F(FusedUpdateTest, LeavesWhatItDoesNotSupportAlone) {
  UpdateProblem before = draw({64, 128, 64});
  UpdateProblem after = copy(before, memory_);
  EXPECT_FALSE(run(*make(Precision::tf32), Adam{}, after, 0, 128));
  EXPECT_FALSE(run(*make(), Adam{}, after, 4, 124));  // the deltas begin at no multiple of 16 bytes
  EXPECT_FALSE(run(*make(), Adam{}, after, 0, 8));
  EXPECT_TRUE(before.w.same_bits(after.w));
}

// Output layers.

struct OutputProblem {
  Padded<Bfloat16> x, w, delta;
  std::vector<float> bias, weight, value;
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
    p.delta = Padded<Bfloat16>(shape.examples, shape.units, memory_);
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
  /// All stored targets are 1, and no values are stored: p.value is what is expected.
  static void make_boolean(OutputProblem& p) {
    std::fill(p.value.begin(), p.value.end(), 1.0f);
    p.has_values = false;
  }
  /// Returns the cost, of blocks of `part` units if that is given, in one call each or in one.
  double run(FusedKernels& kernels, const UnitCost& rule, OutputProblem& p, bool weighted = true,
             Index part = 0, bool in_one_call = false) {
    Buffer<float> bias = on_gpu(p.bias), weight = on_gpu(p.weight), value = on_gpu(p.value);
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
                      .rounded_delta = {},
                      .bias_gradient = {},
                      .bias_scale = kBiasScale};
    block.target.sparse = {row_begin.data(),
                           column.data(),
                           p.has_values ? value.data() : nullptr,
                           p.x.rows,
                           p.first_unit + p.w.rows + 20,
                           Index(p.column.size())};
    if (weighted) block.target.weight = weight.view();
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
      block.rounded_delta = p.delta.view().columns(first, count);
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
  /// The stored targets of one row, NaN where there is none.
  static std::vector<float> stored_of(const OutputProblem& p, Index row) {
    std::vector<float> stored(std::size_t(p.w.rows), std::numeric_limits<float>::quiet_NaN());
    for (RowOffset i = p.row_begin[std::size_t(row)]; i < p.row_begin[std::size_t(row) + 1]; ++i) {
      const Index unit = Index(p.column[std::size_t(i)]) - p.first_unit;
      if (unit >= 0 && unit < p.w.rows) stored[std::size_t(unit)] = p.value[std::size_t(i)];
    }
    return stored;
  }
  template <class F, class L>
  void expect_deltas(const F& f, const L& loss, float boost_one, float boost_zero, OutputProblem& p,
                     double cost) {
    double expected_cost = 0;
    for (Index b = 0; b < p.x.rows; ++b) {
      const std::vector<float> stored = stored_of(p, b);
      for (Index u = 0; u < p.w.rows; ++u) {
        double z = p.bias[std::size_t(u)];
        for (Index k = 0; k < p.x.cols; ++k)
          z += double(p.x(b, k).value()) * double(p.w(u, k).value());
        const float value = stored[std::size_t(u)];
        const bool is_stored = !std::isnan(value);
        const double target = is_stored ? double(loss.stored_target(value)) : 0.0;
        const ElementCost<double> e = element_cost(f, loss, z, target);
        const double weight = p.weight[std::size_t(b)];
        const double delta = weight * (is_stored ? boost_one : boost_zero) * e.delta;
        expected_cost += weight * e.cost;
        ASSERT_NEAR(p.delta(b, u).value(), delta, 0.0041 * std::abs(delta) + 4e-6)
            << L::name << " at " << b << ", " << u << ", z " << z << (is_stored ? " stored" : "");
      }
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
    for (const Shape& shape : {Shape{64, 64, 64}, Shape{136, 328, 72}, Shape{300, 264, 256}}) {
      OutputProblem p = draw(shape, 20);
      const double cost = run(*kernels, {activation, loss, 1.25f, 0.75f}, p);
      std::visit(
          [&](const auto& f, const auto& l) {
            using L = std::remove_cvref_t<decltype(l)>;
            constexpr bool kMarginal = std::is_same_v<L, ScaledMarginalCrossEntropy> ||
                                       std::is_same_v<L, DataScaledMarginalCrossEntropy>;
            expect_deltas(f, l, kMarginal ? 1.0f : 1.25f, kMarginal ? 1.0f : 0.75f, p, cost);
          },
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
