// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernels.h"

/// The CPU's kernel families: each function makes one and is defined beside its class. The executor
/// must outlive what they return.
namespace norn {

std::unique_ptr<DenseKernels> make_cpu_dense(Executor& executor);
std::unique_ptr<SparseKernels> make_cpu_sparse(Executor& executor);
std::unique_ptr<BatchKernels> make_cpu_batch(Executor& executor);
std::unique_ptr<PointwiseKernels> make_cpu_pointwise(Executor& executor);
std::unique_ptr<FixedKernels> make_cpu_fixed(Executor& executor);
std::unique_ptr<NormalizationKernels> make_cpu_normalization(Executor& executor);
std::unique_ptr<CostKernels> make_cpu_cost(Executor& executor);
std::unique_ptr<UpdateKernels> make_cpu_update(Executor& executor);
std::unique_ptr<SelectKernels> make_cpu_select(Executor& executor);
std::unique_ptr<ConvolutionKernels> make_cpu_convolution(Executor& executor);
std::unique_ptr<PoolingKernels> make_cpu_pooling(Executor& executor);
std::unique_ptr<RunSumKernels> make_cpu_run_sums(Executor& executor);
std::unique_ptr<FactoredKernels> make_cpu_factored(Executor& executor);

}  // namespace norn
