// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/connection.h"

#include <functional>
#include <span>
#include <vector>

/// Where the partial sums of a sum over blocks go until it is taken: on the CPU into accumulators
/// at once, on a GPU into slots first.
namespace norn {

struct SumShape {
  Index examples = 0;
  Index units = 0;
  Index partial_sums = 0;   ///< the largest number in a step: blocks of all destinations
  bool is_reduced = false;  ///< with other ranks, or partial sums of some units only
  Index first = 0;  ///< of the units: those from here on are summed here, the others elsewhere
};

/// Places of partial sums, which are added as they stand.
struct SumSlots {
  MatrixView<float> of[PartialSums::kMost];
  Index count = 0;
  std::span<const MatrixView<float>> all() const { return {of, std::size_t(count)}; }
};

/// The part of a sum that is taken at a time.
struct SumRange {
  Range examples;
  Range units;
};

/// What a sum is taken from: accumulators, or partial sums.
struct SumParts {
  FixedMatrixView accumulators;
  PartialSums partial_sums;
};

/// What adds up accumulators and flags of all ranks, in place. Of the accumulators each rank needs
/// the sums of its own units.
using ReduceAccumulators = std::function<void(std::span<const MatrixView<std::int64_t>>)>;
using ReduceFlags = std::function<void(std::span<std::int64_t>)>;

/// A fine and a coarse accumulator for each example and unit.
struct Accumulators {
  HeldMatrix<std::int64_t> fine;
  HeldMatrix<std::int64_t> coarse;

  Accumulators() = default;
  Accumulators(const SumShape& shape, const char* use);
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    visit(fine);
    visit(coarse);
  }
  void fill_zero();
  /// Of units that are counted from `first` on.
  FixedMatrixView part(const SumRange& range, Index first, SumFlags* flags);
};

/// On the CPU, where lanes add to the same accumulators and flags can be read at once.
class HostSum {
 public:
  HostSum() = default;
  HostSum(const SumShape& shape, const char* use)
      : first_(shape.first), accumulators_(shape, use) {}
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    accumulators_.for_each_tensor(visit);
  }
  void initialise() { accumulators_.fill_zero(); }

  void begin(Index examples, SumFlags* flags);
  SumSlots next_slots(const Compute&, const FixedFormat*, Index) { return {}; }
  void add(const Compute& compute, const FixedFormat* format, Index first_unit,
           MatrixView<const float> partial_sum);
  void reduce(const Compute& compute, const FixedFormat* format,
              const ReduceAccumulators& add_accumulators, const ReduceFlags& add_flags);
  SumParts taken(const Compute&, const FixedFormat*, const SumRange& range) {
    return {accumulators_.part(range, first_, flags_), {}};
  }

 private:
  Index first_ = 0;
  Accumulators accumulators_;
  Index examples_ = 0;
  SumFlags* flags_ = nullptr;
};

/// On a GPU, whose partial sums come one after the other. A few stay where products wrote them and
/// are added together; where there are no more than those, their sum never stands in accumulators.
class DeviceSum {
 public:
  DeviceSum() = default;
  DeviceSum(const SumShape& shape, const char* use);
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    accumulators_.for_each_tensor(visit);
    visit(partial_sums_);
    visit(always_);
  }
  void initialise();

  void begin(Index examples, SumFlags* flags);
  SumSlots next_slots(const Compute& compute, const FixedFormat* format, Index wanted);
  void add(const Compute& compute, const FixedFormat* format, Index first_unit,
           MatrixView<const float> partial_sum);
  void reduce(const Compute& compute, const FixedFormat* format,
              const ReduceAccumulators& add_accumulators, const ReduceFlags& add_flags);
  SumParts taken(const Compute& compute, const FixedFormat* format, const SumRange& range);

  Index examples() const { return examples_; }
  /// The partial sums so far, of which none stands in accumulators.
  std::span<const MatrixView<const float>> partial_sums();
  /// Other ranks' partial sums, of the units that taken() will be asked for: they and those kept
  /// here are at most PartialSums::kMost.
  void receive(std::span<const MatrixView<const float>> partial_sums);

 private:
  static Index slot_stride(const SumShape& shape);
  MatrixView<float> slot(Index number);
  FixedMatrixView view(const SumRange& range);
  FixedMatrixView view(Index first_unit, Index units) {
    return view({{0, examples_}, {first_unit, first_unit + units}});
  }
  /// Brings all partial sums so far into the accumulators.
  void fill_accumulators(const Compute& compute, const FixedFormat* format);

  SumShape shape_;
  Accumulators accumulators_;
  HeldBuffer<float> partial_sums_;  // slots, [examples x units, padded] each
  Index slots_ = 0;
  Index used_slots_ = 0;
  HeldBuffer<std::int64_t> always_;      // a flag that is always up
  std::int64_t* coarse_used_ = nullptr;  // the step's flag, or that one
  SumFlags* flags_ = nullptr;
  bool fine_is_old_ = false;    // of the step before, until the first partial sum
  bool coarse_is_zero_ = true;  // taken whole
  Index examples_ = 0;
  std::vector<MatrixView<const float>> own_partial_sums_;  // what partial_sums() gave
  PartialSums received_;
};

}  // namespace norn
