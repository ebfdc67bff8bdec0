// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/tensor/executor.h"

/// Inverses of large symmetric matrices, in main memory.
namespace norn {

/// a = a^-1 for a positive definite a [n x n], of which the lower triangle is read and the whole is
/// written. n^3 multiplications and additions in float64, in place. The same bits on any number of
/// lanes. Returns the least pivot; where that is not above zero a is no longer of use.
double invert_symmetric(Executor& executor, MatrixView<double> a);

/// The upper triangle of a [n x n] from the lower one.
void mirror_lower(Executor& executor, MatrixView<double> a);

}  // namespace norn
