// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels against float64 loops at the edge shapes.
#include "norn/kernels/pointwise.h"

#include "norn/base/error.h"
#include "norn/kernels/named_variant.h"
#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace norn {
namespace {

using samples::PaddedMatrix;

class Pointwise : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random(Index rows, Index cols, float low = -4, float high = 4) {
    PaddedMatrix<float> x(rows, cols);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) x(r, c) = uniform(low, high);
    return x;
  }
  Executor executor_{1};
  std::unique_ptr<PointwiseKernels> kernels_ = samples::make_pointwise(executor_);
};

TEST_F(Pointwise, RowsAreSetAndMatricesAdded) {
  for (Index width : samples::edge_widths()) {
    PaddedMatrix<float> row = random(1, width);
    PaddedMatrix<float> x = random(7, width);
    PaddedMatrix<float> z(7, width);
    kernels_->set_rows({row.view().row(0), width}, z.view());
    kernels_->add(x.view(), z.view());
    for (Index r = 0; r < 7; ++r)
      for (Index c = 0; c < width; ++c) ASSERT_EQ(z(r, c), row(0, c) + x(r, c));
    EXPECT_TRUE(z.padding_is_intact());
  }
}

TEST_F(Pointwise, EveryActivationAndItsSlopeAgreeWithFloat64) {
  for (const std::string& name : names_of<Activation>())
    for (Index width : samples::edge_widths()) {
      SCOPED_TRACE(name + " " + std::to_string(width));
      const Activation activation = *find_named<Activation>(name);
      const PaddedMatrix<float> z = random(3, width, -8, 8);
      PaddedMatrix<float> y = z;
      kernels_->activate(activation, y.view());
      const PaddedMatrix<float> incoming = random(3, width);
      PaddedMatrix<float> delta = incoming;
      kernels_->multiply_slope(activation, y.view(), delta.view());
      std::visit(
          [&](const auto& f) {
            PaddedMatrix<float> z_copy = z;
            PaddedMatrix<float> d = incoming;
            for (Index r = 0; r < 3; ++r)
              for (Index c = 0; c < width; ++c) {
                const double value = f.value(double(z_copy(r, c)));
                ASSERT_NEAR(double(y(r, c)), value, 1e-6 * std::max(1.0, std::abs(value)));
                ASSERT_NEAR(double(delta(r, c)), double(d(r, c)) * f.slope(double(y(r, c))), 2e-6);
              }
          },
          activation);
      EXPECT_TRUE(y.padding_is_intact() && delta.padding_is_intact());
    }
}

TEST_F(Pointwise, ColumnsAreSummedInRowOrder) {
  for (Index rows : {0, 1, 33, 1000})
    for (Index width : samples::edge_widths()) {
      PaddedMatrix<float> delta = random(rows, width);
      std::vector<float> sum(std::size_t(width), -1.0f);
      kernels_->sum_columns(delta.view(), 0.125f, samples::view_of(sum));
      for (Index c = 0; c < width; ++c) {
        double expected = 0;
        for (Index r = 0; r < rows; ++r) expected += double(delta(r, c));
        ASSERT_EQ(sum[std::size_t(c)], float(0.125 * expected)) << rows << ' ' << width;
      }
    }
}

TEST_F(Pointwise, SoftMaxOfRowsAndItsJacobianAgreeWithFloat64) {
  for (Index width : samples::edge_widths()) {
    SCOPED_TRACE(width);
    PaddedMatrix<float> z = random(4, width, -20, 20);
    PaddedMatrix<float> y = z;
    kernels_->softmax_rows(y.view());
    PaddedMatrix<float> dy = random(4, width);
    PaddedMatrix<float> delta = dy;
    kernels_->softmax_rows_backward(y.view(), delta.view());
    for (Index r = 0; r < 4; ++r) {
      double top = double(z(r, 0));
      for (Index c = 0; c < width; ++c) top = std::max(top, double(z(r, c)));
      double total = 0;
      double coupling = 0;
      for (Index c = 0; c < width; ++c) {
        total += std::exp(double(z(r, c)) - top);
        coupling += double(dy(r, c)) * double(y(r, c));
      }
      for (Index c = 0; c < width; ++c) {
        ASSERT_NEAR(double(y(r, c)), std::exp(double(z(r, c)) - top) / total, 3e-7);
        ASSERT_NEAR(double(delta(r, c)), double(y(r, c)) * (double(dy(r, c)) - coupling), 2e-6);
      }
    }
    EXPECT_TRUE(y.padding_is_intact() && delta.padding_is_intact());
  }
}

TEST_F(Pointwise, LanesDoNotChangeTheBits) {
  const PaddedMatrix<float> z = random(300, 777);
  const auto run = [&](PointwiseKernels& kernels) {
    PaddedMatrix<float> y = z;
    kernels.activate(Tanh{}, y.view());
    kernels.softmax_rows(y.view());
    PaddedMatrix<float> delta = z;
    kernels.softmax_rows_backward(y.view(), delta.view());
    kernels.multiply_slope(Sigmoid{}, y.view(), delta.view());
    PaddedMatrix<float> sum(1, 777);
    kernels.sum_columns(delta.view(), 1.0f, {sum.view().row(0), 777});
    kernels.add(delta.view(), y.view());
    kernels.set_rows({sum.view().row(0), 777}, delta.view().row_range(0, 20));
    return std::vector<PaddedMatrix<float>>{y, delta, sum};
  };
  const std::vector<PaddedMatrix<float>> expected = run(*kernels_);
  for (int lanes : {1, 2, 7}) {
    Executor executor(lanes);
    const std::vector<PaddedMatrix<float>> actual = run(*samples::make_pointwise(executor));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(actual[i].same_bits(expected[i])) << lanes << ' ' << i;
  }
}

TEST_F(Pointwise, ShapesThatDoNotFitAreRefused) {
  PaddedMatrix<float> a(3, 4);
  PaddedMatrix<float> b(4, 3);
  EXPECT_THROW(kernels_->add(a.view(), b.view()), ShapeError);
  EXPECT_THROW(kernels_->multiply_slope(Linear{}, a.view(), b.view()), ShapeError);
  EXPECT_THROW(kernels_->sum_columns(a.view(), 1.0f, {nullptr, 3}), ShapeError);
}

}  // namespace
}  // namespace norn
