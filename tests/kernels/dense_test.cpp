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

TEST_F(DenseTest, TurnsMatricesOverWithZerosBehind) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const auto& [rows, cols] : std::vector<std::pair<Index, Index>>{
           {0, 3}, {3, 0}, {1, 1}, {1, 200}, {31, 33}, {64, 64}, {129, 97}})
    for (const Index behind : {0, 1, 40}) {
      SCOPED_TRACE(fmt::format("[{} x {}] and {}", rows, cols, behind));
      auto x = random_matrix(rows, cols);
      PaddedMatrix<float> turned(cols, rows + behind);
      kernels->turn(x.view(), turned.view());
      for (Index c = 0; c < cols; ++c)
        for (Index r = 0; r < rows + behind; ++r)
          ASSERT_EQ(turned(c, r), r < rows ? x(r, c) : 0.0f);
      EXPECT_TRUE(turned.padding_is_intact());
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
  EXPECT_THROW(kernels->turn(a.view(), c.view()), ShapeError);
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
