// SPDX-License-Identifier: Apache-2.0
// Canonical blocks cover a layer once, and ranks share them without changing them.

#include "src/tensor/block_partition.h"

#include "norn/base/error.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace norn {
namespace {

struct Case {
  Index width;
  Index batch;
  BlockRule rule;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (Index width : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 10000, 27278, 500000}) {
    for (Index batch : {1, 32, 256, 1024, 100000}) all.push_back({width, batch, {}});
  }
  all.push_back(
      {Index(10000000), 1024, {.delta_elements = Index(1) << 24, .maximum_width = 32768}});
  all.push_back({1000, 7, {.minimum_width = 1, .maximum_width = 1, .multiple = 1}});
  all.push_back({1000, 7, {.minimum_width = 5, .maximum_width = 50, .multiple = 7}});
  std::mt19937_64 random(std::random_device{}());
  for (int i = 0; i < 50; ++i) {
    all.push_back({Index(1 + random() % 1000000), Index(1 + random() % 5000), {}});
  }
  return all;
}

TEST(BlockPartition, BlocksCoverTheWidthOnceInOrder) {
  for (const Case& c : cases()) {
    const BlockPartition partition = BlockPartition::make(c.width, c.batch, c.rule);
    SCOPED_TRACE(testing::Message() << "width " << c.width << " batch " << c.batch);
    ASSERT_GE(partition.blocks(), 1);
    Index at = 0;
    for (Index block = 0; block < partition.blocks(); ++block) {
      const Range units = partition.units(block);
      ASSERT_EQ(units.begin, at);
      ASSERT_GT(units.count(), 0);
      ASSERT_LE(units.count(), partition.block_width());
      ASSERT_EQ(units.begin % c.rule.multiple, 0);
      at = units.end;
    }
    EXPECT_EQ(at, c.width);
  }
}

TEST(BlockPartition, ManyBlocksCanBeDealtOutEvenly) {
  const BlockRule rule{.delta_elements = 1000,
                       .minimum_width = 100,
                       .maximum_width = 1000,
                       .multiple = 10,
                       .wanted_blocks = 4,
                       .dealt = 8};
  const auto blocks = [&](Index width) { return BlockPartition::make(width, 1, rule).blocks(); };
  EXPECT_EQ(blocks(4000), 4);  // as many as are wanted
  EXPECT_EQ(blocks(4001), 8);
  EXPECT_EQ(blocks(19500), 24);
  EXPECT_EQ(blocks(24000), 24);
  EXPECT_EQ(blocks(24001), 32);
  for (Index width = 4001; width < 50000; width += 977) {
    const BlockPartition partition = BlockPartition::make(width, 1, rule);
    for (int ranks : {2, 4, 8})
      EXPECT_LE(partition.units_of(0, ranks).count() * ranks, width + ranks * 4 * 8 * 10) << width;
  }
  BlockRule wide = rule;
  wide.minimum_width = 900;  // blocks are not cut below it
  EXPECT_EQ(BlockPartition::make(5000, 1, wide).blocks(), 5);
}

TEST(BlockPartition, HiddenLayersMayHaveSmallerBlocks) {
  const BlockRule rule{.minimum_width = 8192,
                       .maximum_width = 65536,
                       .multiple = 128,
                       .wanted_blocks = 4,
                       .minimum_hidden_width = 32,
                       .hidden_multiple = 32};
  const auto block_of = [&](Index width) {
    return BlockPartition::make(width, 64, rule.of_hidden()).block_width();
  };
  EXPECT_EQ(BlockPartition::make(1536, 64, rule).blocks(), 1);
  for (Index width : {128, 256, 512, 1024, 1536, 4096})
    EXPECT_EQ(block_of(width), width / 4) << width;
  EXPECT_EQ(block_of(1000), 256);
  EXPECT_EQ(block_of(257), 96);
  EXPECT_EQ(block_of(100), 32);
  EXPECT_EQ(block_of(64), 32);
  EXPECT_EQ(block_of(17), 17);
  // Wide ones are those of any layer, and where nothing is said for hidden layers all are.
  EXPECT_EQ(block_of(32768), BlockPartition::make(32768, 64, rule).block_width());
  EXPECT_EQ(BlockPartition::make(1000, 64, BlockRule{}.of_hidden()),
            BlockPartition::make(1000, 64, BlockRule{}));
}

TEST(BlockPartition, WidthStaysWithinTheRule) {
  for (const Case& c : cases()) {
    const BlockPartition partition = BlockPartition::make(c.width, c.batch, c.rule);
    SCOPED_TRACE(testing::Message() << "width " << c.width << " batch " << c.batch);
    EXPECT_LT(partition.block_width(), c.rule.maximum_width + c.rule.multiple);
    const Index in_cache = std::max(c.rule.delta_elements / c.batch, c.rule.minimum_width);
    EXPECT_LT(partition.block_width(), in_cache + c.rule.multiple);
    if (c.width >= c.rule.wanted_blocks * std::max(c.rule.minimum_width, c.rule.multiple) * 2) {
      EXPECT_GT(2 * partition.blocks(), c.rule.wanted_blocks);
    }
  }
}

TEST(BlockPartition, SharesOfRanksFollowEachOtherAndDifferByAtMostABlock) {
  for (const Case& c : cases()) {
    const BlockPartition partition = BlockPartition::make(c.width, c.batch, c.rule);
    for (int ranks = 1; ranks <= 7; ++ranks) {
      SCOPED_TRACE(testing::Message()
                   << "width " << c.width << " batch " << c.batch << " ranks " << ranks);
      Index block = 0;
      Index unit = 0;
      Index fewest = partition.blocks();
      Index most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range blocks = partition.blocks_of(rank, ranks);
        const Range units = partition.units_of(rank, ranks);
        ASSERT_EQ(blocks.begin, block);
        ASSERT_EQ(units.begin, unit);
        if (blocks.count() > 0) {
          EXPECT_EQ(units.begin, partition.units(blocks.begin).begin);
          EXPECT_EQ(units.end, partition.units(blocks.end - 1).end);
        } else {
          EXPECT_EQ(units.count(), 0);
        }
        fewest = std::min(fewest, blocks.count());
        most = std::max(most, blocks.count());
        block = blocks.end;
        unit = units.end;
      }
      EXPECT_EQ(block, partition.blocks());
      EXPECT_EQ(unit, c.width);
      EXPECT_LE(most - fewest, 1);
    }
  }
}

TEST(BlockPartition, NarrowLayerIsOneBlock) {
  const BlockPartition partition = BlockPartition::make(10, 256, {});
  EXPECT_EQ(partition.blocks(), 1);
  EXPECT_EQ(partition.block_width(), 10);
  EXPECT_EQ(partition.units_of(0, 3), (Range{0, 10}));
  EXPECT_EQ(partition.units_of(1, 3), (Range{10, 10}));
  EXPECT_EQ(partition.units_of(2, 3).count(), 0);
}

TEST(BlockPartition, RefusesWhatIsNoLayer) {
  EXPECT_THROW(BlockPartition::make(0, 1, {}), ShapeError);
  EXPECT_THROW(BlockPartition::make(1, 0, {}), ShapeError);
  EXPECT_THROW(BlockPartition::make(1, 1, {.multiple = 0}), ShapeError);
  const BlockPartition partition = BlockPartition::make(100, 1, {});
  EXPECT_THROW(partition.units(partition.blocks()), ShapeError);
  EXPECT_THROW(partition.units(-1), ShapeError);
  EXPECT_THROW(partition.blocks_of(2, 2), ShapeError);
  EXPECT_THROW(partition.blocks_of(0, 0), ShapeError);
}

TEST(BlockPartition, EmptyOneHasNoBlocks) {
  const BlockPartition none;
  EXPECT_EQ(none.blocks(), 0);
  EXPECT_EQ(none.units_of(0, 2), (Range{0, 0}));
}

}  // namespace
}  // namespace norn
