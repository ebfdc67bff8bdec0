// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/nn/connection.h"

#include <span>

/// What a layer's destinations say about its activations, summed so that order and grouping do not
/// matter.
namespace norn {

/// d cost / d activation of a layer [B x N], a sum over the blocks of all its destinations, in
/// fixed point. The format follows from the largest value of the step before, which is part of a
/// checkpoint.
class DeltaSum {
 public:
  DeltaSum() = default;
  /// `terms`: the largest number of terms in a step: blocks of all destinations.
  DeltaSum(Index examples, Index units, Index terms, Memory& memory);

  bool allocated() const { return terms_ > 0; }
  /// Starts a step of `examples` examples.
  void begin(Index examples);
  /// Adds one term to the columns from `first_unit` on. Several lanes may do so at a time.
  void add(const Compute& compute, Index first_unit, MatrixView<const float> term);

  /// What ranks have to add up before take(): flags by sum, then fine words, and coarse words where
  /// any rank used them.
  std::span<std::int64_t> flags() { return {flags_.data(), 2}; }
  MatrixView<std::int64_t> fine() { return fine_.first_rows(examples_); }
  MatrixView<std::int64_t> coarse() { return coarse_.first_rows(examples_); }
  bool coarse_used() const { return flags_.data()[0] != 0; }
  bool out_of_range() const { return flags_.data()[1] != 0; }

  /// The sum of units [first_unit, first_unit + delta.cols) as floats; returns their largest
  /// magnitude.
  float take(const Compute& compute, Index first_unit, MatrixView<float> delta);
  /// Chooses the next step's format from the largest magnitude over all ranks.
  void adapt(float maximum);

  int fine_bits() const { return format_.fine_bits; }
  void set_fine_bits(int bits) { format_.fine_bits = bits; }
  Index bytes() const { return fine_.bytes() + coarse_.bytes(); }

 private:
  FixedMatrixView view(Index first_unit, Index units);
  Matrix<std::int64_t> fine_;
  Matrix<std::int64_t> coarse_;
  Buffer<std::int64_t> flags_;  // coarse used, out of range
  FixedFormat format_;
  Index terms_ = 0;
  Index examples_ = 0;
};

}  // namespace norn
