// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/network.h"
#include "src/engine/device_batch.h"

/// Input layers: from a gathered batch to what the first layers read.
namespace norn {

class InputLayer {
 public:
  InputLayer(const LayerDescriptor& descriptor, int number, bool sparse, float denoising)
      : descriptor_(&descriptor), number_(number), sparse_(sparse), denoising_(denoising) {}

  /// Normalises, weights and (in training) corrupts the batch. `transpose`: also turn it over for
  /// the gradients.
  void prepare(const Compute& compute, const BatchView& batch, Index batch_capacity, Pass pass,
               bool transpose, const StepPosition& position);
  const LayerOutput& output() const { return output_; }

 private:
  void prepare_sparse(const Compute& compute, const BatchView& batch, Pass pass, bool transpose,
                      const StepPosition& position);
  void prepare_dense(const Compute& compute, const BatchView& batch, Index batch_capacity,
                     Pass pass, const StepPosition& position);
  const LayerDescriptor* descriptor_;
  int number_;
  bool sparse_;
  float denoising_;
  CsrBuffer prepared_;
  TransposedBatch transposed_;
  Matrix<float> dense_;
  LayerOutput output_;
};

}  // namespace norn
