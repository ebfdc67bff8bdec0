// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cost.h"
#include "kernels/cuda/device/stream.h"

/// The GPU's cost kernels: independent units in cost.cu, SoftMax in cost_softmax.cu.
namespace norn::cuda {

class CudaCostKernels final : public CostKernels {
 public:
  explicit CudaCostKernels(const Stream& stream)
      : stream_(stream), partial_(stream.memory), statistics_(stream.memory) {}

 private:
  void do_delta(const UnitCost& rule, const TargetView& target, Index first_unit,
                MatrixView<float> z_to_delta, double* cost, MatrixView<Bfloat16> bf16) override;
  void do_softmax_statistics(MatrixView<const float> z, VectorView<float> maximum,
                             VectorView<float> sum) override;
  void do_softmax_maximum(MatrixView<const float> block_maximum,
                          VectorView<float> maximum) override;
  void do_softmax_total(MatrixView<const float> block_maximum, MatrixView<const float> block_sum,
                        VectorView<const float> maximum, VectorView<std::int64_t> total,
                        std::int64_t* out_of_range) override;
  void do_target_coupling(const SoftMaxCost& rule, const TargetView& target,
                          VectorView<std::int64_t> coupling, std::int64_t* out_of_range) override;
  void do_block_coupling(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                         MatrixView<const float> z, const SoftMaxRows& rows,
                         VectorView<std::int64_t> coupling, std::int64_t* out_of_range) override;
  void do_softmax_delta(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                        const SoftMaxRows& rows, MatrixView<float> z_to_delta, double* cost,
                        MatrixView<Bfloat16> bf16) override;
  void do_softmax_values(const SoftMaxRows& rows, MatrixView<float> z_to_y) override;

  /// Workspace for the costs of a block's pieces.
  double* reserve_partial(MatrixView<const float> z);
  /// *cost = the sum of the pieces' costs, in a fixed order.
  void sum_pieces(MatrixView<const float> z, double* cost);

  Stream stream_;
  Workspace<double> partial_;
  Workspace<double> statistics_;
};

}  // namespace norn::cuda
