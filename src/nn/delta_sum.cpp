// SPDX-License-Identifier: Apache-2.0
// Sums of deltas in fixed point.
#include "src/nn/delta_sum.h"

#include "norn/base/error.h"

#include <algorithm>
#include <array>

namespace norn {

// Rows begin where tensor cores can write them, however many of a layer's units a rank has:
// products take other ways where they cannot, with other bits.
Index DeltaSum::slot_stride(const Shape& shape) {
  return round_up_to_eight(shape.units);
}

DeltaSum::DeltaSum(const Shape& shape, bool on_host, const char* use)
    : shape_(shape),
      slots_(on_host ? 0 : std::min<Index>(PartialSums::kMost, shape.partial_sums)),
      host_(on_host) {
  using enum Purpose;
  if (shape.is_reduced || shape.partial_sums > slots_) {
    fine_ = {use, working, shape.examples, shape.units, Layout::whole};
    coarse_ = {use, working, shape.examples, shape.units, Layout::whole};
  }
  partial_sums_ = {use, working, slots_ * shape.examples, slot_stride(shape), Layout::whole};
  format_ = {use, state, 1};
  own_maximum_ = {use, working, 1};
  if (shape.is_reduced && !on_host) always_ = {use, state, 1};
}

void DeltaSum::initialise(Memory& memory) {
  memory_ = &memory;
  own_maximum_.fill_zero();
  maximum_ = own_maximum_.data();
  fine_.fill_zero();
  coarse_.fill_zero();
  const std::int64_t one = 1;
  always_.write(&one, always_.size());
  const FixedFormat format =
      shape_.format.value_or(FixedFormat::for_maximum(1.0, shape_.partial_sums));
  format_.write(&format, 1);
}

void DeltaSum::begin(Index examples, std::int64_t* flags) {
  examples_ = examples;
  used_slots_ = 0;
  received_.count = 0;
  if (host_) {
    if (flags_ != nullptr && flags_[0] != 0) coarse_.fill_zero();  // the step before used them
    flags_ = coarse_used_ = flags;
    fine_.fill_zero();
    return;
  }
  flags_ = coarse_used_ = flags;
  // A GPU's flags cannot be read here, but coarse accumulators that were taken are 0 again; and as
  // partial sums come one after the other, the first ones can overwrite the fine accumulators.
  if (!coarse_is_zero_) coarse_.fill_zero();
  coarse_is_zero_ = true;
  fine_is_old_ = true;
}

MatrixView<float> DeltaSum::slot(Index number) {
  const Index stride = slot_stride(shape_);
  return {partial_sums_.data() + number * shape_.examples * stride, examples_, shape_.units,
          stride};
}

DeltaSum::Slots DeltaSum::next_slots(const Compute& compute, Index wanted) {
  Slots next;
  if (slots_ == 0) return next;
  if (used_slots_ == slots_) fill_accumulators(compute);
  for (; next.count < std::min(wanted, slots_ - used_slots_); ++next.count)
    next.of[next.count] = slot(used_slots_ + next.count);
  return next;
}

void DeltaSum::fill_accumulators(const Compute& compute) {
  if (host_) return;
  PartialSums partial_sums;
  for (; partial_sums.count < used_slots_; ++partial_sums.count)
    partial_sums.of[partial_sums.count] = slot(partial_sums.count);
  used_slots_ = 0;
  const FixedMatrixView sum = view(shape_.first, shape_.units);
  coarse_is_zero_ = coarse_is_zero_ && partial_sums.count == 0;
  if (fine_is_old_ && partial_sums.count == 0)
    fine_.fill_zero();
  else if (fine_is_old_)
    compute.kernels.fixed->set(format_.data(), partial_sums, sum);
  else
    compute.kernels.fixed->add(format_.data(), partial_sums, sum);
  fine_is_old_ = false;
}

std::span<const MatrixView<const float>> DeltaSum::partial_sums() {
  require(!host_ && fine_is_old_, "DeltaSum: terms stand in words already");
  own_partial_sums_.clear();
  for (Index i = 0; i < used_slots_; ++i) own_partial_sums_.push_back(slot(i));
  return own_partial_sums_;
}

void DeltaSum::receive(std::span<const MatrixView<const float>> partial_sums) {
  require(used_slots_ + Index(partial_sums.size()) <= PartialSums::kMost,
          "DeltaSum: more terms than are added at once");
  for (const MatrixView<const float>& term : partial_sums) received_.of[received_.count++] = term;
}

void DeltaSum::reduce(
    const std::function<void(std::span<const MatrixView<std::int64_t>> accumulators)>&
        add_accumulators,
    const std::function<void(std::span<std::int64_t> flags)>& add_flags) {
  const std::array accumulators{fine(), coarse()};
  if (host_) {
    add_flags({flags_, 2});
    add_accumulators(std::span(accumulators).first(flags_[0] != 0 ? 2 : 1));
    return;
  }
  // A GPU's flags cannot be read here: both accumulators always count.
  add_accumulators(accumulators);
  coarse_used_ = always_.data();
}

FixedMatrixView DeltaSum::view(Index first_unit, Index units) {
  const Index first = first_unit - shape_.first;
  return {fine().columns(first, units), coarse().columns(first, units), coarse_used_, flags_ + 1};
}

void DeltaSum::add(const Compute& compute, Index first_unit, MatrixView<const float> term) {
  if (used_slots_ < slots_ && term.data == slot(used_slots_).data) {
    ++used_slots_;
    return;
  }
  if (fine_is_old_) fill_accumulators(compute);
  if (!host_) coarse_is_zero_ = false;
  compute.kernels.fixed->add(format_.data(), term, view(first_unit, term.cols));
}

DeltaSum::Sum DeltaSum::taken(const Compute& compute, Index first_unit, Index units) {
  Sum sum;
  if (used_slots_ + received_.count == 0 && fine_.empty()) {  // nothing was added
    partial_sums_.fill_zero();
    used_slots_ = 1;
  }
  if (fine_is_old_ && used_slots_ + received_.count > 0) {
    sum.accumulators.out_of_range = flags_ + 1;
    sum.partial_sums = received_;
    for (Index i = 0; i < used_slots_; ++i)
      sum.partial_sums.of[sum.partial_sums.count++] =
          slot(i).columns(first_unit - shape_.first, units);
    return sum;
  }
  fill_accumulators(compute);
  sum.accumulators = view(first_unit, units);
  if (units == shape_.units) coarse_is_zero_ = true;
  return sum;
}

void DeltaSum::take(const Compute& compute, Index first_unit, MatrixView<float> delta) {
  const Sum sum = taken(compute, first_unit, delta.cols);
  if (delta.empty())
    memory_->fill_zero(maximum_, sizeof(float));
  else
    compute.kernels.fixed->to_float(format_.data(), sum.accumulators, sum.partial_sums, delta,
                                    maximum_);
}

void DeltaSum::take_delta(const Compute& compute, Index first_unit, const OutputSlope& slope,
                          MatrixView<float> delta, MatrixView<Bfloat16> bf16, bool adapts) {
  const Sum sum = taken(compute, first_unit, delta.cols);
  if (delta.empty())
    memory_->fill_zero(maximum_, sizeof(float));
  else
    compute.kernels.fixed->to_delta(format_.data(), adapts ? shape_.partial_sums : 0,
                                    sum.accumulators, sum.partial_sums, slope, delta, bf16,
                                    maximum_);
}

void DeltaSum::adapt(const Compute& compute) {
  compute.kernels.fixed->adapt(maximum_, shape_.partial_sums, format_.data());
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
