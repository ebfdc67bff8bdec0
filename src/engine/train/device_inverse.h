// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/connection.h"

/// Inverses of large symmetric matrices by a device's products of float64.
namespace norn {

/// Whether a device that has memory of its own computes them for a matrix of `size` rows: where it
/// takes no more than half of that memory, whoever else uses it now.
bool inverts_on_device(const Memory& memory, Index size);

/// a = a^-1 for a positive definite a [n x n] in main memory, of which the lower triangle is read
/// and the whole is written: the sweep operator as of invert_symmetric(), whole rows at a time. On
/// a device by its Kernels::factored alone, so that nothing comes back before the end. Returns the
/// least pivot; where that is not above zero a is no longer of use. `lanes`: of the host.
double invert_on_device(Executor& lanes, const Compute& compute, MatrixView<double> a);

}  // namespace norn
