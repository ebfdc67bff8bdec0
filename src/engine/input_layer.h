// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/network.h"
#include "src/engine/device_batch.h"

#include <array>

/// Input layers: from a gathered batch to what the first layers read.
namespace norn {

class InputLayer {
 public:
  InputLayer(const LayerDescriptor& descriptor, int number, bool sparse, float denoising)
      : descriptor_(&descriptor), number_(number), sparse_(sparse), denoising_(denoising) {}

  /// Normalises, weights and (in training) corrupts the batch. `transpose`: also turn it over for
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
  float denoising_;
  std::array<Copy, 2> copies_;  // where batches are prepared ahead: one is read meanwhile
  std::size_t turn_ = 0;
  LayerOutput output_;
};

}  // namespace norn
