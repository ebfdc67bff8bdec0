// SPDX-License-Identifier: Apache-2.0
// Sums of deltas in fixed point.
#include "norn/nn/delta_sum.h"

#include <algorithm>
#include <cmath>

namespace norn {

DeltaSum::DeltaSum(Index examples, Index units, Index terms, Memory& memory)
    : fine_(Matrix<std::int64_t>::zeros(examples, units, memory)),
      coarse_(Matrix<std::int64_t>::zeros(examples, units, memory)),
      flags_(Buffer<std::int64_t>::zeros(2, memory)),
      format_(FixedFormat::for_maximum(1.0, terms)),
      terms_(terms) {}

void DeltaSum::begin(Index examples) {
  if (coarse_used()) coarse_.fill_zero();
  fine_.fill_zero();
  flags_.fill_zero();
  examples_ = examples;
}

FixedMatrixView DeltaSum::view(Index first_unit, Index units) {
  return {fine().columns(first_unit, units), coarse().columns(first_unit, units), flags_.data(),
          flags_.data() + 1};
}

void DeltaSum::add(const Compute& compute, Index first_unit, MatrixView<const float> term) {
  compute.kernels.fixed->add(format_, term, view(first_unit, term.cols));
}

float DeltaSum::take(const Compute& compute, Index first_unit, MatrixView<float> delta) {
  float maximum = 0.0f;
  if (!delta.empty())
    compute.kernels.fixed->to_float(format_, view(first_unit, delta.cols), delta, &maximum);
  return maximum;
}

void DeltaSum::adapt(float maximum) {
  if (maximum > 0.0f && std::isfinite(maximum))
    format_ = FixedFormat::for_maximum(double(maximum), terms_);
}

}  // namespace norn
