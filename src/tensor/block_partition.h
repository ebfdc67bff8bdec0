// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

/// Canonical blocks: how a layer's units are cut, and which blocks a rank owns.
namespace norn {

/// Half-open run of units or blocks.
struct Range {
  Index begin = 0;
  Index end = 0;
  Index count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Of `count` blocks those that `rank` of `ranks` owns: contiguous, in rank order, counts differing
/// by at most one. May be empty.
Range dealt(Index count, int rank, int ranks);

/// What a device kind wants of a block; with width and batch it fixes the block width.
struct BlockRule {
  Index delta_elements = Index(1) << 19;  ///< batch x block width that stays in cache
  Index minimum_width = 64;
  Index maximum_width = 4096;
  Index multiple = 16;
  Index wanted_blocks = 8;                   ///< so that threads and ranks have something to share
  Index gradient_elements = Index(1) << 18;  ///< of a weight gradient's tile that stays in cache
  Index most_blocks = Index(1) << 40;  ///< beyond which blocks become wider, up to maximum_width
  Index dealt = 1;  ///< more blocks than wanted are a multiple of this, as far as widths allow
  Index gathered_elements = Index(1)
                            << 20;  ///< batch x width of a layer that is worth not gathering
  /// Where the minimum and the multiple are others for hidden layers; 0: they are not.
  Index minimum_hidden_width = 0;
  Index hidden_multiple = 0;

  /// The rule for hidden layers.
  BlockRule of_hidden() const {
    BlockRule rule = *this;
    if (minimum_hidden_width > 0) rule.minimum_width = minimum_hidden_width;
    if (hidden_multiple > 0) rule.multiple = hidden_multiple;
    return rule;
  }
};

/// A layer's units cut into blocks. A function of the width, the batch size and the device kind's
/// rule, and of nothing else: not of ranks, threads or free memory. It is the unit of memory, of
/// parallelism and of determinism.
class BlockPartition {
 public:
  BlockPartition() = default;
  static BlockPartition make(Index width, Index batch, const BlockRule& rule);

  Index width() const { return width_; }
  Index block_width() const { return block_width_; }
  Index blocks() const {
    return block_width_ == 0 ? 0 : (width_ + block_width_ - 1) / block_width_;
  }
  Range units(Index block) const;
  /// The blocks that `rank` of `ranks` owns: dealt().
  Range blocks_of(int rank, int ranks) const { return dealt(blocks(), rank, ranks); }
  /// The units of blocks_of(rank, ranks).
  Range units_of(int rank, int ranks) const;
  bool operator==(const BlockPartition&) const = default;

 private:
  Index width_ = 0;
  Index block_width_ = 0;
};

}  // namespace norn
