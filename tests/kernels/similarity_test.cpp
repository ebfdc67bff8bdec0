// SPDX-License-Identifier: Apache-2.0
// How alike two sources are, against float64 loops over the definition, of shapes drawn at random.

#include "tests/kernels/device.h"
#include "tests/kernels/pooling_cases.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

using samples::Case;
using samples::Number;
using samples::Numbers;
using samples::PaddedMatrix;
using samples::Sums;
using samples::unit;
using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double similarity_of(Similarity similarity, const Vector& a, const Vector& b) {
  const double norms = (std::sqrt(dot(a, a)) + 1e-8) * (std::sqrt(dot(b, b)) + 1e-8);
  return similarity == Similarity::cosine ? dot(a, b) / norms : dot(a, b);
}

/// Units of an example in the order of files.
Vector in_file_order(Case& drawn, std::size_t source, Index example) {
  const Window& w = drawn.windows[source];
  Vector units;
  for (Index c = 0; c < w.channels; ++c)
    for (Index p = 0; p < w.places(); ++p) units.push_back(drawn.x[source](example, unit(w, p, c)));
  return units;
}

/// d similarity / d a by central differences, in the order of files, with the magnitudes of its two
/// terms.
Numbers slopes_of(Similarity similarity, Vector a, const Vector& b) {
  const double size = std::sqrt(dot(a, a)), other = std::sqrt(dot(b, b)), step = 1e-4 * size;
  Numbers slopes(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    a[i] = x + step;
    const double above = similarity_of(similarity, a, b);
    a[i] = x - step;
    slopes[i].value = (above - similarity_of(similarity, a, b)) / (2.0 * step);
    a[i] = x;
    slopes[i].magnitude = similarity == Similarity::cosine
                              ? std::abs(b[i]) / (size * other) + std::abs(x) / (size * size)
                              : std::abs(b[i]);
    slopes[i].magnitude += 1e-2 / size;  // of the differences
  }
  return slopes;
}

class SimilarityTest : public samples::PoolingCases {};

TEST_F(SimilarityTest, ComparesSources) {
  Executor executor(2);
  const auto kernels = samples::make_pooling(executor);
  for (int round = 0; round < 30; ++round) {
    const Similarity similarity = round % 2 == 0 ? Similarity::cosine : Similarity::dot_product;
    Case drawn = draw_units(1 + below(300), 2, 1 + below(6));
    SCOPED_TRACE(text_of(drawn));
    const auto sources = drawn.sources();
    const Index e = drawn.examples, units = drawn.x[0].cols();
    Sums sums(e, similarity == Similarity::cosine || below(2) == 0);
    kernels->add_pair_sums(sources[0], sources[1], sums.view());
    auto y = random_matrix(e, 3, 1), delta = random_matrix(e, 2, 1);
    kernels->compare(similarity, sums.view(), y.view().columns(1, 1));
    const Existing existing = below(2) == 0 ? Existing::add : Existing::overwrite;
    for (std::size_t s = 0; s < 2; ++s) {
      auto dx = random_matrix(e, units, 2);
      PaddedMatrix<float> before = dx;
      kernels->compare_backward(similarity, s == 0 ? sums.view() : sums.view().swapped(),
                                delta.view().columns(1, 1), sources[s], sources[1 - s], dx.view(),
                                existing);
      Numbers expected(std::size_t(e * units));
      const Window& w = drawn.windows[s];
      for (Index b = 0; b < e; ++b) {
        const Vector own = in_file_order(drawn, s, b), other = in_file_order(drawn, 1 - s, b);
        const Numbers slopes = slopes_of(similarity, own, other);
        ASSERT_NEAR(y(b, 1), similarity_of(similarity, own, other),
                    1e-6 * (1.0 + std::sqrt(dot(own, own) * dot(other, other))));
        for (Index u = 0; u < units; ++u) {
          const Index at = unit(w, u % w.places(), u / w.places());
          Number& to = expected[std::size_t(b * units + at)];
          const Number& slope = slopes[std::size_t(u)];
          if (existing == Existing::add) to.add(before(b, at));
          to.value += delta(b, 1) * slope.value;
          to.magnitude += std::abs(delta(b, 1)) * slope.magnitude;
        }
      }
      samples::expect_near(dx.view(), expected, 3e-6, "compare_backward");
      EXPECT_TRUE(dx.padding_is_intact());
    }
  }
}

TEST_F(SimilarityTest, ComparesWithZeros) {
  Executor executor(1);
  const auto kernels = samples::make_pooling(executor);
  Case drawn = draw_units(1 + below(40), 2, 1);
  std::fill_n(drawn.x[0].view().row(0), drawn.x[0].cols(), 0.0f);
  drawn.windows[0].order = drawn.windows[1].order = UnitOrder::file;
  const auto sources = drawn.sources();
  Sums sums(1);
  PaddedMatrix<float> y(1, 1), delta(1, 1), dx(1, drawn.x[0].cols());
  delta(0, 0) = 0.5f;
  kernels->add_pair_sums(sources[0], sources[1], sums.view());
  kernels->compare(Similarity::cosine, sums.view(), y.view());
  EXPECT_EQ(y(0, 0), 0.0f);
  kernels->compare_backward(Similarity::cosine, sums.view(), delta.view(), sources[0], sources[1],
                            dx.view(), Existing::overwrite);
  const Vector b = in_file_order(drawn, 1, 0);
  for (Index i = 0; i < dx.cols(); ++i) {
    const double expected = 0.5 * b[std::size_t(i)] / (1e-8 * (std::sqrt(dot(b, b)) + 1e-8));
    EXPECT_LE(samples::relative_error(dx(0, i), expected, 1e-3), 1e-6);
  }
  kernels->compare_backward(Similarity::cosine, sums.view().swapped(), delta.view(), sources[1],
                            sources[0], dx.view(), Existing::overwrite);
  EXPECT_TRUE(std::all_of(dx.view().row(0), dx.view().row(0) + dx.cols(),
                          [](float value) { return value == 0.0f; }));
}

TEST_F(SimilarityTest, AddsBlocksOfUnitsInAnyOrder) {
  Executor executor(2);
  const auto kernels = samples::make_pooling(executor);
  const Index e = 1 + below(5), blocks = 1 + below(6);
  auto a = random_matrix(e, 700, 3), b = random_matrix(e, 700, 1);
  std::vector<Range> ranges;
  for (Index i = 0; i < blocks; ++i) ranges.push_back({700 * i / blocks, 700 * (i + 1) / blocks});
  const auto add = [&](const std::vector<Range>& order) {
    Sums sums(e);
    for (const Range& range : order) {
      Window window;
      window.channels = range.end - range.begin;
      kernels->add_pair_sums({window, a.view().columns(range.begin, window.channels)},
                             {window, b.view().columns(range.begin, window.channels)}, sums.view());
    }
    return sums;
  };
  const Sums sums = add(ranges);
  std::ranges::shuffle(ranges, random_);
  EXPECT_TRUE(sums == add(ranges));
  for (Index r = 0; r < e; ++r) {
    double product = 0.0;
    for (Index i = 0; i < 700; ++i) product += double(a(r, i)) * b(r, i);
    EXPECT_NEAR(sums.products[std::size_t(r)].value(), product, 1e-10);
  }
}

TEST_F(SimilarityTest, SaysWhichShapesDoNotFit) {
  Executor executor(1);
  const auto kernels = samples::make_pooling(executor);
  Case drawn = draw_units(1 + below(40), 2, 2);
  const auto sources = drawn.sources();
  auto y = random_matrix(2, 2, 0);
  Sums sums(2, false), few(1);
  EXPECT_THROW(kernels->add_pair_sums(sources[0], sources[1], few.view()), ShapeError);
  EXPECT_THROW(kernels->compare(Similarity::cosine, sums.view(), y.view().columns(0, 1)),
               ShapeError);
  EXPECT_THROW(kernels->compare_backward(Similarity::cosine, sums.view(), y.view().columns(0, 1),
                                         sources[0], sources[1], drawn.x[0].view(), Existing::add),
               ShapeError);
}

}  // namespace
}  // namespace norn
