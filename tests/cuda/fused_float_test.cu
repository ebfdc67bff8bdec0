// SPDX-License-Identifier: Apache-2.0
// Fused output layers in tf32 against float64 sums. Operands have few bits, so that their terms are
// exact; rows have padding of NaN, which must not be read into results nor be written.
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/fused.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kBiasScale = 0.375f;

struct Shape {
  Index examples;
  Index units;
  Index width;
};

/// On the host and on the GPU; rows begin at multiples of 16 bytes.
struct Padded {
  Padded() = default;
  Padded(Index all_rows, Index all_cols, Memory& memory)
      : rows(all_rows),
        cols(all_cols),
        stride((all_cols + 3) / 4 * 4 + 4),
        host(std::size_t(all_rows * stride), kNan),
        gpu(all_rows * stride, memory) {}
  float& operator()(Index r, Index c) { return host[std::size_t(r * stride + c)]; }
  void send() { gpu.write(host.data(), gpu.size()); }
  void fetch() { gpu.read(host.data(), gpu.size()); }
  MatrixView<float> view() { return {gpu.data(), rows, cols, stride}; }
  /// From the first multiple of four columns on: up to there rows have room.
  bool padding_is_intact() {
    for (Index r = 0; r < rows; ++r)
      for (Index c = (cols + 3) / 4 * 4; c < stride; ++c)
        if (!std::isnan((*this)(r, c))) return false;
    return true;
  }
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;
  std::vector<float> host;
  Buffer<float> gpu;
};

struct Problem {
  Padded x, w, delta, transposed;
  std::vector<float> bias, weight, value, gradient;
  std::vector<float> entry_weight;  ///< of the stored targets; or none
  std::vector<RowOffset> row_begin{0};
  std::vector<Column> column;
  Index first_unit = 1000;
};

class FusedFloatTest : public ::testing::Test {
 protected:
  FusedFloatTest() {
    std::printf("seed %u\n", seed_);
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
                "cudaDeviceGetAttribute");
    kernels_ = cuda::make_fused({nullptr, memory_, Precision::tf32, count});
  }
  Padded random_matrix(Index rows, Index cols, float deviation) {
    Padded m(rows, cols, memory_);
    std::normal_distribution<float> normal(0.0f, deviation);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = Bfloat16::rounded(normal(random_)).value();
    m.send();
    return m;
  }
  template <typename T>
  Buffer<T> on_gpu(const std::vector<T>& values) {
    Buffer<T> buffer(Index(values.size()), memory_);
    buffer.write(values.data(), buffer.size());
    return buffer;
  }
  Problem draw(const Shape& shape, int stored) {
    Problem p;
    p.x = random_matrix(shape.examples, shape.width, 1.0f);
    p.w = random_matrix(shape.units, shape.width, 2.0f / std::sqrt(float(shape.width)));
    p.delta = Padded(shape.examples, shape.units, memory_);
    p.transposed = Padded(shape.units, (shape.examples + 3) / 4 * 4, memory_);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (Index i = 0; i < shape.units; ++i) p.bias.push_back(uniform(random_));
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
  void weigh_entries(Problem& p) {
    std::uniform_real_distribution<float> uniform(0.0f, 4.0f);
    for (std::size_t i = 0; i < p.column.size(); ++i)
      p.entry_weight.push_back(i % 9 == 0 ? 0.0f : uniform(random_));
  }
  /// Returns the cost.
  double run(const UnitCost& rule, Problem& p) {
    Buffer<float> bias = on_gpu(p.bias), weight = on_gpu(p.weight), value = on_gpu(p.value);
    Buffer<float> entry_weight = on_gpu(p.entry_weight);
    Buffer<RowOffset> row_begin = on_gpu(p.row_begin);
    Buffer<Column> column = on_gpu(p.column);
    Buffer<double> cost(1, memory_);
    Buffer<float> gradient(p.w.rows, memory_);
    p.delta.send();
    p.transposed.send();
    OutputBlock block;
    block.x = p.x.view();
    block.w = p.w.view();
    block.bias = bias.view();
    block.rule = rule;
    block.first_unit = p.first_unit;
    block.delta = p.delta.view();
    block.transposed_delta = p.transposed.view();
    block.cost = cost.data();
    block.bias_gradient = gradient.view();
    block.bias_scale = kBiasScale;
    block.target.sparse = {
        row_begin.data(),      column.data(), value.data(), p.x.rows, p.first_unit + p.w.rows + 20,
        Index(p.column.size())};
    block.target.weight = weight.view();
    if (!p.entry_weight.empty()) block.target.entry_weight = entry_weight.data();
    EXPECT_TRUE(kernels_->output_delta(block));
    kernels_->add_totals();
    double sum = 0;
    cost.read(&sum, 1);
    p.gradient.resize(std::size_t(p.w.rows));
    gradient.read(p.gradient.data(), gradient.size());
    p.delta.fetch();
    p.transposed.fetch();
    return sum;
  }
  /// What stored targets of one row have, NaN where there is none.
  static std::vector<float> stored_of(const Problem& p, const std::vector<float>& of_entries,
                                      Index row) {
    std::vector<float> stored(std::size_t(p.w.rows), kNan);
    for (RowOffset i = p.row_begin[std::size_t(row)]; i < p.row_begin[std::size_t(row) + 1]; ++i) {
      const Index unit = Index(p.column[std::size_t(i)]) - p.first_unit;
      if (unit >= 0 && unit < p.w.rows) stored[std::size_t(unit)] = of_entries[std::size_t(i)];
    }
    return stored;
  }
  template <class F, class L>
  void expect_deltas(const F& f, const L& loss, float boost_one, float boost_zero, Problem& p,
                     double cost) {
    double expected_cost = 0;
    for (Index b = 0; b < p.x.rows; ++b) {
      const std::vector<float> stored = stored_of(p, p.value, b);
      const std::vector<float> weights =
          p.entry_weight.empty() ? std::vector<float>() : stored_of(p, p.entry_weight, b);
      for (Index u = 0; u < p.w.rows; ++u) {
        double z = p.bias[std::size_t(u)];
        for (Index k = 0; k < p.x.cols; ++k) z += double(p.x(b, k)) * double(p.w(u, k));
        const float value = stored[std::size_t(u)];
        const bool is_stored = !std::isnan(value);
        const double target = is_stored ? double(loss.stored_target(value)) : 0.0;
        const ElementCost<double> e = element_cost(f, loss, z, target);
        const double weight = double(p.weight[std::size_t(b)]) *
                              (is_stored && !weights.empty() ? weights[std::size_t(u)] : 1.0);
        const double share = weight * (is_stored ? boost_one : boost_zero);
        const double delta = share * e.delta;
        expected_cost += weight * e.cost;
        // A target is subtracted, which may leave little.
        const double subtracted = share * (std::abs(z) + std::abs(target));
        ASSERT_NEAR(p.delta(b, u), delta, 1e-5 * std::abs(delta) + 1e-6 * subtracted + 4e-6)
            << L::name << " at " << b << ", " << u << ", z " << z << (is_stored ? " stored" : "");
      }
    }
    EXPECT_NEAR(cost, expected_cost, 3e-6 * expected_cost);
    expect_transposed(p);
  }
  /// What follows from the deltas: the same transposed, and the biases' gradient.
  static void expect_transposed(Problem& p) {
    for (Index u = 0; u < p.w.rows; ++u) {
      double sum = 0;
      double magnitude = 0;
      for (Index b = 0; b < p.transposed.cols; ++b) {
        const float delta = b < p.x.rows ? p.delta(b, u) : 0.0f;
        ASSERT_EQ(p.transposed(u, b), delta) << b << ", " << u;
        sum += double(delta);
        magnitude += std::abs(double(delta));
      }
      ASSERT_NEAR(p.gradient[std::size_t(u)], kBiasScale * sum, 4e-6 * kBiasScale * magnitude)
          << "unit " << u;
    }
    EXPECT_TRUE(p.delta.padding_is_intact() && p.transposed.padding_is_intact());
  }

  cuda::DeviceMemory memory_{nullptr, true};
  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  std::unique_ptr<FusedKernels> kernels_;
};

TEST_F(FusedFloatTest, DeltasAndCostsAreThoseOfTheUnits) {
  const std::vector<std::pair<Activation, Loss>> pairs = {
      {Sigmoid{}, CrossEntropy{}},
      // Margins lie where no random unit is likely to be so near that rounding decides.
      {Sigmoid{}, ScaledMarginalCrossEntropy{1.0f, 0.0f, 1.0f, 1.0f}},
      {Sigmoid{}, ScaledMarginalCrossEntropy{0.9999f, 1e-5f, 2.0f, 0.5f}},
      {Sigmoid{}, DataScaledMarginalCrossEntropy{0.9999f, 1e-5f, 2.0f, 0.5f}},
      {Sigmoid{}, SquaredError{}},
      {Linear{}, SquaredError{}}};
  for (const auto& [activation, loss] : pairs)
    for (const Shape& shape : {Shape{64, 64, 64}, Shape{135, 329, 70}, Shape{302, 263, 257}}) {
      Problem p = draw(shape, 20);
      const double cost = run({activation, loss, 1.25f, 0.75f}, p);
      std::visit([&](const auto& f, const auto& l) { expect_deltas(f, l, 1.25f, 0.75f, p, cost); },
                 activation, loss);
    }
}

TEST_F(FusedFloatTest, StoredTargetsMayHaveWeights) {
  const std::vector<std::pair<Activation, Loss>> pairs = {
      {Sigmoid{}, CrossEntropy{}},
      {Sigmoid{}, ScaledMarginalCrossEntropy{0.9999f, 1e-5f, 2.0f, 0.5f}},
      {Sigmoid{}, SquaredError{}},
      {Linear{}, SquaredError{}}};
  for (const auto& [activation, loss] : pairs)
    for (const int stored : {20, 200}) {
      Problem p = draw({135, 329, 70}, stored);
      weigh_entries(p);
      const double cost = run({activation, loss, 1.25f, 0.75f}, p);
      std::visit([&](const auto& f, const auto& l) { expect_deltas(f, l, 1.25f, 0.75f, p, cost); },
                 activation, loss);
    }
}

TEST_F(FusedFloatTest, TilesMayBeFullOfStoredTargets) {
  for (const int stored : {0, 6, 400}) {
    Problem p = draw({264, 264, 64}, stored);
    const double cost = run({Sigmoid{}, CrossEntropy{}, 1.0f, 1.0f}, p);
    expect_deltas(Sigmoid{}, CrossEntropy{}, 1.0f, 1.0f, p, cost);
  }
}

TEST_F(FusedFloatTest, RunsHaveTheSameBits) {
  const UnitCost rule{Sigmoid{}, ScaledMarginalCrossEntropy{}, 1.0f, 1.0f};
  Problem p = draw({1030, 8198, 256}, 100);
  const double cost = run(rule, p);
  const std::vector<float> delta = p.delta.host;
  const std::vector<float> gradient = p.gradient;
  expect_transposed(p);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(run(rule, p), cost);
    EXPECT_EQ(p.gradient, gradient);
    EXPECT_EQ(std::memcmp(delta.data(), p.delta.host.data(), delta.size() * sizeof(float)), 0);
    expect_transposed(p);
  }
}

TEST_F(FusedFloatTest, UnalignedRowsAreLeftAlone) {
  Problem p = draw({128, 128, 65}, 3);
  OutputBlock block;
  block.x = p.x.view().columns(1, 64);
  block.w = p.w.view().columns(1, 64);
  block.rule = UnitCost{Sigmoid{}, CrossEntropy{}, 1.0f, 1.0f};
  block.delta = p.delta.view();
  block.transposed_delta = p.transposed.view();
  EXPECT_FALSE(kernels_->output_delta(block));
}

}  // namespace
}  // namespace norn
