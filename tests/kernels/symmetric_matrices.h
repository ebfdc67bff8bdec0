// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/kernels/samples.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace norn::samples {

/// Draws matrices that have an inverse.
class SymmetricMatrices : public RandomTest {
 protected:
  /// X'X + I of a random X, [n x n] with a gap between rows. The upper triangle is not a number.
  std::vector<double> draw(Index n, Index stride) {
    const Index rows = 1 + below(30);
    std::vector<double> x(std::size_t(rows * n)), a(std::size_t(n * stride), NAN);
    for (double& value : x) value = double(below(2001)) / 1000.0 - 1.0;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j <= i; ++j) {
        double sum = i == j ? 1.0 : 0.0;
        for (Index r = 0; r < rows; ++r)
          sum += x[std::size_t(r * n + i)] * x[std::size_t(r * n + j)];
        a[std::size_t(i * stride + j)] = sum;
      }
    return a;
  }

  /// The largest element of a a^-1 - 1, of some columns of it. The inverse must be symmetric by
  /// bits.
  static double error_of(const std::vector<double>& inverse, const std::vector<double>& a, Index n,
                         Index stride) {
    double worst = 0.0;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; j += 1 + n / 40) {
        double sum = i == j ? -1.0 : 0.0;
        for (Index k = 0; k < n; ++k)
          sum += a[std::size_t(std::max(i, k) * stride + std::min(i, k))] *
                 inverse[std::size_t(k * stride + j)];
        worst = std::max(worst, std::abs(sum));
        EXPECT_EQ(inverse[std::size_t(i * stride + j)], inverse[std::size_t(j * stride + i)]);
      }
    return worst;
  }
};

}  // namespace norn::samples
