// SPDX-License-Identifier: Apache-2.0
// Input layers: weighting, normalising and corrupting a batch.
#include "src/step/input_layer.h"

#include "norn/base/error.h"

#include <algorithm>

namespace norn {
namespace {

BatchKernels& batch_kernels(const Kernels& kernels) {
  return kernels.prefetch_batch ? *kernels.prefetch_batch : *kernels.batch;
}

SparseKernels& sparse_kernels(const Kernels& kernels) {
  return kernels.prefetch_sparse ? *kernels.prefetch_sparse : *kernels.sparse;
}

}  // namespace

InputLayer::InputLayer(const LayerDescriptor& descriptor, int number, bool sparse, Index rows,
                       float denoising, Buffer<float>& feature_weights)
    : descriptor_(&descriptor),
      number_(number),
      sparse_(sparse),
      rows_(rows),
      denoising_(denoising),
      feature_weight_(feature_weights) {}

void InputLayer::set_feature_weights(const std::vector<float>& weights) {
  require(Index(weights.size()) == feature_weight_.size(),
          "InputLayer::set_feature_weights: a weight for every unit");
  feature_weight_.write(weights.data(), feature_weight_.size());
  has_feature_weights_ = true;
}

std::vector<float> InputLayer::feature_weights() const {
  require(has_feature_weights_, "InputLayer::feature_weights: none were set");
  std::vector<float> weights(std::size_t(feature_weight_.size()));
  feature_weight_.read(weights.data(), feature_weight_.size());
  return weights;
}

void InputLayer::prepare(const Compute& compute, const BatchView& batch, Index batch_capacity,
                         Pass pass, bool transpose, const StepPosition& position) {
  Copy& copy = copies_[turn_];
  if (compute.kernels.prefetch_memory) turn_ = (turn_ + 1) % copies_.size();
  if (sparse_)
    prepare_sparse(compute, batch, pass, transpose, position, copy);
  else
    prepare_dense(compute, batch, batch_capacity, pass, position, copy);
}

void InputLayer::prepare_sparse(const Compute& compute, const BatchView& batch, Pass pass,
                                bool transpose, const StepPosition& position, Copy& copy) {
  InputPreparation preparation;
  preparation.feature_weight = feature_weight_.view();
  preparation.normalise_l2 = descriptor_->normalize == InputNormalization::l2;
  if (pass == Pass::training) {
    preparation.denoising = denoising_;
    preparation.random =
        Philox::stream(position.seed, RandomPurpose::denoising, std::uint32_t(number_));
    preparation.epoch = position.epoch;
  }
  CsrView x = batch.sparse;
  const bool unchanged = !weights_features() && !preparation.normalise_l2 &&
                         preparation.denoising == 0.0f && batch.weight.empty();
  if (!unchanged) {
    batch_kernels(compute.kernels)
        .prepare(x, batch.weight, batch.example, preparation, copy.prepared);
    x = copy.prepared.view();
  }
  x.cols = descriptor_->units();  // a layer may be wider than its data
  output_ = {true, {}, x, nullptr};
  if (!transpose) return;
  sparse_kernels(compute.kernels).transpose(x, copy.transposed);
  output_.transposed = &copy.transposed;
}

void InputLayer::prepare_dense(const Compute& compute, const BatchView& batch, Index batch_capacity,
                               Pass pass, const StepPosition& position, Copy& copy) {
  const MatrixView<const float> data = batch.dense;
  const Index units = descriptor_->units();
  const bool corrupt = pass == Pass::training && descriptor_->dropout > 0.0f;
  const bool normalise = descriptor_->normalize == InputNormalization::l2;
  if (data.cols == units && !corrupt && !normalise && batch.weight.empty()) {
    output_ = {false, data, {}, nullptr, batch.first};
    return;
  }
  Memory& memory =
      compute.kernels.prefetch_memory ? *compute.kernels.prefetch_memory : compute.memory;
  if (copy.dense.cols() != units || copy.dense.rows() < batch.examples)
    copy.dense = Matrix<float>(std::max(rows_, batch.examples), units, memory);
  const MatrixView<float> x = copy.dense.first_rows(batch.examples);
  BatchKernels& kernels = batch_kernels(compute.kernels);
  kernels.prepare_dense(data, batch.weight, normalise, x);
  if (corrupt) {
    const Philox random =
        Philox::stream(position.seed, RandomPurpose::dropout, std::uint32_t(number_));
    const Index row = position.step * batch_capacity + batch.first;
    kernels.mask(DropoutMask::inverted(descriptor_->dropout, random, row, 0), x, x);
  }
  output_ = {false, x, {}, nullptr, batch.first};
}

}  // namespace norn
