// SPDX-License-Identifier: Apache-2.0
// Puts the CPU's kernel families together.

#include "kernels/cpu/families.h"

namespace norn {

Kernels make_cpu_kernels(Executor& executor) {
  Kernels kernels;
  kernels.dense = make_cpu_dense(executor);
  kernels.sparse = make_cpu_sparse(executor);
  kernels.batch = make_cpu_batch(executor);
  kernels.pointwise = make_cpu_pointwise(executor);
  kernels.fixed = make_cpu_fixed(executor);
  kernels.normalization = make_cpu_normalization(executor);
  kernels.cost = make_cpu_cost(executor);
  kernels.update = make_cpu_update(executor);
  kernels.select = make_cpu_select(executor);
  kernels.convolution = make_cpu_convolution(executor);
  kernels.pooling = make_cpu_pooling(executor);
  kernels.run_sums = make_cpu_run_sums(executor);
  kernels.factored = make_cpu_factored(executor);
  kernels.queue = std::make_unique<WorkQueue>();
  return kernels;
}

}  // namespace norn
