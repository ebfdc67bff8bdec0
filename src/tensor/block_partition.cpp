// SPDX-License-Identifier: Apache-2.0
// Cuts a layer's units into canonical blocks and deals the blocks to ranks.

#include "src/tensor/block_partition.h"

#include "norn/base/error.h"

#include <algorithm>

namespace norn {

namespace {

Index divide_up(Index value, Index by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

Index round_up(Index value, Index multiple) {
  return divide_up(value, multiple) * multiple;
}

}  // namespace

BlockPartition BlockPartition::make(Index width, Index batch, const BlockRule& rule) {
  require(width >= 1, "BlockPartition: the width of a layer must be at least 1");
  require(batch >= 1, "BlockPartition: the batch size must be at least 1");
  require(
      rule.minimum_width >= 1 && rule.maximum_width >= rule.minimum_width && rule.multiple >= 1 &&
          rule.dealt >= 1 && rule.wanted_blocks >= 1 && rule.delta_elements >= 1 &&
          rule.most_blocks >= 1,
      "BlockPartition: the block rule needs 1 <= minimum_width <= maximum_width and a multiple, "
      "wanted_blocks and delta_elements of at least 1");
  const Index fitting = std::max(rule.delta_elements / batch, divide_up(width, rule.most_blocks));
  const Index in_cache = std::clamp(fitting, rule.minimum_width, rule.maximum_width);
  const Index shared_out = std::max(divide_up(width, rule.wanted_blocks), rule.minimum_width);
  Index blocks = divide_up(width, std::min(in_cache, shared_out));
  if (blocks > rule.wanted_blocks) {
    const Index dealt = round_up(blocks, rule.dealt);
    if (width / dealt >= rule.minimum_width) blocks = dealt;
  }
  BlockPartition partition;
  partition.width_ = width;
  partition.block_width_ = std::min(width, round_up(divide_up(width, blocks), rule.multiple));
  return partition;
}

Range BlockPartition::units(Index block) const {
  require(block >= 0 && block < blocks(), "BlockPartition: there is no block of that number");
  const Index begin = block * block_width_;
  return {begin, std::min(begin + block_width_, width_)};
}

Range dealt(Index count, int rank, int ranks) {
  require(ranks >= 1 && rank >= 0 && rank < ranks,
          "BlockPartition: the rank must be in [0, ranks) and ranks at least 1");
  const Index each = count / ranks;
  const Index extra = count % ranks;  // the first `extra` ranks own one more
  const Index begin = rank * each + std::min<Index>(rank, extra);
  return {begin, begin + each + (rank < extra ? 1 : 0)};
}

Range BlockPartition::units_of(int rank, int ranks) const {
  const Range owned = blocks_of(rank, ranks);
  return {std::min(owned.begin * block_width_, width_), std::min(owned.end * block_width_, width_)};
}

}  // namespace norn
