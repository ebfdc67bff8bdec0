// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/dense.h"

namespace norn::cuda {

/// DenseKernels::by_row() of a GPU, whose algorithms are chosen for thousands of rows: the windows
/// of images. Valid as long as these kernels, which are make_dense()'s.
DenseProducts& products_of_many_rows(DenseKernels& dense);

}  // namespace norn::cuda
