// SPDX-License-Identifier: Apache-2.0
// Partial sums on their way into accumulators.
#include "src/nn/accumulators.h"

#include "norn/base/error.h"

#include <algorithm>
#include <array>

namespace norn {

Accumulators::Accumulators(const SumShape& shape, const char* use)
    : fine(use, Purpose::working, shape.examples, shape.units, Layout::whole),
      coarse(use, Purpose::working, shape.examples, shape.units, Layout::whole) {}

void Accumulators::fill_zero() {
  fine.fill_zero();
  coarse.fill_zero();
}

FixedMatrixView Accumulators::part(const SumRange& range, Index first, SumFlags* flags) {
  const auto cut = [&](HeldMatrix<std::int64_t>& accumulators) {
    return accumulators.view()
        .row_range(range.examples.begin, range.examples.count())
        .columns(range.units.begin - first, range.units.count());
  };
  return {cut(fine), cut(coarse), &flags->coarse_used, &flags->out_of_range};
}

void HostSum::begin(Index examples, SumFlags* flags) {
  examples_ = examples;
  if (flags_ != nullptr && flags_->coarse_used != 0)  // in the step before
    accumulators_.coarse.fill_zero();
  accumulators_.fine.fill_zero();
  flags_ = flags;
}

void HostSum::add(const Compute& compute, const FixedFormat* format, Index first_unit,
                  MatrixView<const float> partial_sum) {
  const Range units{first_unit, first_unit + partial_sum.cols};
  compute.kernels.fixed->add(format, partial_sum,
                             accumulators_.part({{0, examples_}, units}, first_, flags_));
}

void HostSum::reduce(const Compute&, const FixedFormat*, const ReduceAccumulators& add_accumulators,
                     const ReduceFlags& add_flags) {
  std::array flags{flags_->coarse_used, flags_->out_of_range};
  add_flags(flags);
  *flags_ = {flags[0], flags[1]};
  const std::array accumulators{accumulators_.fine.first_rows(examples_),
                                accumulators_.coarse.first_rows(examples_)};
  add_accumulators(std::span(accumulators).first(flags_->coarse_used != 0 ? 2 : 1));
}

// Rows begin where tensor cores can write them, however many of a layer's units a rank has:
// products take other ways where they cannot, with other bits.
Index DeviceSum::slot_stride(const SumShape& shape) {
  return round_up_to_eight(shape.units);
}

DeviceSum::DeviceSum(const SumShape& shape, const char* use)
    : shape_(shape), slots_(std::min<Index>(PartialSums::kMost, shape.partial_sums)) {
  using enum Purpose;
  if (shape.is_reduced || shape.partial_sums > slots_) accumulators_ = {shape, use};
  partial_sums_ = {use, working, slots_ * shape.examples, slot_stride(shape), Layout::whole};
  if (shape.is_reduced) always_ = {use, state, 1};
}

void DeviceSum::initialise() {
  accumulators_.fill_zero();
  const std::int64_t one = 1;
  always_.write(&one, always_.size());
}

// A GPU's flags cannot be read here, but coarse accumulators that were taken are 0 again; and as
// partial sums come one after the other, the first ones can overwrite the fine accumulators.
void DeviceSum::begin(Index examples, SumFlags* flags) {
  examples_ = examples;
  used_slots_ = 0;
  received_.count = 0;
  flags_ = flags;
  coarse_used_ = &flags->coarse_used;
  if (!coarse_is_zero_) accumulators_.coarse.fill_zero();
  coarse_is_zero_ = true;
  fine_is_old_ = true;
}

MatrixView<float> DeviceSum::slot(Index number) {
  const Index stride = slot_stride(shape_);
  return {partial_sums_.data() + number * shape_.examples * stride, examples_, shape_.units,
          stride};
}

FixedMatrixView DeviceSum::view(const SumRange& range) {
  FixedMatrixView view = accumulators_.part(range, shape_.first, flags_);
  view.coarse_used = coarse_used_;
  return view;
}

SumSlots DeviceSum::next_slots(const Compute& compute, const FixedFormat* format, Index wanted) {
  SumSlots next;
  if (used_slots_ == slots_) fill_accumulators(compute, format);
  for (; next.count < std::min(wanted, slots_ - used_slots_); ++next.count)
    next.of[next.count] = slot(used_slots_ + next.count);
  return next;
}

void DeviceSum::fill_accumulators(const Compute& compute, const FixedFormat* format) {
  PartialSums partial_sums;
  for (; partial_sums.count < used_slots_; ++partial_sums.count)
    partial_sums.of[partial_sums.count] = slot(partial_sums.count);
  used_slots_ = 0;
  const FixedMatrixView sum = view(shape_.first, shape_.units);
  coarse_is_zero_ = coarse_is_zero_ && partial_sums.count == 0;
  if (fine_is_old_ && partial_sums.count == 0)
    accumulators_.fine.fill_zero();
  else if (fine_is_old_)
    compute.kernels.fixed->set(format, partial_sums, sum);
  else
    compute.kernels.fixed->add(format, partial_sums, sum);
  fine_is_old_ = false;
}

std::span<const MatrixView<const float>> DeviceSum::partial_sums() {
  require(fine_is_old_, "DeviceSum: partial sums stand in accumulators already");
  own_partial_sums_.clear();
  for (Index i = 0; i < used_slots_; ++i) own_partial_sums_.push_back(slot(i));
  return own_partial_sums_;
}

void DeviceSum::receive(std::span<const MatrixView<const float>> partial_sums) {
  require(used_slots_ + Index(partial_sums.size()) <= PartialSums::kMost,
          "DeviceSum: more partial sums than are added at once");
  for (const MatrixView<const float>& one : partial_sums) received_.of[received_.count++] = one;
}

// Flags cannot be read here: both accumulators always count.
void DeviceSum::reduce(const Compute& compute, const FixedFormat* format,
                       const ReduceAccumulators& add_accumulators, const ReduceFlags&) {
  fill_accumulators(compute, format);
  const std::array accumulators{accumulators_.fine.first_rows(examples_),
                                accumulators_.coarse.first_rows(examples_)};
  add_accumulators(accumulators);
  coarse_used_ = always_.data();
}

void DeviceSum::add(const Compute& compute, const FixedFormat* format, Index first_unit,
                    MatrixView<const float> partial_sum) {
  if (used_slots_ < slots_ && partial_sum.data == slot(used_slots_).data) {
    ++used_slots_;
    return;
  }
  if (fine_is_old_) fill_accumulators(compute, format);
  coarse_is_zero_ = false;
  compute.kernels.fixed->add(format, partial_sum, view(first_unit, partial_sum.cols));
}

SumParts DeviceSum::taken(const Compute& compute, const FixedFormat* format,
                          const SumRange& range) {
  SumParts parts;
  if (used_slots_ + received_.count == 0 && accumulators_.fine.empty()) {  // nothing was added
    partial_sums_.fill_zero();
    used_slots_ = 1;
  }
  if (fine_is_old_ && used_slots_ + received_.count > 0) {
    parts.accumulators.out_of_range = &flags_->out_of_range;
    parts.partial_sums = received_;
    for (Index i = 0; i < used_slots_; ++i)
      parts.partial_sums.of[parts.partial_sums.count++] =
          slot(i)
              .row_range(range.examples.begin, range.examples.count())
              .columns(range.units.begin - shape_.first, range.units.count());
    return parts;
  }
  fill_accumulators(compute, format);
  parts.accumulators = view(range);
  const bool is_whole = range.units.count() == shape_.units && range.examples.count() == examples_;
  if (is_whole) coarse_is_zero_ = true;
  return parts;
}

}  // namespace norn
