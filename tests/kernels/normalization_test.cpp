// SPDX-License-Identifier: Apache-2.0
// Batch statistics against float64 loops and central differences.
#include "kernels/normalization.h"

#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace norn {
namespace {

using samples::PaddedMatrix;
using samples::view_of;

/// Per-unit parameters and running statistics.
struct Norm {
  std::vector<float> scale, bias, mean, variance;
  BatchNormView view() {
    return {view_of(std::as_const(scale)), view_of(std::as_const(bias)), view_of(mean),
            view_of(variance)};
  }
};

class Normalization : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random(Index rows, Index cols, float low = -2, float high = 4) {
    PaddedMatrix<float> x(rows, cols);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) x(r, c) = uniform(low, high);
    return x;
  }
  Norm random_norm(Index cols) {
    Norm norm;
    for (Index c = 0; c < cols; ++c) {
      norm.scale.push_back(uniform(0.5f, 2));
      norm.bias.push_back(uniform(-1, 1));
      norm.mean.push_back(uniform(-1, 1));
      norm.variance.push_back(uniform(0.5f, 2));
    }
    return norm;
  }
  Executor executor_{1};
  std::unique_ptr<NormalizationKernels> kernels_ = samples::make_normalization(executor_);
};

std::vector<double> column_of(PaddedMatrix<float>& x, Index c) {
  std::vector<double> column;
  for (Index r = 0; r < x.rows(); ++r) column.push_back(double(x(r, c)));
  return column;
}

/// scale * (z - mean) / sqrt(variance + epsilon) + bias of one column, in float64.
std::vector<double> normalised_column(const std::vector<double>& z, double scale, double bias) {
  double mean = 0;
  for (double x : z) mean += x / double(z.size());
  double variance = 0;
  for (double x : z) variance += (x - mean) * (x - mean) / double(z.size());
  std::vector<double> out;
  for (double x : z) out.push_back(scale * (x - mean) / std::sqrt(variance + 1e-5) + bias);
  return out;
}

TEST_F(Normalization, BatchNormAgreesWithFloat64) {
  for (Index rows : {2, 33, 128, 2100})
    for (Index width : samples::edge_widths()) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      Norm norm = random_norm(width);
      const Norm before = norm;
      PaddedMatrix<float> input = random(rows, width);
      PaddedMatrix<float> z = input;
      PaddedMatrix<float> unit(rows, width);
      std::vector<float> inverse(std::size_t(width), -1.0f);
      kernels_->batch_norm(norm.view(), z.view(), unit.view(), view_of(inverse));
      for (Index c = 0; c < width; ++c) {
        const std::size_t i = std::size_t(c);
        const std::vector<double> column = column_of(input, c);
        const std::vector<double> expected =
            normalised_column(column, double(norm.scale[i]), double(norm.bias[i]));
        for (Index r = 0; r < rows; ++r)
          ASSERT_NEAR(double(z(r, c)), expected[std::size_t(r)], 3e-5);
        double mean = 0;
        for (double x : column) mean += x / double(rows);
        double spread = 0;
        for (double x : column) spread += (x - mean) * (x - mean);
        ASSERT_NEAR(double(norm.mean[i]), 0.9 * double(before.mean[i]) + 0.1 * mean, 1e-6);
        ASSERT_NEAR(double(norm.variance[i]),
                    0.9 * double(before.variance[i]) + 0.1 * spread / double(rows - 1), 2e-6);
        ASSERT_NEAR(double(inverse[i]), 1 / std::sqrt(spread / double(rows) + 1e-5),
                    1e-6 * double(inverse[i]));
      }
      EXPECT_TRUE(z.padding_is_intact() && unit.padding_is_intact());
    }
}

TEST_F(Normalization, ColumnsAreIndependentOfEachOther) {
  constexpr Index kRows = 2500;
  PaddedMatrix<float> whole = random(kRows, 70);
  PaddedMatrix<float> parts = whole, unit(kRows, 70), unit_of_parts(kRows, 70);
  PaddedMatrix<float> delta = random(kRows, 70);
  PaddedMatrix<float> delta_of_parts = delta;
  Norm norm = random_norm(70);
  Norm norm_of_parts = norm;
  const auto run = [&](Norm& n, PaddedMatrix<float>& z, PaddedMatrix<float>& u,
                       PaddedMatrix<float>& d, Index first, Index count) {
    BatchNormView v = n.view();
    v = {v.scale.range(first, count), v.bias.range(first, count),
         v.running_mean.range(first, count), v.running_variance.range(first, count)};
    std::vector<float> inverse(std::size_t(count), 0.0f), slope = inverse, bias = inverse;
    kernels_->batch_norm(v, z.view().columns(first, count), u.view().columns(first, count),
                         view_of(inverse));
    kernels_->batch_norm_backward(v.scale, u.view().columns(first, count),
                                  view_of(std::as_const(inverse)), d.view().columns(first, count),
                                  view_of(slope), view_of(bias));
    kernels_->sparseness_penalty(0.1f, 3.0f, z.view().columns(first, count),
                                 d.view().columns(first, count));
  };
  run(norm, whole, unit, delta, 0, 70);
  for (const auto& [first, count] : std::vector<std::pair<Index, Index>>{{0, 7}, {7, 1}, {8, 62}})
    run(norm_of_parts, parts, unit_of_parts, delta_of_parts, first, count);
  EXPECT_TRUE(whole.same_bits(parts) && unit.same_bits(unit_of_parts));
  EXPECT_TRUE(delta.same_bits(delta_of_parts));
  EXPECT_EQ(norm.mean, norm_of_parts.mean);
  EXPECT_EQ(norm.variance, norm_of_parts.variance);
}

// The sums of x and of x * y over the rows.
std::vector<FixedSum> sums_of(PaddedMatrix<float>& x, PaddedMatrix<float>& y) {
  std::vector<FixedSum> sums(std::size_t(2 * x.cols()));
  for (Index c = 0; c < x.cols(); ++c)
    for (Index r = 0; r < x.rows(); ++r) {
      sums[std::size_t(c)].add(double(x(r, c)));
      sums[std::size_t(x.cols() + c)].add(double(x(r, c)) * double(y(r, c)));
    }
  return sums;
}

// Some rows at a time, of one place each.
TEST_F(Normalization, OfPartsOfABatchIsThatOfTheWhole) {
  for (Index width : samples::edge_widths()) {
    const Index rows = 2 + below(300), split = below(rows + 1);
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
    PaddedMatrix<float> z = random(rows, width), delta = random(rows, width), unit = z;
    PaddedMatrix<float> z_of_parts = z, delta_of_parts = delta, unit_of_parts = unit;
    Norm norm = random_norm(width), before = norm;
    const auto vector = [&] { return std::vector<float>(std::size_t(width), -1.0f); };
    std::vector<float> inverse = vector(), slope = vector(), bias = vector();
    const std::vector<FixedSum> moments = sums_of(z, z);
    kernels_->batch_norm(norm.view(), z.view(), unit.view(), view_of(inverse));
    const std::vector<FixedSum> products = sums_of(delta, unit);
    kernels_->batch_norm_backward(view_of(std::as_const(norm.scale)), unit.view(),
                                  view_of(std::as_const(inverse)), delta.view(), view_of(slope),
                                  view_of(bias));
    for (const auto& [first, count] :
         std::vector<std::pair<Index, Index>>{{0, split}, {split, rows - split}}) {
      const auto part = [&, first = first, count = count](PaddedMatrix<float>& of) {
        return of.view().row_range(first, count);
      };
      Norm own = before;
      std::vector<float> own_inverse = vector(), own_slope = vector(), own_bias = vector();
      kernels_->normalise_rows(own.view(), view_of(moments), rows, part(z_of_parts),
                               part(unit_of_parts), view_of(own_inverse));
      kernels_->normalise_rows_backward(view_of(std::as_const(own.scale)), view_of(products), rows,
                                        rows, part(unit_of_parts),
                                        view_of(std::as_const(own_inverse)), part(delta_of_parts),
                                        view_of(own_slope), view_of(own_bias));
      for (std::size_t c = 0; c < std::size_t(width); ++c) {
        ASSERT_NEAR(own.mean[c], norm.mean[c], 1e-6);
        ASSERT_NEAR(own.variance[c], norm.variance[c], 2e-6);
        ASSERT_NEAR(own_inverse[c], inverse[c], 1e-6 * std::abs(inverse[c]));
        ASSERT_NEAR(own_slope[c], slope[c], 1e-6 * std::max(1.0f, std::abs(slope[c])));
        ASSERT_NEAR(own_bias[c], bias[c], 1e-6);
      }
    }
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < width; ++c) {
        const double most = std::max(1.0, double(inverse[std::size_t(c)]));
        ASSERT_NEAR(z_of_parts(r, c), z(r, c), 1e-5 * most);
        ASSERT_NEAR(delta_of_parts(r, c), delta(r, c), 1e-5 * most);
      }
    EXPECT_TRUE(z_of_parts.padding_is_intact() && delta_of_parts.padding_is_intact());
  }
}

TEST_F(Normalization, GradientsOfPlacesAreMeansOverExamples) {
  const Index places = 2 + below(5), examples = 1 + below(9), rows = places * examples;
  PaddedMatrix<float> delta = random(rows, 9), unit = random(rows, 9);
  const std::vector<FixedSum> products = sums_of(delta, unit);
  const std::vector<float> scale(9, 1.0f), inverse(9, 1.0f);
  std::vector<float> slope(9), bias(9);
  kernels_->normalise_rows_backward(view_of(scale), view_of(products), rows, examples, unit.view(),
                                    view_of(inverse), delta.view(), view_of(slope), view_of(bias));
  for (std::size_t c = 0; c < 9; ++c) {
    EXPECT_EQ(bias[c], float(products[c].value() / double(examples)));
    EXPECT_EQ(slope[c], float(products[9 + c].value() / double(examples)));
  }
}

TEST_F(Normalization, ABatchOfOneGivesTheBias) {
  Norm norm = random_norm(5);
  PaddedMatrix<float> z = random(1, 5);
  PaddedMatrix<float> unit(1, 5);
  std::vector<float> inverse(5);
  kernels_->batch_norm(norm.view(), z.view(), unit.view(), view_of(inverse));
  for (Index c = 0; c < 5; ++c) {
    EXPECT_EQ(z(0, c), norm.bias[std::size_t(c)]);
    EXPECT_TRUE(std::isfinite(norm.variance[std::size_t(c)]));
  }
}

TEST_F(Normalization, PredictionUsesTheRunningStatistics) {
  Norm norm = random_norm(129);
  PaddedMatrix<float> input = random(7, 129);
  PaddedMatrix<float> z = input;
  kernels_->batch_norm_predict(norm.view(), z.view());
  for (Index r = 0; r < 7; ++r)
    for (Index c = 0; c < 129; ++c) {
      const std::size_t i = std::size_t(c);
      const double expected = double(norm.scale[i]) * (double(input(r, c)) - double(norm.mean[i])) /
                                  std::sqrt(double(norm.variance[i]) + 1e-5) +
                              double(norm.bias[i]);
      ASSERT_NEAR(double(z(r, c)), expected, 1e-5);
    }
}

TEST_F(Normalization, BackwardAgreesWithCentralDifferences) {
  constexpr Index kRows = 9;
  constexpr Index kCols = 33;
  Norm norm = random_norm(kCols);
  PaddedMatrix<float> input = random(kRows, kCols);
  PaddedMatrix<float> z = input;
  PaddedMatrix<float> unit(kRows, kCols);
  std::vector<float> inverse(kCols), scale_gradient(kCols), bias_gradient(kCols);
  kernels_->batch_norm(norm.view(), z.view(), unit.view(), view_of(inverse));
  // cost = sum of factor * output, so that factor is d cost / d output.
  PaddedMatrix<float> factor = random(kRows, kCols);
  PaddedMatrix<float> delta = factor;
  kernels_->batch_norm_backward(view_of(std::as_const(norm.scale)), unit.view(),
                                view_of(std::as_const(inverse)), delta.view(),
                                view_of(scale_gradient), view_of(bias_gradient));
  for (Index c = 0; c < kCols; ++c) {
    const std::size_t i = std::size_t(c);
    const std::vector<double> column = column_of(input, c);
    const auto cost = [&](const std::vector<double>& x, double scale, double bias) {
      const std::vector<double> y = normalised_column(x, scale, bias);
      double sum = 0;
      for (Index r = 0; r < kRows; ++r) sum += double(factor(r, c)) * y[std::size_t(r)];
      return sum;
    };
    const double scale = double(norm.scale[i]);
    const double bias = double(norm.bias[i]);
    constexpr double h = 1e-5;
    for (Index r = 0; r < kRows; ++r) {
      std::vector<double> up = column;
      std::vector<double> down = column;
      up[std::size_t(r)] += h;
      down[std::size_t(r)] -= h;
      const double expected = (cost(up, scale, bias) - cost(down, scale, bias)) / (2 * h);
      ASSERT_NEAR(double(delta(r, c)), expected, 5e-5 * std::max(1.0, std::abs(expected)));
    }
    ASSERT_NEAR(double(scale_gradient[i]),
                (cost(column, scale + h, bias) - cost(column, scale - h, bias)) / (2 * h * kRows),
                1e-5);
    ASSERT_NEAR(double(bias_gradient[i]),
                (cost(column, scale, bias + h) - cost(column, scale, bias - h)) / (2 * h * kRows),
                1e-5);
  }
  EXPECT_TRUE(delta.padding_is_intact());
}

TEST_F(Normalization, SparsenessPenaltyAgreesWithFloat64AndIsBounded) {
  for (Index width : samples::edge_widths()) {
    PaddedMatrix<float> y = random(20, width, 0, 1);
    for (Index r = 0; r < 20; ++r) y(r, 0) = r % 2 == 0 ? 0.0f : 1.0f;
    if (width > 1)
      for (Index r = 0; r < 20; ++r) y(r, 1) = 0.0f;
    PaddedMatrix<float> before = random(20, width);
    PaddedMatrix<float> dy = before;
    kernels_->sparseness_penalty(0.1f, 3.0f, y.view(), dy.view());
    for (Index c = 0; c < width; ++c) {
      double rho = 0;
      for (double x : column_of(y, c)) rho += x / 20;
      rho = std::min(0.999999, std::max(1e-6, rho));
      const double penalty = 3.0 * (-double(0.1f) / rho + (1 - double(0.1f)) / (1 - rho));
      for (Index r = 0; r < 20; ++r)
        ASSERT_NEAR(double(dy(r, c)), double(before(r, c)) + penalty,
                    1e-6 * std::max(1.0, std::abs(penalty)));
    }
  }
}

TEST_F(Normalization, RowsAreClippedToTheLimit) {
  for (Index width : samples::edge_widths()) {
    PaddedMatrix<float> input = random(6, width, -1, 1);
    for (Index c = 0; c < width; ++c) input(3, c) = 0.0f;
    std::vector<FixedSum> squares(6);
    kernels_->add_row_squares(input.view(), view_of(squares));
    PaddedMatrix<float> delta = input;
    const float limit = float(std::sqrt(squares[0].value())) * 0.9f + 1e-3f;
    kernels_->clip_rows(limit, view_of(std::as_const(squares)), delta.view());
    for (Index r = 0; r < 6; ++r) {
      double expected = 0;
      for (Index c = 0; c < width; ++c) expected += double(input(r, c)) * double(input(r, c));
      ASSERT_NEAR(squares[std::size_t(r)].value(), expected, 1e-12 * std::max(1.0, expected));
      const double factor = std::min(1.0, double(limit) / std::sqrt(std::max(expected, 1e-300)));
      for (Index c = 0; c < width; ++c)
        ASSERT_NEAR(double(delta(r, c)), factor * double(input(r, c)), 2e-7);
    }
    EXPECT_TRUE(delta.padding_is_intact());
  }
}

TEST_F(Normalization, LanesDoNotChangeTheBits) {
  constexpr Index kCols = 900;
  const PaddedMatrix<float> input = random(120, kCols);
  const Norm parameters = random_norm(kCols);
  const auto run = [&](NormalizationKernels& kernels) {
    Norm norm = parameters;
    PaddedMatrix<float> z = input;
    PaddedMatrix<float> unit(120, kCols);
    std::vector<float> inverse(kCols), scale_gradient(kCols), bias_gradient(kCols);
    kernels.batch_norm(norm.view(), z.view(), unit.view(), view_of(inverse));
    PaddedMatrix<float> delta = input;
    kernels.batch_norm_backward(view_of(std::as_const(norm.scale)), unit.view(),
                                view_of(std::as_const(inverse)), delta.view(),
                                view_of(scale_gradient), view_of(bias_gradient));
    kernels.sparseness_penalty(0.2f, 0.3f, z.view(), delta.view());
    kernels.batch_norm_predict(norm.view(), z.view());
    std::vector<FixedSum> squares(120);
    kernels.add_row_squares(delta.view(), view_of(squares));
    kernels.clip_rows(3.0f, view_of(std::as_const(squares)), delta.view());
    return std::vector<PaddedMatrix<float>>{z, unit, delta};
  };
  const std::vector<PaddedMatrix<float>> expected = run(*kernels_);
  for (int lanes : {1, 2, 7}) {
    Executor executor(lanes);
    const std::vector<PaddedMatrix<float>> actual = run(*samples::make_normalization(executor));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(actual[i].same_bits(expected[i])) << lanes << ' ' << i;
  }
}

TEST_F(Normalization, ShapesThatDoNotFitAreRefused) {
  Norm norm = random_norm(4);
  PaddedMatrix<float> z = random(3, 5);
  EXPECT_THROW(kernels_->batch_norm_predict(norm.view(), z.view()), ShapeError);
  std::vector<FixedSum> squares(2);
  EXPECT_THROW(kernels_->add_row_squares(z.view(), view_of(squares)), ShapeError);
}

}  // namespace
}  // namespace norn
