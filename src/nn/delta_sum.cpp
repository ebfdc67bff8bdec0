// SPDX-License-Identifier: Apache-2.0
// Sums of deltas in fixed point.
#include "norn/nn/delta_sum.h"

#include "norn/base/error.h"

#include <algorithm>
#include <array>

namespace norn {

// Rows begin where tensor cores can write them, however many of a layer's units a rank has:
// products take other ways where they cannot, with other bits.
Index DeltaSum::place_stride(const Shape& shape) {
  return (shape.units + 7) / 8 * 8;
}

DeltaSum::DeltaSum(const Shape& shape, bool on_host, const char* use)
    : shape_(shape),
      places_(on_host ? 0 : std::min<Index>(FixedTerms::kMost, shape.terms)),
      host_(on_host) {
  using enum Purpose;
  if (shape.joins || shape.terms > places_) {
    fine_ = {use, working, shape.examples, shape.units, Layout::whole};
    coarse_ = {use, working, shape.examples, shape.units, Layout::whole};
  }
  waiting_ = {use, working, places_ * shape.examples, place_stride(shape), Layout::whole};
  format_ = {use, state, 1};
  own_maximum_ = {use, working, 1};
  if (shape.joins && !on_host) always_ = {use, state, 1};
}

void DeltaSum::initialise(Memory& memory) {
  memory_ = &memory;
  own_maximum_.fill_zero();
  maximum_ = own_maximum_.data();
  fine_.fill_zero();
  coarse_.fill_zero();
  const std::int64_t one = 1;
  always_.write(&one, always_.size());
  const FixedFormat format = shape_.format.value_or(FixedFormat::for_maximum(1.0, shape_.terms));
  format_.write(&format, 1);
}

void DeltaSum::begin(Index examples, std::int64_t* flags) {
  examples_ = examples;
  used_places_ = 0;
  received_.count = 0;
  if (host_) {
    if (flags_ != nullptr && flags_[0] != 0) coarse_.fill_zero();  // the step before used them
    flags_ = coarse_used_ = flags;
    fine_.fill_zero();
    return;
  }
  flags_ = coarse_used_ = flags;
  // A GPU's flags cannot be read here, but coarse words that were taken are 0 again; and as terms
  // come one after the other, the first ones can overwrite the fine words.
  if (!coarse_is_zero_) coarse_.fill_zero();
  coarse_is_zero_ = true;
  fine_is_old_ = true;
}

MatrixView<float> DeltaSum::place(Index number) {
  const Index stride = place_stride(shape_);
  return {waiting_.data() + number * shape_.examples * stride, examples_, shape_.units, stride};
}

DeltaSum::Places DeltaSum::next_terms(const Compute& compute, Index wanted) {
  Places next;
  if (places_ == 0) return next;
  if (used_places_ == places_) fill_words(compute);
  for (; next.count < std::min(wanted, places_ - used_places_); ++next.count)
    next.of[next.count] = place(used_places_ + next.count);
  return next;
}

void DeltaSum::fill_words(const Compute& compute) {
  if (host_) return;
  FixedTerms terms;
  for (; terms.count < used_places_; ++terms.count) terms.of[terms.count] = place(terms.count);
  used_places_ = 0;
  const FixedMatrixView sum = view(shape_.first, shape_.units);
  coarse_is_zero_ = coarse_is_zero_ && terms.count == 0;
  if (fine_is_old_ && terms.count == 0)
    fine_.fill_zero();
  else if (fine_is_old_)
    compute.kernels.fixed->set(format_.data(), terms, sum);
  else
    compute.kernels.fixed->add(format_.data(), terms, sum);
  fine_is_old_ = false;
}

std::span<const MatrixView<const float>> DeltaSum::waiting() {
  require(!host_ && fine_is_old_, "DeltaSum: terms stand in words already");
  own_terms_.clear();
  for (Index i = 0; i < used_places_; ++i) own_terms_.push_back(place(i));
  return own_terms_;
}

void DeltaSum::receive(std::span<const MatrixView<const float>> terms) {
  require(used_places_ + Index(terms.size()) <= FixedTerms::kMost,
          "DeltaSum: more terms than are added at once");
  for (const MatrixView<const float>& term : terms) received_.of[received_.count++] = term;
}

void DeltaSum::join(
    const std::function<void(std::span<const MatrixView<std::int64_t>> words)>& add_words,
    const std::function<void(std::span<std::int64_t> flags)>& add_flags) {
  const std::array words{fine(), coarse()};
  if (host_) {
    add_flags({flags_, 2});
    add_words(std::span(words).first(flags_[0] != 0 ? 2 : 1));
    return;
  }
  // A GPU's flags cannot be read here: both words always count.
  add_words(words);
  coarse_used_ = always_.data();
}

FixedMatrixView DeltaSum::view(Index first_unit, Index units) {
  const Index first = first_unit - shape_.first;
  return {fine().columns(first, units), coarse().columns(first, units), coarse_used_, flags_ + 1};
}

void DeltaSum::add(const Compute& compute, Index first_unit, MatrixView<const float> term) {
  if (used_places_ < places_ && term.data == place(used_places_).data) {
    ++used_places_;
    return;
  }
  if (fine_is_old_) fill_words(compute);
  if (!host_) coarse_is_zero_ = false;
  compute.kernels.fixed->add(format_.data(), term, view(first_unit, term.cols));
}

DeltaSum::Sum DeltaSum::taken(const Compute& compute, Index first_unit, Index units) {
  Sum sum;
  if (used_places_ + received_.count == 0 && fine_.empty()) {  // nothing was added
    waiting_.fill_zero();
    used_places_ = 1;
  }
  if (fine_is_old_ && used_places_ + received_.count > 0) {
    sum.words.out_of_range = flags_ + 1;
    sum.terms = received_;
    for (Index i = 0; i < used_places_; ++i)
      sum.terms.of[sum.terms.count++] = place(i).columns(first_unit - shape_.first, units);
    return sum;
  }
  fill_words(compute);
  sum.words = view(first_unit, units);
  if (units == shape_.units) coarse_is_zero_ = true;
  return sum;
}

void DeltaSum::take(const Compute& compute, Index first_unit, MatrixView<float> delta) {
  const Sum sum = taken(compute, first_unit, delta.cols);
  if (delta.empty())
    memory_->fill_zero(maximum_, sizeof(float));
  else
    compute.kernels.fixed->to_float(format_.data(), sum.words, sum.terms, delta, maximum_);
}

void DeltaSum::take_delta(const Compute& compute, Index first_unit, const OutputSlope& slope,
                          MatrixView<float> delta, MatrixView<Bfloat16> rounded, bool adapts) {
  const Sum sum = taken(compute, first_unit, delta.cols);
  if (delta.empty())
    memory_->fill_zero(maximum_, sizeof(float));
  else
    compute.kernels.fixed->to_delta(format_.data(), adapts ? shape_.terms : 0, sum.words, sum.terms,
                                    slope, delta, rounded, maximum_);
}

void DeltaSum::adapt(const Compute& compute) {
  compute.kernels.fixed->adapt(maximum_, shape_.terms, format_.data());
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
