// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/batch.h"
#include "norn/kernels/cost.h"
#include "norn/kernels/dense.h"
#include "norn/kernels/fixed.h"
#include "norn/kernels/fused.h"
#include "norn/kernels/normalization.h"
#include "norn/kernels/pointwise.h"
#include "norn/kernels/recommend.h"
#include "norn/kernels/select.h"
#include "norn/kernels/sparse.h"
#include "norn/kernels/update.h"
#include "norn/tensor/block_partition.h"
#include "norn/tensor/buffer.h"
#include "norn/tensor/executor.h"
#include "norn/tensor/work_queue.h"

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
  std::unique_ptr<FusedKernels> fused;          ///< null where the device has none
  std::unique_ptr<RecommendKernels> recommend;  ///< null where the device has none
  std::unique_ptr<WorkQueue> queue;
  /// The families that WorkQueue::prepare() may use, and where they allocate, on devices that
  /// prepare beside other work. Null elsewhere.
  std::unique_ptr<BatchKernels> batch_ahead;
  std::unique_ptr<SparseKernels> sparse_ahead;
  Memory* memory_ahead = nullptr;
  bool rounds_operands = false;  ///< whether dense products read bfloat16
  bool turns_operands = false;   ///< whether gradients read DenseOperand::turned
  BlockRule block_rule;          ///< how wide this device kind wants its blocks
};

/// The CPU's kernels: BLAS for dense products, loops that vectorise for the rest. The executor must
/// outlive them.
Kernels make_cpu_kernels(Executor& executor);

/// One line on what dense products run on, for logs: "OpenBLAS 0.3.21 Cooperlake".
std::string describe_cpu_kernels();

}  // namespace norn
