// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/layer.h"
#include "src/step/device_batch.h"

#include <array>

/// Input layers: from a gathered batch to what the first layers read.
namespace norn {

class InputLayer {
 public:
  /// `feature_weights` [units], or empty without InputWeighting. `rows`: examples that it usually
  /// prepares at once.
  InputLayer(const LayerDescriptor& descriptor, int number, bool sparse, Index rows,
             float denoising, Buffer<float>& feature_weights);

  bool weights_features() const { return !feature_weight_.empty(); }
  bool is_ready() const { return has_feature_weights_ || !weights_features(); }
  void set_feature_weights(const std::vector<float>& weights);
  std::vector<float> feature_weights() const;

  /// Weights, normalises and (in training) corrupts the batch. `transpose`: also transpose it for
  /// the gradients. Within WorkQueue::prepare; output() is for the next run.
  void prepare(const Compute& compute, const BatchView& batch, Index batch_capacity, Pass pass,
               bool transpose, const StepPosition& position);
  const LayerOutput& output() const { return output_; }

 private:
  /// A batch as it was prepared.
  struct Copy {
    CsrBuffer prepared;
    TransposedBatch transposed;
    Matrix<float> dense;
  };
  void prepare_sparse(const Compute& compute, const BatchView& batch, Pass pass, bool transpose,
                      const StepPosition& position, Copy& copy);
  void prepare_dense(const Compute& compute, const BatchView& batch, Index batch_capacity,
                     Pass pass, const StepPosition& position, Copy& copy);
  const LayerDescriptor* descriptor_;
  int number_;
  bool sparse_;
  Index rows_;
  float denoising_;
  Buffer<float>& feature_weight_;
  bool has_feature_weights_ = false;
  std::array<Copy, 2> copies_;  // where batches are prefetched: one is read meanwhile
  std::size_t turn_ = 0;
  LayerOutput output_;
};

}  // namespace norn
