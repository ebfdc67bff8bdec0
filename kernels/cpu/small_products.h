// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/factored.h"
#include "src/tensor/executor.h"

#include <memory>

/// Products and factors of float64 matrices that every rank has whole: the same bits for the same
/// shapes, whatever the lanes.
namespace norn {

/// A matrix in float32 whose rows begin at lines of the cache.
class RoundedMatrix {
 public:
  RoundedMatrix(Executor& executor, MatrixView<const double> m);
  MatrixView<const float> view() const { return view_; }

 private:
  struct Free {
    void operator()(float* floats) const;
  };
  std::unique_ptr<float[], Free> floats_;
  MatrixView<const float> view_;
};

/// c = a b, of float32, as one call.
void multiply_floats(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);
/// Of operands rounded to float32, added to c in float64.
void multiply_rounded(Executor& executor, double scale, MatrixView<const double> a,
                      FactoredKernels::As a_as, MatrixView<const double> b,
                      FactoredKernels::As b_as, Existing existing, MatrixView<double> c);
void multiply_doubles(Executor& executor, double scale, MatrixView<const double> a,
                      FactoredKernels::As a_as, MatrixView<const double> b,
                      FactoredKernels::As b_as, Existing existing, MatrixView<double> c);
/// The inverse of Cholesky's factor in place of one or two symmetric matrices, and 0 above it:
/// FactoredKernels::factorize.
void cholesky_factors(Executor& executor, MatrixView<double> a, MatrixView<double> b,
                      VectorView<double> least);
void cholesky_solve(Executor& executor, MatrixView<const double> factor, MatrixView<const double> b,
                    MatrixView<double> x);
/// The same of operands rounded to float32.
void cholesky_solve_rounded(Executor& executor, MatrixView<const double> factor,
                            MatrixView<const double> b, MatrixView<double> x);
void cholesky_inverse(Executor& executor, MatrixView<const double> factor, MatrixView<double> x);

}  // namespace norn
