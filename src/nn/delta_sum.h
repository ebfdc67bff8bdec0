// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/accumulators.h"

#include <optional>
#include <variant>

/// What a layer's destinations say about its activations, summed so that order and grouping do not
/// matter.
namespace norn {

/// d cost / d activation of a layer [B x N], a sum over the blocks of all its destinations, in
/// fixed point. The format follows from the largest value of the step before, which is part of a
/// checkpoint. Pre-activations that are summed over the blocks of their sources are the same kind
/// of sum, in a format that is given and kept.
class DeltaSum {
 public:
  DeltaSum() = default;
  DeltaSum(const SumShape& shape, bool on_host, const char* use = "sums of deltas",
           std::optional<FixedFormat> format = std::nullopt);
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    std::visit([&](auto& sum) { sum.for_each_tensor(visit); }, sum_);
    visit(format_);
    visit(own_maximum_);
  }
  /// Once its tensors stand in `memory`.
  void initialise(Memory& memory);

  bool allocated() const { return most_ > 0; }
  /// Starts a step of `examples` examples. `flags`, in the device's memory, are 0 when it runs.
  void begin(Index examples, SumFlags* flags);
  /// Where up to `wanted` partial sums, at least one, of all units that are summed here may be
  /// written for add() to take them as they stand, one after the other. None where there are no
  /// such places.
  SumSlots next_slots(const Compute& compute, Index wanted);
  MatrixView<float> next_slot(const Compute& compute) { return next_slots(compute, 1).of[0]; }
  /// Adds one partial sum to the columns from `first_unit` on. Several lanes may do so at a time
  /// (of the CPU: a GPU has one).
  void add(const Compute& compute, Index first_unit, MatrixView<const float> partial_sum);
  /// Adds up those of all ranks, before take(): flags where the host can read them, then the
  /// accumulators.
  void reduce(const Compute& compute, const ReduceAccumulators& add_accumulators,
              const ReduceFlags& add_flags);
  /// Where partial sums can be kept: on a GPU.
  DeviceSum& on_device();

  /// The sum of units [first_unit, first_unit + delta.cols) as floats. Their largest magnitude is
  /// kept.
  void take(const Compute& compute, Index first_unit, MatrixView<float> delta);
  /// The sum of all units for the examples from `first_example` on.   delta [rows x units]
  void take_rows(const Compute& compute, Index first_example, MatrixView<float> delta);
  /// The same sum made into d cost / d pre-activation. `adapts`: adapt() too, for one rank.
  void take_delta(const Compute& compute, Index first_unit, const OutputSlope& slope,
                  MatrixView<float> delta, MatrixView<Bfloat16> bf16, bool adapts);
  /// From now on the largest magnitude stands there, in the device's memory: beside those of other
  /// sums.
  void keep_maximum_at(float* place) { maximum_ = place; }
  /// Chooses the next step's format from the largest magnitude, which must be that of all ranks by
  /// now.
  void adapt(const Compute& compute);

  /// Read from and written to the device: not within a step.
  int fine_bits() const;
  void set_fine_bits(int bits);

 private:
  SumParts taken(const Compute& compute, const SumRange& range);
  void take(const Compute& compute, const SumRange& range, MatrixView<float> delta);

  Index most_ = 0;  // partial sums of a step
  std::optional<FixedFormat> given_format_;
  std::variant<HostSum, DeviceSum> sum_;
  HeldBuffer<FixedFormat> format_;  // one
  HeldBuffer<float> own_maximum_;   // one
  float* maximum_ = nullptr;        // that one, or where it is kept
  Memory* memory_ = nullptr;
};

}  // namespace norn
