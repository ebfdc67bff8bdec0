// SPDX-License-Identifier: Apache-2.0
// Products of sparse batches and their transposition against float64 loops and a stable sort.

#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace norn {
namespace {

using samples::PaddedMatrix;
using samples::SparseRows;

/// Float32 sums in stored order of up to a few thousand terms: error relative to the sum of the
/// terms' magnitudes.
constexpr double kTolerance = 1e-5;

/// Batch, source units, destination units, entries a row.
std::vector<std::array<Index, 4>> shapes() {
  return {{0, 9, 5, 3},       {1, 1, 1, 1},        {7, 31, 0, 4},       {32, 33, 31, 5},
          {31, 1000, 32, 20}, {33, 129, 33, 8},    {128, 5000, 127, 9}, {129, 300, 128, 30},
          {40, 777, 129, 11}, {20, 100, 1000, 10}, {12, 2500, 80, 6},   {900, 7, 260, 8}};
}

class SparseTest : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random_matrix(Index rows, Index cols) {
    PaddedMatrix<float> m(rows, cols);
    samples::fill_normal(m.view(), random_);
    return m;
  }
};

float value_at(const SparseRows& x, std::size_t i) {
  return x.value.empty() ? 1.0f : x.value[i];
}

/// The worst |actual - (start + sum)| / (|start| + sum of magnitudes).
struct Sums {
  Sums(Index rows, Index width)
      : cols(width), sum(std::size_t(rows * width)), magnitude(std::size_t(rows * width), 1e-30) {}
  void add(Index r, Index c, double term) {
    sum[std::size_t(r * cols + c)] += term;
    magnitude[std::size_t(r * cols + c)] += std::abs(term);
  }
  void expect_near(MatrixView<float> actual) const {
    double worst = 0.0;
    for (Index r = 0; r < actual.rows; ++r)
      for (Index c = 0; c < actual.cols; ++c) {
        const std::size_t i = std::size_t(r * cols + c);
        const double error = std::abs(double(actual(r, c)) - sum[i]) / magnitude[i];
        if (!(error <= worst)) worst = error;
      }
    EXPECT_LE(worst, kTolerance);
  }
  Index cols;
  std::vector<double> sum, magnitude;
};

TEST_F(SparseTest, MultiplyAgreesWithFloat64) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  for (const auto& [batch, n, m, density] : shapes())
    for (const bool values : {false, true}) {
      SCOPED_TRACE(fmt::format("B {} N {} M {} values {}", batch, n, m, values));
      const SparseRows x = samples::awkward_batch(batch, n, density, values, random_);
      auto w = random_matrix(n, m), z = random_matrix(batch, m);
      Sums expected(batch, m);
      for (Index r = 0; r < batch; ++r)
        for (Index c = 0; c < m; ++c) {
          expected.add(r, c, double(z(r, c)));
          for (RowOffset i = x.row_begin[std::size_t(r)]; i < x.row_begin[std::size_t(r) + 1]; ++i)
            expected.add(r, c,
                         double(value_at(x, std::size_t(i))) *
                             double(w(Index(x.column[std::size_t(i)]), c)));
        }
      kernels->multiply(x.view(), w.view(), z.view());
      expected.expect_near(z.view());
      EXPECT_TRUE(z.padding_is_intact());
    }
}

TEST_F(SparseTest, ProductWithListedRowsAgreesWithFloat64) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  for (const auto& [units, n, batch, density] : shapes())
    for (const bool values : {false, true})
      for (const Existing existing : {Existing::overwrite, Existing::add}) {
        SCOPED_TRACE(fmt::format("B {} N {} M {} values {}", batch, n, units, values));
        const SparseRows f = samples::awkward_batch(units, n, density, values, random_);
        auto x = random_matrix(batch, n), z = random_matrix(batch, units);
        Sums expected(batch, units);
        for (Index r = 0; r < batch; ++r)
          for (Index u = 0; u < units; ++u) {
            if (existing == Existing::add) expected.add(r, u, double(z(r, u)));
            for (RowOffset i = f.row_begin[std::size_t(u)]; i < f.row_begin[std::size_t(u) + 1];
                 ++i)
              expected.add(r, u,
                           double(value_at(f, std::size_t(i))) *
                               double(x(r, Index(f.column[std::size_t(i)]))));
          }
        kernels->multiply_by_rows(x.view(), f.view(), existing, z.view());
        expected.expect_near(z.view());
        EXPECT_TRUE(z.padding_is_intact());
      }
}

TEST_F(SparseTest, ProductWithListedRowsOfAnExampleDoesNotDependOnTheOthers) {
  Executor executor(3);
  const auto kernels = samples::make_sparse(executor);
  const Index batch = 1 + Index(random_() % 70), n = 1 + Index(random_() % 60);
  const SparseRows f = samples::awkward_batch(90, n, std::min<Index>(n, 7), true, random_);
  auto x = random_matrix(batch, n);
  PaddedMatrix<float> all(batch, 90), alone(1, 90);
  kernels->multiply_by_rows(x.view(), f.view(), Existing::overwrite, all.view());
  for (Index r = 0; r < batch; ++r) {
    kernels->multiply_by_rows(x.view().row_range(r, 1), f.view(), Existing::overwrite,
                              alone.view());
    for (Index u = 0; u < 90; ++u) ASSERT_EQ(all(r, u), alone(0, u));
  }
}

TEST_F(SparseTest, AffineHasTheBitsOfAProductThatStartsFromTheBias) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  for (const auto& [batch, n, m, density] : shapes())
    for (const Index offset : {0, 1}) {
      SCOPED_TRACE(fmt::format("B {} N {} M {} offset {}", batch, n, m, offset));
      const SparseRows x = samples::awkward_batch(batch, n, density, offset == 1, random_);
      auto w = random_matrix(n, m), bias = random_matrix(1, m + offset);
      auto z = random_matrix(batch, m), expected = random_matrix(batch, m);
      const VectorView<const float> start{bias.view().data + offset, m};
      for (Index r = 0; r < batch; ++r) std::copy_n(start.data, m, expected.view().row(r));
      kernels->multiply(x.view(), w.view(), expected.view());
      kernels->affine(x.view(), w.view(), start, z.view());
      EXPECT_TRUE(z.same_bits(expected));
      EXPECT_TRUE(z.padding_is_intact());
    }
}

TEST_F(SparseTest, MultiplyReadsABatchInTheMiddleOfADataSet) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  const SparseRows x = samples::awkward_batch(30, 50, 6, true, random_);
  auto w = random_matrix(50, 40);
  PaddedMatrix<float> whole(30, 40), part(10, 40);
  for (Index r = 0; r < 30; ++r) std::fill_n(whole.view().row(r), 40, 0.5f);
  for (Index r = 0; r < 10; ++r) std::fill_n(part.view().row(r), 40, 0.5f);
  kernels->multiply(x.view(), w.view(), whole.view());
  CsrView middle = x.view();
  middle.row_begin += 15;
  middle.rows = 10;
  kernels->multiply(middle, w.view(), part.view());
  for (Index r = 0; r < 10; ++r)
    for (Index c = 0; c < 40; ++c) ASSERT_EQ(part(r, c), whole(15 + r, c));
}

TEST_F(SparseTest, MultiplyOfColumnBlocksIsThatOfTheWhole) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  const SparseRows x = samples::awkward_batch(40, 200, 12, true, random_);
  auto w = random_matrix(200, 333), whole = random_matrix(40, 333);
  PaddedMatrix<float> parts = whole;
  kernels->multiply(x.view(), w.view(), whole.view());
  for (const auto& [first, count] :
       std::vector<std::pair<Index, Index>>{{0, 1}, {1, 63}, {64, 129}, {193, 140}})
    kernels->multiply(x.view(), w.view().columns(first, count), parts.view().columns(first, count));
  EXPECT_TRUE(whole.same_bits(parts));
}

void expect_transposed(const SparseRows& x, const TransposedBatch& xt) {
  struct Entry {
    Column unit;
    std::int32_t example;
    float value;
  };
  std::vector<Entry> entries;
  for (std::size_t r = 0; r + 1 < x.row_begin.size(); ++r)
    for (auto i = std::size_t(x.row_begin[r]); i < std::size_t(x.row_begin[r + 1]); ++i)
      entries.push_back({x.column[i], std::int32_t(r), value_at(x, i)});
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.unit < b.unit; });
  ASSERT_EQ(xt.has_values, !x.value.empty());
  ASSERT_EQ(xt.cols, x.cols);
  ASSERT_EQ(xt.begin.data()[0], 0);
  ASSERT_EQ(std::size_t(xt.begin.data()[xt.touched]), entries.size());
  for (Index t = 0; t < xt.touched; ++t) {
    ASSERT_LT(xt.begin.data()[t], xt.begin.data()[t + 1]);
    ASSERT_TRUE(t == 0 || xt.unit.data()[t - 1] < xt.unit.data()[t]);
    for (RowOffset i = xt.begin.data()[t]; i < xt.begin.data()[t + 1]; ++i) {
      const Entry& entry = entries[std::size_t(i)];
      ASSERT_EQ(xt.unit.data()[t], entry.unit);
      ASSERT_EQ(xt.example.data()[i], entry.example);
      ASSERT_EQ(xt.has_values ? xt.value.data()[i] : 1.0f, entry.value);
    }
  }
}

TEST_F(SparseTest, TransposeIsAStableSortByUnit) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  TransposedBatch xt;  // one for all: capacity is kept
  for (const auto& [batch, n, m, density] : shapes())
    for (const bool values : {true, false}) {
      SCOPED_TRACE(fmt::format("B {} N {} values {}", batch, n, values));
      const SparseRows x = samples::awkward_batch(batch, n, density, values, random_);
      kernels->transpose(x.view(), xt);
      expect_transposed(x, xt);
    }
}

TEST_F(SparseTest, TransposeTakesTheWidestAndTheLargestBatches) {
  samples::expect_same_bits_however_run([&](Executor& executor) {
    std::mt19937_64 random(seed_);
    const auto kernels = samples::make_sparse(executor);
    SparseRows x;
    x.cols = Index(1) << 32;
    for (int r = 0; r < 100; ++r) {
      for (int i = 0; i < 700; ++i) x.column.push_back(Column(random() >> (32 + random() % 20)));
      x.column.push_back(0xffffffffu);
      x.row_begin.push_back(RowOffset(x.column.size()));
    }
    TransposedBatch xt;
    kernels->transpose(x.view(), xt);
    expect_transposed(x, xt);
    return std::vector<std::int32_t>(xt.example.data(), xt.example.data() + x.column.size());
  });
}

TEST_F(SparseTest, GradientAgreesWithFloat64) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  for (const auto& [batch, n, m, density] : shapes())
    for (const bool values : {false, true}) {
      SCOPED_TRACE(fmt::format("B {} N {} M {} values {}", batch, n, m, values));
      const SparseRows x = samples::awkward_batch(batch, n, density, values, random_);
      auto delta = random_matrix(batch, m);
      Sums expected(n, m);
      for (Index r = 0; r < batch; ++r)
        for (RowOffset i = x.row_begin[std::size_t(r)]; i < x.row_begin[std::size_t(r) + 1]; ++i)
          for (Index c = 0; c < m; ++c)
            expected.add(Index(x.column[std::size_t(i)]), c,
                         0.125 * double(value_at(x, std::size_t(i))) * double(delta(r, c)));
      TransposedBatch xt;
      kernels->transpose(x.view(), xt);
      PaddedMatrix<float> g(n, m);
      kernels->gradient(xt, delta.view(), 0.125f, g.view());
      expected.expect_near(g.view());
      EXPECT_TRUE(g.padding_is_intact());
    }
}

// Column blocks that begin anywhere, and units that are popular enough to be summed in parts.
TEST_F(SparseTest, GradientOfColumnBlocksIsThatOfTheWhole) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  const SparseRows x = samples::awkward_batch(700, 40, 10, true, random_);
  auto delta = random_matrix(700, 333), whole = random_matrix(40, 333);
  PaddedMatrix<float> parts = whole;
  TransposedBatch xt;
  kernels->transpose(x.view(), xt);
  kernels->gradient(xt, delta.view(), 0.25f, whole.view());
  for (const auto& [first, count] :
       std::vector<std::pair<Index, Index>>{{0, 1}, {1, 63}, {64, 128}, {192, 141}})
    kernels->gradient(xt, delta.view().columns(first, count), 0.25f,
                      parts.view().columns(first, count));
  EXPECT_TRUE(whole.same_bits(parts));
}

// Bf16 deltas: a GPU's gradients are those of the bf16 values, the CPU's of the others.
TEST_F(SparseTest, GradientsOfBf16Deltas) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  constexpr Index kExamples = 300, kUnits = 50, kWidth = 208, kPadding = 4;
  const SparseRows x = samples::awkward_batch(kExamples, kUnits, 10, true, random_);
  PaddedMatrix<float> delta(kExamples, kWidth, kPadding), w(kUnits, kWidth, kPadding);
  samples::fill_normal(delta.view(), random_);
  samples::fill_normal(w.view(), random_);
  PaddedMatrix<Bfloat16> bf16(kExamples, kWidth, kPadding);
  PaddedMatrix<float> read = delta, expected = w, g = w, updated = w;
  for (Index r = 0; r < kExamples; ++r)
    for (Index c = 0; c < kWidth; ++c) {
      bf16(r, c) = Bfloat16::rounded(delta(r, c));
      if (!samples::sums_like_the_cpu()) read(r, c) = bf16(r, c).value();
    }
  TransposedBatch xt;
  kernels->transpose(x.view(), xt);
  kernels->gradient(xt, read.view(), 0.25f, expected.view());
  const DenseOperand operand(delta.view(), bf16.view());
  for (const auto& [first, count] :
       std::vector<std::pair<Index, Index>>{{0, 64}, {64, 1}, {65, 3}, {68, 140}})
    kernels->gradient(xt, operand.columns(first, count), 0.25f, g.view().columns(first, count));
  EXPECT_TRUE(g.same_bits(expected));

  for (Index r = 0; r < kUnits; ++r)
    for (Index c = 0; c < kWidth; ++c) w(r, c) -= 0.5f * expected(r, c);
  std::vector<std::int64_t> done(std::size_t(kUnits), 0);
  UpdateSchedule schedule;
  schedule.rate = 0.5f;
  kernels->update_rows(Sgd{}, schedule, 0, xt, operand, 0.25f,
                       {updated.view(), {}, samples::view_of(done)});
  EXPECT_TRUE(updated.same_bits(w));
}

TEST_F(SparseTest, BitsDoNotDependOnLanes) {
  const SparseRows x = samples::awkward_batch(130, 900, 40, true, random_);
  auto w = random_matrix(900, 150), z = random_matrix(130, 150), delta = random_matrix(130, 150);
  samples::expect_same_bits_however_run([&](Executor& executor) {
    const auto kernels = samples::make_sparse(executor);
    PaddedMatrix<float> sum = z, g(900, 150);
    kernels->multiply(x.view(), w.view(), sum.view());
    TransposedBatch xt;
    kernels->transpose(x.view(), xt);
    kernels->gradient(xt, delta.view(), 0.5f, g.view());
    std::vector<std::uint32_t> bits = samples::bits_of(sum.view());
    samples::append(bits, samples::bits_of(g.view()));
    return bits;
  });
}

TEST_F(SparseTest, ShapesThatDoNotFitAreRefused) {
  Executor executor(1);
  const auto kernels = samples::make_sparse(executor);
  const SparseRows x = samples::awkward_batch(6, 10, 2, false, random_);
  PaddedMatrix<float> w(9, 4), z(6, 4), g(11, 4);
  EXPECT_THROW(kernels->multiply(x.view(), w.view(), z.view()), ShapeError);
  EXPECT_THROW(kernels->affine(x.view(), g.view().row_range(0, 10), {w.view().data, 3}, z.view()),
               ShapeError);
  TransposedBatch xt;
  kernels->transpose(x.view(), xt);
  EXPECT_THROW(kernels->gradient(xt, z.view(), 1.0f, g.view()), ShapeError);
}

}  // namespace
}  // namespace norn
