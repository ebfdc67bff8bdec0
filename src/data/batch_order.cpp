// SPDX-License-Identifier: Apache-2.0
// The order in which an epoch visits the examples.

#include "norn/base/error.h"
#include "src/base/philox.h"
#include "src/data/batch_loader.h"

#include <numeric>
#include <utility>

namespace norn {

BatchOrder::BatchOrder(Index examples, Index batch, bool shuffle, std::uint64_t seed)
    : examples_(examples), batch_(batch), shuffle_(shuffle), seed_(seed) {
  require(examples >= 1 && batch >= 1, "BatchOrder: at least one example and a batch of one");
}

std::vector<Index> BatchOrder::epoch(Index epoch) const {
  std::vector<Index> order(std::size_t(examples_), 0);
  std::iota(order.begin(), order.end(), Index(0));
  if (!shuffle_) return order;
  // Fisher and Yates' shuffle; 64 random bits a draw make its bias less than examples / 2^64.
  const Philox random = Philox::stream(seed_, RandomPurpose::shuffle);
  for (Index last = examples_ - 1; last > 0; --last) {
    const Philox::Block block = random.block(std::uint64_t(last), std::uint64_t(epoch));
    const std::uint64_t bits = (std::uint64_t(block.word[0]) << 32) | block.word[1];
    const auto chosen =
        Index((static_cast<unsigned __int128>(bits) * std::uint64_t(last + 1)) >> 64);
    std::swap(order[std::size_t(last)], order[std::size_t(chosen)]);
  }
  return order;
}

}  // namespace norn
