// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"

#include <memory>

namespace norn {
class DenseKernels;
class SparseKernels;
class BatchKernels;
class PointwiseKernels;
class FixedKernels;
class NormalizationKernels;
class CostKernels;
class UpdateKernels;
class SelectKernels;
class FusedKernels;
class RecommendKernels;
class FactoredKernels;
class ConvolutionKernels;
class PoolingKernels;
class RunSumKernels;
}  // namespace norn

/// The CUDA kernel families: each function makes one and is defined beside its class. Views that
/// they are given stand in the device's memory.
namespace norn::cuda {

/// Whether the current device has code in this build.
bool device_runs_this_build();

std::unique_ptr<DenseKernels> make_dense(const Stream& stream);
std::unique_ptr<SparseKernels> make_sparse(const Stream& stream);
std::unique_ptr<BatchKernels> make_batch(const Stream& stream);
std::unique_ptr<PointwiseKernels> make_pointwise(const Stream& stream);
std::unique_ptr<FixedKernels> make_fixed(const Stream& stream);
std::unique_ptr<NormalizationKernels> make_normalization(const Stream& stream);
std::unique_ptr<CostKernels> make_cost(const Stream& stream);
std::unique_ptr<UpdateKernels> make_update(const Stream& stream);
std::unique_ptr<SelectKernels> make_select(const Stream& stream);
std::unique_ptr<FusedKernels> make_fused(const Stream& stream);
std::unique_ptr<RecommendKernels> make_recommend(const Stream& stream);
std::unique_ptr<FactoredKernels> make_factored(const Stream& stream);
/// Its products are those of `dense`, which must outlive it.
std::unique_ptr<ConvolutionKernels> make_convolution(const Stream& stream, DenseKernels& dense);
std::unique_ptr<PoolingKernels> make_pooling(const Stream& stream);
std::unique_ptr<RunSumKernels> make_run_sums(const Stream& stream);

}  // namespace norn::cuda
