// SPDX-License-Identifier: Apache-2.0
// Dense products against float64 loops, at the edges of tiles and vectors.

#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace norn {
namespace {

using samples::PaddedMatrix;

/// Float32 sums of a thousand terms: error relative to the sum of the terms' magnitudes.
constexpr double kTolerance = 2e-6;

class DenseTest : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random_matrix(Index rows, Index cols) {
    PaddedMatrix<float> m(rows, cols);
    samples::fill_normal(m.view(), random_);
    return m;
  }
};

/// Expects result(r, c) = start(r, c) + scale * sum over k of a(r, k) * b(k, c).
template <typename A, typename B, typename Start>
void expect_product(MatrixView<float> result, Index terms, double scale, const A& a, const B& b,
                    const Start& start) {
  double worst = 0.0;
  for (Index r = 0; r < result.rows; ++r)
    for (Index c = 0; c < result.cols; ++c) {
      double sum = start(r, c), magnitude = std::abs(sum) + 1e-30;
      for (Index k = 0; k < terms; ++k) {
        const double term = scale * double(a(r, k)) * double(b(k, c));
        sum += term;
        magnitude += std::abs(term);
      }
      const double error = std::abs(double(result(r, c)) - sum) / magnitude;
      if (!(error <= worst)) worst = error;  // NaN stays
    }
  EXPECT_LE(worst, kTolerance);
}

constexpr auto kZero = [](Index, Index) { return 0.0; };

/// Batch, destination units, source units.
std::vector<std::array<Index, 3>> shapes() {
  return {{0, 5, 7},      {5, 0, 7},       {5, 7, 0},      {1, 1, 1},      {1, 129, 33},
          {31, 32, 33},   {32, 31, 1},     {33, 1, 32},    {127, 128, 31}, {128, 127, 129},
          {129, 33, 128}, {257, 513, 127}, {1, 1000, 128}, {256, 512, 64}, {300, 40, 1000}};
}

TEST_F(DenseTest, ProductsAgreeWithFloat64) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const auto& [batch, m, n] : shapes()) {
    SCOPED_TRACE(fmt::format("B {} M {} N {}", batch, m, n));
    auto x = random_matrix(batch, n), w = random_matrix(m, n), delta = random_matrix(batch, m);
    PaddedMatrix<float> z(batch, m), dx(batch, n), g(m, n);
    kernels->multiply_transposed(x.view(), w.view(), z.view(), Existing::overwrite);
    expect_product(
        z.view(), n, 1.0, [&](Index r, Index k) { return x(r, k); },
        [&](Index k, Index c) { return w(c, k); }, kZero);
    auto bias = random_matrix(1, m);
    kernels->affine(x.view(), w.view(), {bias.view().row(0), m}, z.view());
    expect_product(
        z.view(), n, 1.0, [&](Index r, Index k) { return x(r, k); },
        [&](Index k, Index c) { return w(c, k); },
        [&](Index, Index c) { return double(bias(0, c)); });
    kernels->multiply(delta.view(), w.view(), dx.view());
    expect_product(
        dx.view(), m, 1.0, [&](Index r, Index k) { return delta(r, k); },
        [&](Index k, Index c) { return w(k, c); }, kZero);
    kernels->gradient(delta.view(), x.view(), 0.25f, g.view());
    expect_product(
        g.view(), batch, 0.25, [&](Index r, Index k) { return delta(k, r); },
        [&](Index k, Index c) { return x(k, c); }, kZero);
    const PaddedMatrix<float> before = g;
    kernels->gradient(delta.view(), x.view(), -0.5f, g.view(), Existing::add);
    PaddedMatrix<float> start = before;
    expect_product(
        g.view(), batch, -0.5, [&](Index r, Index k) { return delta(k, r); },
        [&](Index k, Index c) { return x(k, c); },
        [&](Index r, Index c) { return double(start(r, c)); });
    EXPECT_TRUE(z.padding_is_intact() && dx.padding_is_intact() && g.padding_is_intact());
  }
}

TEST_F(DenseTest, AddKeepsWhatTheResultHeld) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const auto& [batch, m, n] : shapes()) {
    SCOPED_TRACE(fmt::format("B {} M {} N {}", batch, m, n));
    auto x = random_matrix(batch, n), w = random_matrix(m, n), z = random_matrix(batch, m);
    PaddedMatrix<float> before = z;
    kernels->multiply_transposed(x.view(), w.view(), z.view(), Existing::add);
    expect_product(
        z.view(), n, 1.0, [&](Index r, Index k) { return x(r, k); },
        [&](Index k, Index c) { return w(c, k); },
        [&](Index r, Index c) { return double(before(r, c)); });
    EXPECT_TRUE(z.padding_is_intact());
  }
}

/// Batch, destination units, source units, units of a block.
std::vector<std::array<Index, 4>> block_shapes() {
  return {{7, 5, 3, 8},      {7, 40, 33, 8},   {1, 12, 1, 3},      {33, 257, 64, 96},
          {0, 10, 4, 5},     {5, 10, 0, 5},    {64, 256, 128, 64}, {300, 1000, 40, 256},
          {128, 70, 96, 10}, {16, 600, 9, 576}};
}

TEST_F(DenseTest, ProductsOfBlocksAgreeWithFloat64) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const auto& shape : block_shapes()) {
    const Index batch = shape[0], m = shape[1], n = shape[2], block = shape[3];
    SCOPED_TRACE(fmt::format("B {} M {} N {} in blocks of {}", batch, m, n, block));
    auto x = random_matrix(batch, n), w = random_matrix(m, n), delta = random_matrix(batch, m);
    auto bias = random_matrix(1, m), z = random_matrix(batch, m), g = random_matrix(m, n);
    const auto forward = [&](const auto& start) {
      expect_product(
          z.view(), n, 1.0, [&](Index r, Index k) { return x(r, k); },
          [&](Index k, Index c) { return w(c, k); }, start);
    };
    PaddedMatrix<float> before = z;
    kernels->multiply_transposed(x.view(), w.view(), z.view(), Existing::add, block);
    forward([&](Index r, Index c) { return double(before(r, c)); });
    kernels->affine(x.view(), w.view(), {bias.view().row(0), m}, z.view(), block);
    forward([&](Index, Index c) { return double(bias(0, c)); });
    kernels->gradient(delta.view(), x.view(), 0.25f, g.view(), Existing::overwrite, block);
    expect_product(
        g.view(), batch, 0.25, [&](Index r, Index k) { return delta(k, r); },
        [&](Index k, Index c) { return x(k, c); }, kZero);
    EXPECT_TRUE(z.padding_is_intact() && g.padding_is_intact());
  }
}

TEST_F(DenseTest, EachBlockHasItsOwnPartOfTheSourcesDelta) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const auto& shape : block_shapes())
    for (const Index behind : {0, 3}) {  // rows between the parts
      const Index batch = shape[0], m = shape[1], n = shape[2], block = shape[3];
      SCOPED_TRACE(fmt::format("B {} M {} N {} in blocks of {}", batch, m, n, block));
      auto w = random_matrix(m, n), delta = random_matrix(batch, m);
      const Index blocks = (m + block - 1) / block;
      PaddedMatrix<float> all(blocks * (batch + behind), n);
      std::vector<MatrixView<float>> parts;
      for (Index b = 0; b < blocks; ++b)
        parts.push_back(all.view().row_range(b * (batch + behind), batch));
      kernels->multiply_each(delta.view(), w.view(), block, parts);
      for (Index b = 0; b < blocks; ++b)
        expect_product(
            parts[std::size_t(b)], std::min(block, m - b * block), 1.0,
            [&](Index r, Index k) { return delta(r, b * block + k); },
            [&](Index k, Index c) { return w(b * block + k, c); }, kZero);
      EXPECT_TRUE(all.padding_is_intact());
    }
}

TEST_F(DenseTest, ABlockHasTheSameBitsWhateverOthersAreInTheCall) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const auto& shape : std::vector<std::array<Index, 4>>{
           {64, 256, 256, 64}, {300, 1000, 128, 256}, {96, 257, 40, 96}, {512, 512, 100, 128}}) {
    const Index batch = shape[0], m = shape[1], n = shape[2], block = shape[3];
    SCOPED_TRACE(fmt::format("B {} M {} N {} in blocks of {}", batch, m, n, block));
    auto x = random_matrix(batch, n), w = random_matrix(m, n), delta = random_matrix(batch, m);
    const Index blocks = (m + block - 1) / block;
    const auto run = [&](Index at_once) {
      PaddedMatrix<float> z(batch, m), dx(blocks * batch, n), g(m, n);
      for (Index b = 0; b < blocks; b += at_once) {
        const Index first = b * block, units = std::min(at_once * block, m - first);
        const MatrixView<float> own = MatrixView<float>(w.view()).row_range(first, units);
        const MatrixView<float> deltas = MatrixView<float>(delta.view()).columns(first, units);
        std::vector<MatrixView<float>> parts;
        for (Index p = b; p < std::min(b + at_once, blocks); ++p)
          parts.push_back(dx.view().row_range(p * batch, batch));
        kernels->multiply_transposed(x.view(), own, z.view().columns(first, units),
                                     Existing::overwrite, block);
        kernels->multiply_each(deltas, own, block, parts);
        kernels->gradient(deltas, x.view(), 0.5f, g.view().row_range(first, units),
                          Existing::overwrite, block);
      }
      std::vector<std::uint32_t> bits = samples::bits_of(z.view());
      samples::append(bits, samples::bits_of(dx.view()));
      samples::append(bits, samples::bits_of(g.view()));
      return bits;
    };
    const auto alone = run(1);
    for (const Index at_once : {2, 3, 4}) EXPECT_TRUE(alone == run(at_once)) << at_once;
  }
}

TEST_F(DenseTest, TransposesMatricesWithZerosBehind) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const auto& [rows, cols] : std::vector<std::pair<Index, Index>>{
           {0, 3}, {3, 0}, {1, 1}, {1, 200}, {31, 33}, {64, 64}, {129, 97}})
    for (const Index behind : {0, 1, 40}) {
      SCOPED_TRACE(fmt::format("[{} x {}] and {}", rows, cols, behind));
      auto x = random_matrix(rows, cols);
      PaddedMatrix<float> transposed(cols, rows + behind);
      kernels->transpose(x.view(), transposed.view());
      for (Index c = 0; c < cols; ++c)
        for (Index r = 0; r < rows + behind; ++r)
          ASSERT_EQ(transposed(c, r), r < rows ? x(r, c) : 0.0f);
      EXPECT_TRUE(transposed.padding_is_intact());
    }
}

TEST_F(DenseTest, BitsDoNotDependOnLanes) {
  auto x = random_matrix(300, 70), w = random_matrix(700, 70), delta = random_matrix(300, 700);
  samples::expect_same_bits_however_run([&](Executor& executor) {
    const auto kernels = samples::make_dense(executor);
    PaddedMatrix<float> z(300, 700), dx(300, 70), g(700, 70);
    kernels->multiply_transposed(x.view(), w.view(), z.view(), Existing::overwrite);
    kernels->multiply(delta.view(), w.view(), dx.view());
    kernels->gradient(delta.view(), x.view(), 1.0f / 300, g.view());
    std::vector<std::uint32_t> bits = samples::bits_of(z.view());
    samples::append(bits, samples::bits_of(dx.view()));
    samples::append(bits, samples::bits_of(g.view()));
    return bits;
  });
}

TEST_F(DenseTest, ProductsOfColumnBlocksAreThoseOfTheWhole) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const Index batch : {32, 256, 300}) {
    SCOPED_TRACE(batch);
    auto x = random_matrix(batch, 130), w = random_matrix(1300, 130);
    PaddedMatrix<float> whole(batch, 1300), parts(batch, 1300);
    kernels->multiply_transposed(x.view(), w.view(), whole.view(), Existing::overwrite);
    for (const auto& [first, count] :
         std::vector<std::pair<Index, Index>>{{0, 512}, {512, 512}, {1024, 276}})
      kernels->multiply_transposed(x.view(), MatrixView<float>(w.view()).row_range(first, count),
                                   parts.view().columns(first, count), Existing::overwrite);
    EXPECT_TRUE(whole.same_bits(parts));
  }
}

TEST_F(DenseTest, ShapesThatDoNotFitAreRefused) {
  Executor executor(1);
  const auto kernels = samples::make_dense(executor);
  PaddedMatrix<float> a(3, 4), b(5, 4), c(3, 5), wrong(3, 6);
  EXPECT_THROW(kernels->multiply_transposed(a.view(), b.view(), wrong.view(), Existing::overwrite),
               ShapeError);
  EXPECT_THROW(kernels->multiply(c.view(), b.view(), wrong.view()), ShapeError);
  EXPECT_THROW(kernels->gradient(c.view(), a.view(), 1.0f, wrong.view()), ShapeError);
  EXPECT_THROW(kernels->transpose(a.view(), c.view()), ShapeError);
  PaddedMatrix<float> parts(9, 4);
  const auto part = [&](Index row) { return parts.view().row_range(row, 3); };
  for (const std::vector<MatrixView<float>>& dx : {std::vector<MatrixView<float>>{part(0), part(3)},
                                                   {part(0), part(3), wrong.view()},
                                                   {part(0), part(3), part(5)}})
    EXPECT_THROW(kernels->multiply_each(c.view(), b.view(), 2, dx), ShapeError);
  EXPECT_THROW(kernels->gradient(c.view(), a.view(), 1.0f, b.view(), Existing::overwrite, -1),
               ShapeError);
  try {
    kernels->multiply(c.view(), b.view(), wrong.view());
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("[3 x 6]"), std::string::npos) << error.what();
  }
}

TEST(DenseDescription, NamesTheLibraryAndItsKernels) {
  const std::string text = describe_cpu_kernels();
  EXPECT_EQ(text.rfind("OpenBLAS ", 0), 0u) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 2) << text;
}

}  // namespace
}  // namespace norn
