// SPDX-License-Identifier: Apache-2.0
// Sums of deltas in fixed point.
#include "src/nn/delta_sum.h"

#include "norn/base/error.h"

namespace norn {

DeltaSum::DeltaSum(const SumShape& shape, bool on_host, const char* use,
                   std::optional<FixedFormat> format)
    : most_(shape.partial_sums),
      given_format_(format),
      format_(use, Purpose::state, 1),
      own_maximum_(use, Purpose::working, 1) {
  if (on_host)
    sum_ = HostSum(shape, use);
  else
    sum_ = DeviceSum(shape, use);
}

void DeltaSum::initialise(Memory& memory) {
  memory_ = &memory;
  own_maximum_.fill_zero();
  maximum_ = own_maximum_.data();
  std::visit([](auto& sum) { sum.initialise(); }, sum_);
  const FixedFormat format = given_format_.value_or(FixedFormat::for_maximum(1.0, most_));
  format_.write(&format, 1);
}

void DeltaSum::begin(Index examples, SumFlags* flags) {
  std::visit([&](auto& sum) { sum.begin(examples, flags); }, sum_);
}

SumSlots DeltaSum::next_slots(const Compute& compute, Index wanted) {
  return std::visit([&](auto& sum) { return sum.next_slots(compute, format_.data(), wanted); },
                    sum_);
}

void DeltaSum::add(const Compute& compute, Index first_unit, MatrixView<const float> partial_sum) {
  std::visit([&](auto& sum) { sum.add(compute, format_.data(), first_unit, partial_sum); }, sum_);
}

void DeltaSum::reduce(const Compute& compute, const ReduceAccumulators& add_accumulators,
                      const ReduceFlags& add_flags) {
  std::visit([&](auto& sum) { sum.reduce(compute, format_.data(), add_accumulators, add_flags); },
             sum_);
}

DeviceSum& DeltaSum::on_device() {
  DeviceSum* sum = std::get_if<DeviceSum>(&sum_);
  require(sum != nullptr, "DeltaSum: partial sums are kept on GPUs alone");
  return *sum;
}

SumParts DeltaSum::taken(const Compute& compute, const SumRange& range) {
  return std::visit([&](auto& sum) { return sum.taken(compute, format_.data(), range); }, sum_);
}

void DeltaSum::take(const Compute& compute, const SumRange& range, MatrixView<float> delta) {
  const SumParts parts = taken(compute, range);
  if (delta.empty())
    memory_->fill_zero(maximum_, sizeof(float));
  else
    compute.kernels.fixed->to_float(format_.data(), parts.accumulators, parts.partial_sums, delta,
                                    maximum_);
}

void DeltaSum::take(const Compute& compute, Index first_unit, MatrixView<float> delta) {
  take(compute, {{0, delta.rows}, {first_unit, first_unit + delta.cols}}, delta);
}

void DeltaSum::take_rows(const Compute& compute, Index first_example, MatrixView<float> delta) {
  take(compute, {{first_example, first_example + delta.rows}, {0, delta.cols}}, delta);
}

void DeltaSum::take_delta(const Compute& compute, Index first_unit, const OutputSlope& slope,
                          MatrixView<float> delta, MatrixView<Bfloat16> bf16, bool adapts) {
  const SumParts parts = taken(compute, {{0, delta.rows}, {first_unit, first_unit + delta.cols}});
  if (delta.empty())
    memory_->fill_zero(maximum_, sizeof(float));
  else
    compute.kernels.fixed->to_delta(format_.data(), adapts ? most_ : 0, parts.accumulators,
                                    parts.partial_sums, slope, delta, bf16, maximum_);
}

void DeltaSum::adapt(const Compute& compute) {
  compute.kernels.fixed->adapt(maximum_, most_, format_.data());
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
