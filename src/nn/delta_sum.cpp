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
  examples_ = examples;
  if (host_) {
    if (flags_[0] != 0) coarse_.fill_zero();
    fine_.fill_zero();
    return;
  }
  // A GPU's flags cannot be read here, but coarse words that were taken are 0 again; and as terms
  // come one after the other, the first one can overwrite the fine words.
  if (!coarse_is_zero_) coarse_.fill_zero();
  coarse_is_zero_ = false;
  fine_is_old_ = true;
}

FixedMatrixView DeltaSum::view(Index first_unit, Index units) {
  return {fine().columns(first_unit, units), coarse().columns(first_unit, units), flags_,
          flags_ + 1};
}

void DeltaSum::add(const Compute& compute, Index first_unit, MatrixView<const float> term) {
  const FixedMatrixView sum = view(first_unit, term.cols);
  if (fine_is_old_ && term.cols == fine_.view().cols) {
    fine_is_old_ = false;
    compute.kernels.fixed->set(format_.data(), term, sum);
    return;
  }
  if (fine_is_old_) fine_.fill_zero();
  if (!host_) fine_is_old_ = false;
  compute.kernels.fixed->add(format_.data(), term, sum);
}

FixedMatrixView DeltaSum::taken(Index first_unit, Index units) {
  if (fine_is_old_) fine_.fill_zero();
  if (host_) return view(first_unit, units);
  fine_is_old_ = false;
  coarse_is_zero_ = units == fine_.view().cols;
  return view(first_unit, units);
}

void DeltaSum::take(const Compute& compute, Index first_unit, MatrixView<float> delta) {
  const FixedMatrixView sum = taken(first_unit, delta.cols);
  if (delta.empty())
    maximum_.fill_zero();
  else
    compute.kernels.fixed->to_float(format_.data(), sum, delta, maximum_.data());
}

void DeltaSum::take_delta(const Compute& compute, Index first_unit, const OutputSlope& slope,
                          MatrixView<float> delta, MatrixView<Bfloat16> rounded, bool adapts) {
  const FixedMatrixView sum = taken(first_unit, delta.cols);
  if (delta.empty())
    maximum_.fill_zero();
  else
    compute.kernels.fixed->to_delta(format_.data(), adapts ? terms_ : 0, sum, slope, delta, rounded,
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
