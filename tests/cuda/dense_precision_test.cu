// SPDX-License-Identifier: Apache-2.0
// Dense products in tf32 and bfloat16 against float64 sums. Operands have few bits, so that their
// terms are exact; widths leave edges that are no whole runs of 16 bytes; padding is NaN.
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/dense.h"
#include "kernels/pointwise.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

struct Shape {
  Index examples;
  Index units;
  Index width;
};

/// Too large for a float64 sum of every element: the last rows and columns, and some others.
std::vector<Index> looked_at(Index size) {
  std::vector<Index> places;
  for (Index i = 0; i < size; i += 1 + size / 11) places.push_back(i);
  for (Index i = std::max<Index>(0, size - 9); i < size; ++i) places.push_back(i);
  return places;
}

class DensePrecisionTest : public ::testing::TestWithParam<Precision> {
 protected:
  struct Matrix {
    Index rows, cols, stride;
    std::vector<float> host;
    Buffer<float> gpu;
    float& operator()(Index r, Index c) { return host[std::size_t(r * stride + c)]; }
    MatrixView<float> view() { return {gpu.data(), rows, cols, stride}; }
    void fetch() { gpu.read(host.data(), gpu.size()); }
  };
  /// Rows begin at multiples of 16 bytes.
  Matrix make(Index rows, Index cols) {
    const Index stride = (cols + 3) / 4 * 4 + 4;
    Matrix m{rows, cols, stride, {}, Buffer<float>(rows * stride, memory_)};
    m.host.assign(std::size_t(rows * stride), std::numeric_limits<float>::quiet_NaN());
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = Bfloat16::rounded(normal_(random_)).value();
    m.gpu.write(m.host.data(), m.gpu.size());
    return m;
  }
  /// Expects result(r, c) = start(r, c) + scale * sum over k of term(r, k, c).
  template <typename Term>
  static void expect_product(Matrix& result, const std::vector<float>& before, Index terms,
                             double scale, double keep, const Term& term) {
    result.fetch();
    for (Index r : looked_at(result.rows))
      for (Index c : looked_at(result.cols)) {
        double sum = keep == 0.0 ? 0.0 : double(before[std::size_t(r * result.stride + c)]);
        double magnitude = std::abs(sum) + 1e-30;
        for (Index k = 0; k < terms; ++k) {
          const double one = scale * term(r, k, c);
          sum += one;
          magnitude += std::abs(one);
        }
        ASSERT_NEAR(double(result(r, c)), sum, 3e-6 * magnitude) << r << ", " << c;
      }
    for (Index r = 0; r < result.rows; ++r)
      for (Index c = result.cols; c < result.stride; ++c) ASSERT_TRUE(std::isnan(result(r, c)));
  }
  /// Bf16 copy of a matrix, on the GPU: zeros behind its rows and columns, NaN behind those.
  Buffer<Bfloat16> with_zeros(Matrix& m, Index zero_rows, Index zero_cols, Index stride) {
    std::vector<Bfloat16> host(std::size_t((m.rows + zero_rows) * stride), Bfloat16{0x7FC1});
    for (Index r = 0; r < m.rows + zero_rows; ++r)
      for (Index c = 0; c < m.cols + zero_cols; ++c)
        host[std::size_t(r * stride + c)] =
            r < m.rows && c < m.cols ? Bfloat16::rounded(m(r, c)) : Bfloat16{};
    Buffer<Bfloat16> gpu(Index(host.size()), memory_);
    gpu.write(host.data(), gpu.size());
    return gpu;
  }
  std::unique_ptr<DenseKernels> kernels() {
    return cuda::make_dense({nullptr, memory_, GetParam(), 132});
  }

  cuda::DeviceMemory memory_{nullptr, true};
  std::mt19937 random_{std::random_device{}()};
  std::normal_distribution<float> normal_{0.0f, 1.0f};
};

TEST_P(DensePrecisionTest, EdgesThatAreNoWholeRunsAreProductsToo) {
  const auto dense = kernels();
  for (const Shape& shape :
       {Shape{512, 1022, 512}, Shape{515, 1024, 513}, Shape{700, 1541, 1030}, Shape{40, 60, 50},
        Shape{52, 6443, 128}, Shape{52, 3115, 128}, Shape{100, 3115, 64}}) {
    const auto& [b, m, n] = shape;
    SCOPED_TRACE(m);
    Matrix x = make(b, n), w = make(m, n), delta = make(b, m);
    Matrix z = make(b, m), dx = make(b, n), g = make(m, n), bias = make(1, m);
    dense->affine(x.view(), w.view(), {bias.gpu.data(), m}, z.view());
    std::vector<float> before(std::size_t(b * z.stride));
    for (Index i = 0; i < Index(before.size()); ++i)
      before[std::size_t(i)] = bias.host[std::size_t(i % z.stride)];
    const auto forward = [&](Index r, Index k, Index c) {
      return double(x(r, k)) * double(w(c, k));
    };
    expect_product(z, before, n, 1.0, 1.0, forward);
    before = z.host;
    dense->multiply_transposed(x.view(), w.view(), z.view(), Existing::add);
    expect_product(z, before, n, 1.0, 1.0, forward);
    dense->multiply(delta.view(), w.view(), dx.view());
    expect_product(dx, {}, m, 1.0, 0.0, [&](Index r, Index k, Index c) {
      return double(delta(r, k)) * double(w(k, c));
    });
    const auto gradient = [&](Index r, Index k, Index c) {
      return double(delta(k, r)) * double(x(k, c));
    };
    before = g.host;
    dense->gradient(delta.view(), x.view(), 0.25f, g.view(), Existing::add);
    expect_product(g, before, b, 0.25, 1.0, gradient);
    const std::vector<float> one = g.host;
    Matrix transposed = make(n, (b + 3) / 4 * 4);
    dense->transpose(x.view(), transposed.view());
    DenseOperand both(x.view());
    both.transposed = transposed.view();
    g.gpu.write(before.data(), g.gpu.size());
    dense->gradient(delta.view(), both, 0.25f, g.view(), Existing::add);
    g.fetch();
    EXPECT_EQ(std::memcmp(one.data(), g.host.data(), one.size() * sizeof(float)), 0);
  }
}

TEST_P(DensePrecisionTest, ZerosBehindOperandsMayBeTakenAlong) {
  const auto dense = kernels();
  const Index b = 515, m = 1021, n = 520, delta_stride = 1032, w_stride = 528;
  Matrix delta = make(b, m), w = make(m, n), dx = make(b, n);
  const Buffer<Bfloat16> delta_copy = with_zeros(delta, 0, 3, delta_stride);
  const Buffer<Bfloat16> w_copy = with_zeros(w, 3, 0, w_stride);
  for (const bool told : {true, false}) {
    DenseOperand left(delta.view(), {delta_copy.data(), b, m, delta_stride});
    DenseOperand right(w.view(), {w_copy.data(), m, n, w_stride});
    left.zero_cols = right.zero_rows = told ? 3 : 0;
    dense->multiply(left, right, dx.view());
    expect_product(dx, {}, m, 1.0, 0.0, [&](Index r, Index k, Index c) {
      return double(delta(r, k)) * double(w(k, c));
    });
    dense->multiply(left.columns(0, 1000), right.row_range(0, 1000), dx.view());
    expect_product(dx, {}, 1000, 1.0, 0.0, [&](Index r, Index k, Index c) {
      return double(delta(r, k)) * double(w(k, c));
    });
  }
}

/// Blocks of a layer, some of which a rank owns: weights and deltas are its own, pre-activations
/// and parts of the source's delta have the places that they have for all.
class DenseBlocksTest : public DensePrecisionTest {
 protected:
  struct Layer {
    Index block, blocks;
    Matrix x, w, delta, bias;
  };
  struct Results {
    Matrix z, sum, g;
    std::vector<float> dx;
  };
  /// Columns or rows [first, first + count) by themselves; columns in rows of whole 16 bytes.
  Matrix cut(Matrix& from, Index first_row, Index rows, Index first_col, Index cols) {
    Matrix m{rows, cols, (cols + 7) / 8 * 8, {}, {}};
    m.host.resize(std::size_t(rows * m.stride));
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = from(first_row + r, first_col + c);
    m.gpu = Buffer<float>(rows * m.stride, memory_);
    m.gpu.write(m.host.data(), m.gpu.size());
    return m;
  }
  struct Operand {
    Operand(Matrix& m, PointwiseKernels& pointwise, bool rounds, Memory& memory)
        : bf16(rounds ? m.rows * m.stride : 0, memory), view(m.view()) {
      if (!rounds) return;
      const MatrixView<Bfloat16> to{bf16.data(), m.rows, m.cols, m.stride};
      pointwise.cast_to_bf16(m.view(), to);
      view.bf16 = to;
    }
    Buffer<Bfloat16> bf16;
    DenseOperand view;
  };
  /// `runs`: how many blocks each rank owns.
  Results run(DenseKernels& dense, Layer& layer, const std::vector<Index>& runs) {
    const Index batch = layer.x.rows, m = layer.w.rows, n = layer.w.cols;
    const bool rounds = GetParam() == Precision::bf16;
    Results results{make(batch, m), make(batch, m), make(m, n), {}};
    const Index distance = batch * ((n + 3) / 4 * 4);
    Buffer<float> dx(layer.blocks * distance, memory_);
    const Operand x(layer.x, *pointwise_, rounds, memory_);
    Index block = 0;
    for (const Index owned : runs) {
      const Index first = block * layer.block;
      const Index units = std::min(owned * layer.block, m - first);
      Matrix own_w = cut(layer.w, first, units, 0, n);
      Matrix own_delta = cut(layer.delta, 0, batch, first, units);
      const Operand w(own_w, *pointwise_, rounds, memory_);
      const Operand delta(own_delta, *pointwise_, rounds, memory_);
      const MatrixView<float> z = results.z.view().columns(first, units);
      dense.affine(x.view, w.view, {layer.bias.gpu.data() + first, units}, z, layer.block);
      const MatrixView<float> sum = results.sum.view().columns(first, units);
      pointwise_->copy(z, sum);
      dense.multiply_transposed(x.view, w.view, sum, Existing::add, layer.block);
      std::vector<MatrixView<float>> parts;
      for (Index i = 0; i < owned; ++i)
        parts.push_back({dx.data() + block++ * distance, batch, n, (n + 3) / 4 * 4});
      dense.multiply_each(delta.view, w.view, layer.block, parts);
      dense.gradient(delta.view, x.view, 0.5f, results.g.view().row_range(first, units),
                     Existing::overwrite, layer.block);
      cuda::check(cudaDeviceSynchronize(), "products of blocks");
    }
    for (Matrix* result : {&results.z, &results.sum, &results.g}) result->fetch();
    results.dx.resize(std::size_t(dx.size()));
    dx.read(results.dx.data(), dx.size());
    return results;
  }
  static bool same_bits(Matrix& a, Matrix& b) {
    for (Index r = 0; r < a.rows; ++r)
      if (std::memcmp(&a(r, 0), &b(r, 0), std::size_t(a.cols) * sizeof(float)) != 0) return false;
    return true;
  }
  /// The parts of dx have no padding where n is a multiple of 4.
  static void expect_same_bits(Results& a, Results& b, const std::string& what) {
    EXPECT_TRUE(same_bits(a.z, b.z)) << what;
    EXPECT_TRUE(same_bits(a.sum, b.sum)) << what;
    EXPECT_TRUE(same_bits(a.g, b.g)) << what;
    EXPECT_EQ(std::memcmp(a.dx.data(), b.dx.data(), a.dx.size() * sizeof(float)), 0) << what;
  }
  const std::unique_ptr<PointwiseKernels> pointwise_ =
      cuda::make_pointwise({nullptr, memory_, GetParam(), 132});
};

TEST_P(DenseBlocksTest, HaveTheSameBitsWhateverOthersAreInTheCall) {
  const auto dense = kernels();
  struct Case {
    Index examples, units, width, block;
  };
  for (const Case& c :
       {Case{1024, 1536, 1536, 384}, Case{1024, 1024, 512, 256}, Case{512, 256, 1024, 64},
        Case{300, 1000, 260, 256}, Case{256, 257, 1000, 96}, Case{100, 256, 64, 64},
        Case{64, 384, 2048, 96}, Case{2048, 512, 128, 128}, Case{512, 128, 1000, 32},
        Case{300, 100, 516, 32}}) {
    SCOPED_TRACE(c.units);
    Layer layer{c.block,
                (c.units + c.block - 1) / c.block,
                make(c.examples, c.width),
                make(c.units, c.width),
                make(c.examples, c.units),
                make(1, c.units)};
    Results alone = run(*dense, layer, std::vector<Index>(std::size_t(layer.blocks), 1));
    if (layer.blocks == 4)
      for (const std::vector<Index>& runs : {std::vector<Index>{4}, {2, 2}, {3, 1}, {1, 3}}) {
        Results results = run(*dense, layer, runs);
        expect_same_bits(alone, results, std::to_string(runs[0]) + " first");
      }
    Results whole = run(*dense, layer, {layer.blocks});
    expect_same_bits(alone, whole, "all");
    expect_product(whole.z, std::vector<float>(whole.z.host.size(), 0.0f), c.width, 1.0, 0.0,
                   [&](Index r, Index k, Index col) {
                     return double(layer.x(r, k)) * double(layer.w(col, k)) +
                            (k == 0 ? double(layer.bias(0, col)) : 0.0);
                   });
    expect_product(whole.g, {}, c.examples, 0.5, 0.0, [&](Index r, Index k, Index col) {
      return double(layer.delta(k, r)) * double(layer.x(k, col));
    });
  }
}

std::string precision_name(const testing::TestParamInfo<Precision>& info) {
  return std::string(name_of(info.param));
}

INSTANTIATE_TEST_SUITE_P(Precisions, DensePrecisionTest,
                         testing::Values(Precision::tf32, Precision::bf16), precision_name);
INSTANTIATE_TEST_SUITE_P(Precisions, DenseBlocksTest,
                         testing::Values(Precision::fp32, Precision::tf32, Precision::bf16),
                         precision_name);

}  // namespace
}  // namespace norn
