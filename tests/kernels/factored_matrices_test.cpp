// SPDX-License-Identifier: Apache-2.0
// What factored output layers do with matrices of the batch and of the source's width, against
// float64 loops.

#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

#include <cmath>

namespace norn {
namespace {

using As = FactoredKernels::As;
using Operands = FactoredKernels::Operands;
using samples::PaddedMatrix;

constexpr double kDouble = 1e-13;  // what float64 loses of sums of a few hundred terms
constexpr double kSum = 2e-6;      // and float32

class FactoredMatrices : public samples::RandomTest {
 protected:
  PaddedMatrix<double> doubles(Index rows, Index cols) {
    PaddedMatrix<double> m(rows, cols);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = double(uniform(-1.0f, 1.0f)) * (1.0 + 1e-9);
    return m;
  }
  std::vector<float> weights(Index count) {
    std::vector<float> all;
    for (Index i = 0; i < count; ++i) all.push_back(below(5) == 0 ? 0.0f : uniform(0.01f, 3.0f));
    return all;
  }
  // 1 + root' root
  PaddedMatrix<double> positive(Index n) {
    PaddedMatrix<double> root = doubles(n + 3, n), a(n, n);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) {
        a(i, j) = i == j ? 1.0 : 0.0;
        for (Index k = 0; k < root.rows(); ++k) a(i, j) += root(k, i) * root(k, j);
      }
    return a;
  }
  template <typename Expected>
  static void expect_near(PaddedMatrix<double>& m, const Expected& expected, double allowed) {
    for (Index r = 0; r < m.rows(); ++r)
      for (Index c = 0; c < m.cols(); ++c) ASSERT_NEAR(m(r, c), expected(r, c), allowed);
    EXPECT_TRUE(m.padding_is_intact());
  }

  Executor executor_{2};
  std::unique_ptr<FactoredKernels> kernels_ = samples::make_factored(executor_);
};

// Of a matrix and another one, or itself.
TEST_F(FactoredMatrices, MultipliesMatricesAsTheyAreAndTransposed) {
  for (int round = 0; round < 60; ++round) {
    const bool by_itself = below(3) == 0;
    const As a_as = below(2) == 0 ? As::it_is : As::transposed;
    const As other = a_as == As::it_is ? As::transposed : As::it_is;
    const As b_as = by_itself ? other : below(2) == 0 ? As::it_is : As::transposed;
    const Index rows = 1 + below(300), cols = by_itself ? rows : 1 + below(300), depth = below(300);
    PaddedMatrix<double> a = a_as == As::it_is ? doubles(rows, depth) : doubles(depth, rows);
    PaddedMatrix<double> another = b_as == As::it_is ? doubles(depth, cols) : doubles(cols, depth);
    PaddedMatrix<double>& b = by_itself ? a : another;
    PaddedMatrix<double> c = doubles(rows, cols);
    PaddedMatrix<double> before = c;
    const Existing existing = below(2) == 0 ? Existing::add : Existing::overwrite;
    const Operands operands = below(2) == 0 ? Operands::float32 : Operands::float64;
    const double allowed = operands == Operands::float32 ? kSum : kDouble;
    kernels_->multiply(0.7, a.view(), a_as, b.view(), b_as, existing, c.view(), operands);
    for (Index r = 0; r < rows; ++r)
      for (Index q = 0; q < cols; ++q) {
        double sum = 0.0;
        for (Index k = 0; k < depth; ++k)
          sum += (a_as == As::it_is ? a(r, k) : a(k, r)) * (b_as == As::it_is ? b(k, q) : b(q, k));
        const double expected = 0.7 * sum + (existing == Existing::add ? before(r, q) : 0.0);
        ASSERT_NEAR(c(r, q), expected, allowed * double(depth) + kDouble);
      }
    EXPECT_TRUE(c.padding_is_intact());
  }
}

// float32 where what it rounds is far less than 1; a GPU has float64 throughout.
TEST_F(FactoredMatrices, TellsWhereFloat32Suffices) {
  for (int round = 0; round < 20; ++round) {
    const Index rows = 1 + below(90), cols = 1 + below(200);
    PaddedMatrix<double> h = doubles(rows, cols), c = positive(cols);
    double largest = 0.0, widest = 0.0;
    for (Index r = 0; r < rows; ++r) {
      double square = 0.0;
      for (Index j = 0; j < cols; ++j) square += h(r, j) * h(r, j);
      largest = std::max(largest, square);
    }
    for (Index r = 0; r < cols; ++r) {
      double size = 0.0;
      for (Index j = 0; j < cols; ++j) size += std::abs(c(r, j));
      widest = std::max(widest, size);
    }
    const double once = 64.0 / (largest * widest);
    const Operands little = samples::is_gpu() ? Operands::float64 : Operands::float32;
    EXPECT_EQ(kernels_->operands_of(once * double(uniform(0.0f, 0.999f)), h.view(), c.view()),
              little);
    EXPECT_EQ(kernels_->operands_of(once * double(uniform(1.001f, 1e9f)), h.view(), c.view()),
              Operands::float64);
  }
}

TEST_F(FactoredMatrices, SolvesWithTheFactorsOfSymmetricMatrices) {
  for (Index n : {Index(1), Index(31), Index(32), Index(33), Index(64), Index(65), Index(129),
                  Index(257), Index(289), Index(300), 1 + below(300)})
    for (int count : {1, 2}) {
      std::vector<PaddedMatrix<double>> a, x, b;
      for (int i = 0; i < count; ++i) {
        a.push_back(positive(n));
        x.push_back(doubles(n, 1 + below(100)));
        b.emplace_back(n, x[std::size_t(i)].cols());
        for (Index r = 0; r < n; ++r)
          for (Index c = 0; c < b.back().cols(); ++c) {
            b.back()(r, c) = 0.0;
            for (Index k = 0; k < n; ++k) b.back()(r, c) += a.back()(r, k) * x.back()(k, c);
          }
      }
      double least[2] = {-1.0, -1.0};
      kernels_->factorize(a[0].view(), count == 2 ? a[1].view() : MatrixView<double>(), {least, 2});
      for (int i = 0; i < count; ++i) {
        EXPECT_GE(least[i], 1.0 - 1e-9);
        PaddedMatrix<double> inverse(n, n);
        kernels_->invert(a[std::size_t(i)].view(), inverse.view());
        const auto solved = [&](Index r, Index c) {
          double sum = 0.0;
          for (Index k = 0; k < n; ++k) sum += inverse(r, k) * b[std::size_t(i)](k, c);
          return sum;
        };
        expect_near(x[std::size_t(i)], solved, 1e-9);
        EXPECT_TRUE(inverse.padding_is_intact());
        PaddedMatrix<double> aside(n, b[std::size_t(i)].cols());
        kernels_->solve(a[std::size_t(i)].view(), b[std::size_t(i)].view(), aside.view(),
                        Operands::float32);
        expect_near(
            aside, [&](Index r, Index c) { return x[std::size_t(i)](r, c); }, kSum * double(n));
        PaddedMatrix<double>& found = below(2) == 0 ? aside : b[std::size_t(i)];
        kernels_->solve(a[std::size_t(i)].view(), b[std::size_t(i)].view(), found.view());
        expect_near(
            found, [&](Index r, Index c) { return x[std::size_t(i)](r, c); }, 1e-9);
        EXPECT_TRUE(a[std::size_t(i)].padding_is_intact());
      }
    }
}

// Where the least pivot is what it is in float64; and where one is not above 0.
TEST_F(FactoredMatrices, FindsTheLeastPivot) {
  for (Index n : {Index(1), Index(40), Index(70), Index(300), 1 + below(200)}) {
    const Index at = below(n);
    for (double pivot : {0.03, 2.0, -1.0}) {
      PaddedMatrix<double> a(n, n);
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) a(i, j) = i != j ? 0.0 : i == at ? pivot : 1.0 + double(i);
      double least = 7.0;
      kernels_->factorize(a.view(), {}, {&least, 1});
      if (pivot > 0.0)
        EXPECT_DOUBLE_EQ(least, n == 1 ? pivot : std::min(pivot, at == 0 ? 2.0 : 1.0));
      else
        EXPECT_FALSE(least > 0.0);
    }
  }
}

TEST_F(FactoredMatrices, ChangesRowsByTheirWeights) {
  for (int round = 0; round < 10; ++round) {
    const Index rows = 1 + below(90), cols = 1 + below(300);
    PaddedMatrix<float> x(rows, cols), sent(rows, cols);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) x(r, c) = uniform(-1.0f, 1.0f);
    PaddedMatrix<double> h(rows, cols + 1), m = doubles(rows, cols + 1);
    kernels_->set_source(x.view(), h.view());
    expect_near(
        h, [&](Index r, Index c) { return c < cols ? double(x(r, c)) : 1.0; }, 0.0);
    const std::vector<float> weight = weights(rows);
    const VectorView<const float> view{weight.data(), rows};
    kernels_->send(m.view(), view, sent.view());
    kernels_->scale_rows(view, h.view());
    const auto root = [&](Index r) { return std::sqrt(double(weight[std::size_t(r)])); };
    expect_near(
        h, [&](Index r, Index c) { return root(r) * (c < cols ? double(x(r, c)) : 1.0); }, 1e-14);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) ASSERT_NEAR(sent(r, c), root(r) * m(r, c), 2e-7);
    EXPECT_TRUE(sent.padding_is_intact());
    PaddedMatrix<double> before = h, added = doubles(rows, cols + 1);
    std::vector<double> sums(std::size_t(rows), 7.0);
    const bool adds = below(2) == 0;
    kernels_->add_to_rows(m.view(), 0.3, adds ? added.view() : MatrixView<double>(), h.view(),
                          {sums.data(), rows});
    expect_near(
        h, [&](Index r, Index c) { return adds ? 0.3 * before(r, c) + added(r, c) : before(r, c); },
        1e-14);
    for (Index r = 0; r < rows; ++r) {
      double sum = 0.0;
      for (Index c = 0; c <= cols; ++c) sum += before(r, c) * m(r, c);
      ASSERT_NEAR(sums[std::size_t(r)], sum, kDouble * double(cols));
    }
  }
}

TEST_F(FactoredMatrices, AddsMatricesUp) {
  for (int round = 0; round < 10; ++round) {
    const Index n = 1 + below(200);
    PaddedMatrix<double> a = doubles(n, n), b = doubles(n, n), before = a, m(n, n);
    const double keep = below(2) == 0 ? 0.0 : 0.7;
    kernels_->combine(keep, a.view(), -0.4, b.view());
    expect_near(
        a, [&](Index r, Index c) { return keep * before(r, c) - 0.4 * b(r, c); }, 1e-14);
    before = a;
    kernels_->add_symmetric(0.3, b.view(), a.view());
    expect_near(
        a, [&](Index r, Index c) { return before(r, c) + 0.3 * (b(r, c) + b(c, r)); }, 1e-14);
    double trace = 0.0;
    for (Index i = 0; i < n; ++i) trace += b(i, i) = std::abs(b(i, i));
    kernels_->damp({b.view(), 0.25}, 0.6, a.view(), m.view());
    expect_near(
        m,
        [&](Index r, Index c) {
          return b(r, c) + 0.6 * a(r, c) + (r == c ? 0.25 * trace / double(n) : 0.0);
        },
        kDouble * double(n));
    kernels_->damp({}, 0.6, m.view(), m.view());
    PaddedMatrix<double> nothing(n, n);
    for (Index r = 0; r < n; ++r)
      for (Index c = 0; c < n; ++c) nothing(r, c) = 0.0;
    kernels_->damp({nothing.view(), 0.25}, 0.0, {}, nothing.view());
    expect_near(
        nothing, [&](Index r, Index c) { return r == c ? 1.0 : 0.0; }, 0.0);
    std::vector<FixedSum> sums(std::size_t(n * n));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add(double(i) * 0.125 - 3.0);
    before = a;
    const Existing existing = below(2) == 0 ? Existing::add : Existing::overwrite;
    kernels_->add_sums({sums.data(), n, n, n}, existing, a.view());
    expect_near(
        a,
        [&](Index r, Index c) {
          return (existing == Existing::add ? before(r, c) : 0.0) + double(r * n + c) * 0.125 - 3.0;
        },
        1e-11);
  }
}

TEST_F(FactoredMatrices, FoldsWhereItIsDue) {
  for (int round = 0; round < 10; ++round) {
    const Index n = 1 + below(150);
    PaddedMatrix<double> u = doubles(n, n), inverse = doubles(n, n), gram = doubles(n, n);
    const Index row = below(n), column = below(n);
    inverse(row, column) = below(2) == 0 ? 9.0 : -9.0;
    double needed = 7.0;
    PaddedMatrix<double> of = gram, by = u;
    kernels_->look(inverse.view(), 9.5, &needed);
    EXPECT_EQ(needed, 0.0);
    kernels_->fold_gram(&needed, u.view(), inverse.view(), gram.view());
    EXPECT_TRUE(gram.same_bits(of) && u.same_bits(by));
    kernels_->look(inverse.view(), 8.5, &needed);
    EXPECT_EQ(needed, 1.0);
    kernels_->fold_gram(&needed, u.view(), inverse.view(), gram.view());
    PaddedMatrix<double> half(n, n);
    for (Index r = 0; r < n; ++r)
      for (Index c = 0; c < n; ++c) {
        half(r, c) = 0.0;
        for (Index k = 0; k < n; ++k) half(r, c) += of(r, k) * by(k, c);
      }
    expect_near(
        gram,
        [&](Index r, Index c) {
          double sum = 0.0;
          for (Index k = 0; k < n; ++k) sum += by(k, r) * half(k, c);
          return sum;
        },
        1e-11 * double(n));
    const auto one = [](Index r, Index c) { return r == c ? 1.0 : 0.0; };
    expect_near(u, one, 0.0);
    expect_near(inverse, one, 0.0);
    kernels_->look(inverse.view(), -1.0, &needed);
    EXPECT_EQ(needed, 1.0);
    kernels_->store(0.5, &needed);
    EXPECT_EQ(needed, 0.5);
  }
}

// What a step that is too long says of itself: at least the largest eigenvalue.
TEST_F(FactoredMatrices, JudgesByLeastPivots) {
  for (int round = 0; round < 10; ++round) {
    const Index rows = 1 + below(60), cols = 1 + below(60);
    PaddedMatrix<double> h = doubles(rows, cols);
    double least[2] = {0.5, 0.1}, share = 0.0;
    kernels_->judge({least, 2}, 0.1, 2.0, h.view(), &share);
    EXPECT_EQ(share, 0.0);
    if (round % 2 == 0) least[1] = std::nan("");
    kernels_->judge({least, 2}, 0.2, 2.0, h.view(), &share);
    double largest = 0.0;
    for (Index j = 0; j < cols; ++j) {
      double sum = 0.0;
      for (Index e = 0; e < rows; ++e)
        for (Index i = 0; i < cols; ++i) sum += std::abs(h(e, j) * h(e, i));
      largest = std::max(largest, 2.0 * sum);
    }
    EXPECT_NEAR(share, largest, 1e-11 * largest);
  }
}

}  // namespace
}  // namespace norn
