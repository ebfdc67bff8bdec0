// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/kernels/samples.h"

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
};

}  // namespace norn::samples
