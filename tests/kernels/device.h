// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernels.h"

#include <memory>

/// The kernels under test. Each test program links one definition: device_cpu.cpp gives the CPU's,
/// staged/*.cpp the GPU's behind adapters that copy every view to the GPU and back, so that one
/// test text serves both.
namespace norn::samples {

std::unique_ptr<DenseKernels> make_dense(Executor& executor);
std::unique_ptr<SparseKernels> make_sparse(Executor& executor);
std::unique_ptr<BatchKernels> make_batch(Executor& executor);
std::unique_ptr<PointwiseKernels> make_pointwise(Executor& executor);
std::unique_ptr<FixedKernels> make_fixed(Executor& executor);
std::unique_ptr<NormalizationKernels> make_normalization(Executor& executor);
std::unique_ptr<CostKernels> make_cost(Executor& executor);
std::unique_ptr<UpdateKernels> make_update(Executor& executor);
std::unique_ptr<SelectKernels> make_select(Executor& executor);
std::unique_ptr<FactoredKernels> make_factored(Executor& executor);
std::unique_ptr<ConvolutionKernels> make_convolution(Executor& executor);
std::unique_ptr<PoolingKernels> make_pooling(Executor& executor);
std::unique_ptr<RunSumKernels> make_run_sums(Executor& executor);

/// Whether these are the GPU's.
bool is_gpu();

/// Whether sums over a row or column run in the order that the CPU's documents say, so that a test
/// may ask for equal bits instead of a tolerance.
bool sums_like_the_cpu();

}  // namespace norn::samples
