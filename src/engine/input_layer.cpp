// SPDX-License-Identifier: Apache-2.0
// Input layers: normalising, weighting and corrupting a batch.
#include "src/engine/input_layer.h"

#include <algorithm>
#include <cmath>

namespace norn {

void InputLayer::prepare(const Compute& compute, const HostBatch& batch, Index batch_capacity,
                         Pass pass, bool transpose, const StepPosition& position) {
  if (sparse_)
    prepare_sparse(compute, batch, pass, transpose, position);
  else
    prepare_dense(compute, batch, batch_capacity, pass, position);
}

void InputLayer::prepare_sparse(const Compute& compute, const HostBatch& batch, Pass pass,
                                bool transpose, const StepPosition& position) {
  InputPreparation preparation;
  preparation.normalise_l2 = descriptor_->normalize == InputNormalization::l2;
  if (pass == Pass::training) {
    preparation.denoising = denoising_;
    preparation.random =
        Philox::stream(position.seed, RandomPurpose::denoising, std::uint32_t(number_));
    preparation.epoch = position.epoch;
  }
  const VectorView<const float> weight{batch.weight.data(), Index(batch.weight.size())};
  CsrView x = batch.csr();
  const bool unchanged =
      !preparation.normalise_l2 && preparation.denoising == 0.0f && weight.empty();
  if (!unchanged) {
    const VectorView<const Index> example{batch.example.data(), Index(batch.example.size())};
    compute.kernels.batch->prepare(x, weight, example, preparation, prepared_);
    x = prepared_.view();
  }
  x.cols = descriptor_->units();  // a layer may be wider than its data
  output_ = {true, {}, x, nullptr};
  if (!transpose) return;
  compute.kernels.sparse->transpose(x, transposed_);
  output_.transposed = &transposed_;
}

void InputLayer::prepare_dense(const Compute& compute, const HostBatch& batch, Index batch_capacity,
                               Pass pass, const StepPosition& position) {
  const MatrixView<const float> data = batch.matrix();
  const Index units = descriptor_->units();
  const bool corrupt = pass == Pass::training && descriptor_->dropout > 0.0f;
  const bool normalise = descriptor_->normalize == InputNormalization::l2;
  if (data.cols == units && !corrupt && !normalise && batch.weight.empty()) {
    output_ = {false, data, {}, nullptr};
    return;
  }
  if (dense_.empty()) dense_ = Matrix<float>::zeros(batch_capacity, units, compute.memory);
  const MatrixView<float> x = dense_.first_rows(batch.examples);
  for (Index b = 0; b < batch.examples; ++b) {
    double factor = batch.weight.empty() ? 1.0 : double(batch.weight[std::size_t(b)]);
    if (normalise) {
      double squares = 0.0;
      for (Index c = 0; c < data.cols; ++c) squares += double(data(b, c)) * double(data(b, c));
      if (squares > 0.0) factor /= std::sqrt(squares);
    }
    for (Index c = 0; c < data.cols; ++c) x(b, c) = float(factor * double(data(b, c)));
  }
  if (corrupt) {
    const Philox random =
        Philox::stream(position.seed, RandomPurpose::dropout, std::uint32_t(number_));
    compute.kernels.batch->dropout(descriptor_->dropout, random, position.step * batch_capacity, 0,
                                   x, x);
  }
  output_ = {false, x, {}, nullptr};
}

}  // namespace norn
