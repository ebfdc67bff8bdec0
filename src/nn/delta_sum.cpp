// SPDX-License-Identifier: Apache-2.0
// Sums of deltas in fixed point.
#include "norn/nn/delta_sum.h"

namespace norn {

DeltaSum::DeltaSum(Index examples, Index units, Index terms, std::int64_t* flags, Memory& memory)
    : fine_(Matrix<std::int64_t>::zeros(examples, units, memory)),
      coarse_(Matrix<std::int64_t>::zeros(examples, units, memory)),
      flags_(flags),
      format_(1, memory),
      maximum_(Buffer<float>::zeros(1, memory)),
      host_(memory.is_host()),
      terms_(terms) {
  const FixedFormat format = FixedFormat::for_maximum(1.0, terms);
  format_.write(&format, 1);
}

void DeltaSum::begin(Index examples) {
  if (!host_ || flags_[0] != 0) coarse_.fill_zero();
  fine_.fill_zero();
  examples_ = examples;
}

FixedMatrixView DeltaSum::view(Index first_unit, Index units) {
  return {fine().columns(first_unit, units), coarse().columns(first_unit, units), flags_,
          flags_ + 1};
}

void DeltaSum::add(const Compute& compute, Index first_unit, MatrixView<const float> term) {
  compute.kernels.fixed->add(format_.data(), term, view(first_unit, term.cols));
}

void DeltaSum::take(const Compute& compute, Index first_unit, MatrixView<float> delta) {
  maximum_.fill_zero();
  if (!delta.empty())
    compute.kernels.fixed->to_float(format_.data(), view(first_unit, delta.cols), delta,
                                    maximum_.data());
}

void DeltaSum::adapt(const Compute& compute) {
  compute.kernels.fixed->adapt(maximum_.data(), terms_, format_.data());
}

int DeltaSum::fine_bits() const {
  FixedFormat format;
  format_.read(&format, 1);
  return format.fine_bits;
}

void DeltaSum::set_fine_bits(int bits) {
  FixedFormat format;
  format_.read(&format, 1);
  format.fine_bits = bits;
  format_.write(&format, 1);
}

}  // namespace norn
