// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/connection.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

/// What a layer's destinations say about its activations, summed so that order and grouping do not
/// matter.
namespace norn {

/// d cost / d activation of a layer [B x N], a sum over the blocks of all its destinations, in
/// fixed point. The format follows from the largest value of the step before, which is part of a
/// checkpoint. Pre-activations that are summed over the blocks of their sources are the same kind
/// of sum, in a format that is given.
///
/// On a GPU a few partial sums stay where products wrote them and are added together; where there
/// are no more than those, their sum never stands in memory as accumulators.
class DeltaSum {
 public:
  struct Shape {
    Index examples = 0;
    Index units = 0;
    Index partial_sums = 0;   ///< the largest number in a step: blocks of all destinations
    bool is_reduced = false;  ///< with other ranks, or partial sums of some units only
    Index first = 0;  ///< of the units: those from here on are summed here, the others elsewhere
    std::optional<FixedFormat> format = std::nullopt;  ///< kept for good
  };
  DeltaSum() = default;
  DeltaSum(const Shape& shape, bool on_host, const char* use = "sums of deltas");
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    visit(fine_);
    visit(coarse_);
    visit(partial_sums_);
    visit(format_);
    visit(own_maximum_);
    visit(always_);
  }
  /// Once its tensors stand in `memory`.
  void initialise(Memory& memory);

  bool allocated() const { return shape_.partial_sums > 0; }
  Index examples() const { return examples_; }  ///< of this step
  /// Starts a step of `examples` examples. `flags`: two integers of the device's memory, 0 when the
  /// step runs: whether coarse accumulators were used, and whether a partial sum was out of range.
  void begin(Index examples, std::int64_t* flags);
  /// Where up to `wanted` partial sums, at least one, of all units that are summed here may be
  /// written for add() to take them as they stand, one after the other. None where there are no
  /// such places.
  struct Slots {
    MatrixView<float> of[PartialSums::kMost];
    Index count = 0;
    std::span<const MatrixView<float>> all() const { return {of, std::size_t(count)}; }
  };
  Slots next_slots(const Compute& compute, Index wanted);
  MatrixView<float> next_slot(const Compute& compute) { return next_slots(compute, 1).of[0]; }
  /// Adds one partial sum to the columns from `first_unit` on. Several lanes may do so at a time
  /// (of the CPU: a GPU has one).
  void add(const Compute& compute, Index first_unit, MatrixView<const float> term);

  /// Brings all partial sums so far into the accumulators.
  void fill_accumulators(const Compute& compute);
  /// The partial sums so far, where all of them are kept and none stands in accumulators.
  std::span<const MatrixView<const float>> partial_sums();
  /// Other ranks' partial sums, of the units that take() will be asked for: they and those kept
  /// here are at most PartialSums::kMost.
  void receive(std::span<const MatrixView<const float>> partial_sums);
  /// What ranks have to add up between fill_accumulators() and take(): flags by sum where the host
  /// can read them, then the accumulators, of which each rank needs the sums of its own units.
  void reduce(const std::function<void(std::span<const MatrixView<std::int64_t>> accumulators)>&
                  add_accumulators,
              const std::function<void(std::span<std::int64_t> flags)>& add_flags);

  /// The sum of units [first_unit, first_unit + delta.cols) as floats; maximum() becomes their
  /// largest magnitude.
  void take(const Compute& compute, Index first_unit, MatrixView<float> delta);
  /// The same sum made into d cost / d pre-activation. `adapts`: adapt() too, for one rank.
  void take_delta(const Compute& compute, Index first_unit, const OutputSlope& slope,
                  MatrixView<float> delta, MatrixView<Bfloat16> bf16, bool adapts);
  std::span<float> maximum() { return {maximum_, 1}; }
  /// From now on maximum() stands there, in the device's memory: beside those of other sums.
  void keep_maximum_at(float* place) { maximum_ = place; }
  /// Chooses the next step's format from maximum(), which must be that of all ranks by now.
  void adapt(const Compute& compute);

  /// Read from and written to the device: not within a step.
  int fine_bits() const;
  /// All that a step leaves behind here.
  VectorView<FixedFormat> format() { return format_.view(); }
  void set_fine_bits(int bits);

 private:
  /// Accumulators, or partial sums.
  struct Sum {
    FixedMatrixView accumulators;
    PartialSums partial_sums;
  };
  static Index slot_stride(const Shape& shape);
  MatrixView<float> slot(Index number);
  FixedMatrixView view(Index first_unit, Index units);
  MatrixView<std::int64_t> fine() { return fine_.first_rows(examples_); }
  MatrixView<std::int64_t> coarse() { return coarse_.first_rows(examples_); }
  Sum taken(const Compute& compute, Index first_unit, Index units);
  Shape shape_;
  HeldMatrix<std::int64_t> fine_;
  HeldMatrix<std::int64_t> coarse_;
  HeldBuffer<float> partial_sums_;  // slots of partial sums, [examples x units, padded] each
  Index slots_ = 0;
  Index used_slots_ = 0;
  std::int64_t* flags_ = nullptr;        // coarse used, out of range
  std::int64_t* coarse_used_ = nullptr;  // the first flag, or one that is always up
  HeldBuffer<std::int64_t> always_;      // that one
  HeldBuffer<FixedFormat> format_;       // one
  HeldBuffer<float> own_maximum_;        // one
  float* maximum_ = nullptr;             // that one, or where it is kept
  Memory* memory_ = nullptr;
  bool host_ = true;            // whether the flags can be read here
  bool fine_is_old_ = false;    // on a GPU: of the step before, until the first partial sum
  bool coarse_is_zero_ = true;  // on a GPU: taken whole
  Index examples_ = 0;
  std::vector<MatrixView<const float>> own_partial_sums_;  // what partial_sums() gave
  PartialSums received_;
};

}  // namespace norn
