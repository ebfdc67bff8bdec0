// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/factored.h"
#include "src/tensor/executor.h"

/// Products and factors of float64 matrices that every rank has whole: the same bits for the same
/// shapes, whatever the lanes.
namespace norn {

void multiply_doubles(Executor& executor, double scale, MatrixView<const double> a,
                      FactoredKernels::As a_as, MatrixView<const double> b,
                      FactoredKernels::As b_as, Existing existing, MatrixView<double> c);
double cholesky_factor(Executor& executor, MatrixView<double> a);
void cholesky_solve(Executor& executor, MatrixView<const double> factor, MatrixView<double> b);

}  // namespace norn
