// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/row_product.h"
#include "kernels/dense.h"
#include "src/tensor/executor.h"

#include <memory>
#include <vector>

/// Dense products whose elements depend on their own row and column alone.
namespace norn {

/// The sets of instructions that this build and this processor have, the fastest first.
std::vector<const RowProductInstructions*> row_product_instructions();

/// DenseKernels::by_row() of the CPU. The executor must outlive it.
std::unique_ptr<DenseProducts> make_cpu_dense_rows(Executor& executor,
                                                   const RowProductInstructions& instructions);

}  // namespace norn
