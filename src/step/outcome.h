// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fixed.h"
#include "src/step/numbered.h"
#include "src/tensor/block_partition.h"

#include <cstddef>
#include <span>

/// What the host learns of a step, in one piece of memory: flags of sums, then costs.
namespace norn {

/// Which sums and costs there are.
class OutcomeLayout {
 public:
  OutcomeLayout() = default;
  explicit OutcomeLayout(int layers);
  /// A layer that is the sum over blocks of its sources.
  void add_source_sum(int layer) { source_sum_[layer] = source_sums_++; }
  /// A layer whose own blocks have costs.
  void add_costs(int layer, Index blocks);
  /// A layer whose steps may be too long.
  void add_length(int layer) { lengths_[layer] = all_lengths_++; }

  Index bytes() const;
  Index source_sums() const { return source_sums_; }
  /// Its number among them.
  Index source_sum(int layer) const { return source_sum_[layer]; }

 private:
  friend class Outcome;
  Index flags() const { return Index(source_sum_.size()) + source_sums_; }

  Numbered<Index> source_sum_;
  Numbered<Range> costs_;    // among all costs
  Numbered<Index> lengths_;  // behind them
  Index source_sums_ = 0;
  Index all_costs_ = 0;
  Index all_lengths_ = 0;
};

/// That of a step, in memory of the device or in a copy of the host's.
class Outcome {
 public:
  /// `memory` holds layout.bytes() and begins where a double may.
  Outcome(const OutcomeLayout& layout, std::byte* memory)
      : layout_(layout),
        flags_(reinterpret_cast<SumFlags*>(memory)),
        costs_(reinterpret_cast<double*>(flags_ + layout.flags())) {}

  /// Of a hidden layer's delta, or of the rows of an output layer's SoftMax.
  SumFlags* sum(int layer) const { return flags_ + layer; }
  /// By OutcomeLayout::source_sum().
  SumFlags* source_sums() const { return flags_ + layout_.source_sum_.size(); }
  SumFlags* source_sum(int layer) const { return source_sums() + layout_.source_sum(layer); }
  /// Of a layer's own blocks.
  std::span<double> costs(int layer) const;
  /// Of a layer with OutcomeLayout::add_length(): 0, or by which share of something a step that was
  /// too long would have changed it.
  double* too_long(int layer) const {
    return costs_ + layout_.all_costs_ + layout_.lengths_[layer];
  }

 private:
  const OutcomeLayout& layout_;
  SumFlags* flags_;
  double* costs_;
};

}  // namespace norn
