// SPDX-License-Identifier: Apache-2.0
// Input layers: normalising, weighting and corrupting a batch.
#include "src/engine/input_layer.h"

namespace norn {

void InputLayer::prepare(const Compute& compute, const BatchView& batch, Index batch_capacity,
                         Pass pass, bool transpose, const StepPosition& position) {
  if (sparse_)
    prepare_sparse(compute, batch, pass, transpose, position);
  else
    prepare_dense(compute, batch, batch_capacity, pass, position);
}

void InputLayer::prepare_sparse(const Compute& compute, const BatchView& batch, Pass pass,
                                bool transpose, const StepPosition& position) {
  InputPreparation preparation;
  preparation.normalise_l2 = descriptor_->normalize == InputNormalization::l2;
  if (pass == Pass::training) {
    preparation.denoising = denoising_;
    preparation.random =
        Philox::stream(position.seed, RandomPurpose::denoising, std::uint32_t(number_));
    preparation.epoch = position.epoch;
  }
  CsrView x = batch.sparse;
  const bool unchanged =
      !preparation.normalise_l2 && preparation.denoising == 0.0f && batch.weight.empty();
  if (!unchanged) {
    compute.kernels.batch->prepare(x, batch.weight, batch.example, preparation, prepared_);
    x = prepared_.view();
  }
  x.cols = descriptor_->units();  // a layer may be wider than its data
  output_ = {true, {}, x, nullptr};
  if (!transpose) return;
  compute.kernels.sparse->transpose(x, transposed_);
  output_.transposed = &transposed_;
}

void InputLayer::prepare_dense(const Compute& compute, const BatchView& batch, Index batch_capacity,
                               Pass pass, const StepPosition& position) {
  const MatrixView<const float> data = batch.dense;
  const Index units = descriptor_->units();
  const bool corrupt = pass == Pass::training && descriptor_->dropout > 0.0f;
  const bool normalise = descriptor_->normalize == InputNormalization::l2;
  if (data.cols == units && !corrupt && !normalise && batch.weight.empty()) {
    output_ = {false, data, {}, nullptr};
    return;
  }
  if (dense_.empty()) dense_ = Matrix<float>::zeros(batch_capacity, units, compute.memory);
  const MatrixView<float> x = dense_.first_rows(batch.examples);
  compute.kernels.batch->prepare_dense(data, batch.weight, normalise, x);
  if (corrupt) {
    const Philox random =
        Philox::stream(position.seed, RandomPurpose::dropout, std::uint32_t(number_));
    compute.kernels.batch->dropout(descriptor_->dropout, random, position.step * batch_capacity, 0,
                                   x, x);
  }
  output_ = {false, x, {}, nullptr};
}

}  // namespace norn
