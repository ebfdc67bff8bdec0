// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/batch.h"
#include "kernels/convolution.h"
#include "kernels/cost.h"
#include "kernels/dense.h"
#include "kernels/factored.h"
#include "kernels/fixed.h"
#include "kernels/fused.h"
#include "kernels/normalization.h"
#include "kernels/pointwise.h"
#include "kernels/pooling.h"
#include "kernels/recommend.h"
#include "kernels/run_sums.h"
#include "kernels/select.h"
#include "kernels/sparse.h"
#include "kernels/update.h"
#include "norn/kernels/precision.h"
#include "src/tensor/block_partition.h"
#include "src/tensor/buffer.h"
#include "src/tensor/executor.h"
#include "src/tensor/work_queue.h"

#include <memory>
#include <string>

namespace norn {

/// What one device can do. Every function may be called from inside a task of the executor (it then
/// runs on that lane alone) or from outside (it then spreads over the lanes); the bits are the
/// same.
struct Kernels {
  std::unique_ptr<DenseKernels> dense;
  std::unique_ptr<SparseKernels> sparse;
  std::unique_ptr<BatchKernels> batch;
  std::unique_ptr<PointwiseKernels> pointwise;
  std::unique_ptr<FixedKernels> fixed;
  std::unique_ptr<NormalizationKernels> normalization;
  std::unique_ptr<CostKernels> cost;
  std::unique_ptr<UpdateKernels> update;
  std::unique_ptr<SelectKernels> select;
  std::unique_ptr<ConvolutionKernels> convolution;
  std::unique_ptr<PoolingKernels> pooling;
  std::unique_ptr<RunSumKernels> run_sums;
  std::unique_ptr<FactoredKernels> factored;
  std::unique_ptr<FusedKernels> fused;          ///< null on CPUs
  std::unique_ptr<RecommendKernels> recommend;  ///< null on CPUs
  std::unique_ptr<WorkQueue> queue;
  /// The families that WorkQueue::prepare() may use, and where they allocate, on devices that
  /// prefetch batches. Null elsewhere.
  std::unique_ptr<BatchKernels> prefetch_batch;
  std::unique_ptr<SparseKernels> prefetch_sparse;
  std::unique_ptr<FactoredKernels> prefetch_factored;
  Memory* prefetch_memory = nullptr;
  Precision precision = {};       ///< of dense products
  bool computes_in_bf16 = false;  ///< whether convolutions and poolings do in bfloat16 alone
  BlockRule block_rule;           ///< how wide this device kind wants its blocks
};

/// The CPU's kernels: BLAS for dense products, loops that vectorise for the rest. The executor must
/// outlive them.
Kernels make_cpu_kernels(Executor& executor);

/// One line on what dense products run on, for logs: "OpenBLAS 0.3.21 Cooperlake".
std::string describe_cpu_kernels();

}  // namespace norn
