// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"

#include <span>
#include <vector>

namespace norn {

/// Copies that only save time take at most one part in so many of the memory that is free, those of
/// all ranks that share it together.
constexpr std::int64_t kPartsOfMemory = 4;

/// A copy of all that a step leaves behind on this rank: parameters, and the state of the update
/// rule.
class StateCopy {
 public:
  struct Region {
    std::byte* data = nullptr;  ///< in the network
    Index bytes = 0;
    Buffer<std::byte> kept;
  };

  /// Its memory is taken from `place`: the network's own, or main memory. Throws DeviceError when
  /// there is not enough.
  StateCopy(Network& network, Memory& place);

  /// Becomes the network's state of now, in which no step may be in flight.
  void take();
  void put_back();
  /// The network's state becomes the copy, and the copy the network's state.
  void exchange();
  std::span<const Region> regions() const { return regions_; }

 private:
  // Between the network's memory and the copy's.
  void keep(const std::byte* from, std::byte* to, Index bytes) const;
  void restore(const std::byte* from, std::byte* to, Index bytes) const;

  Memory& own_;
  Memory& place_;
  std::vector<Region> regions_;
};

/// What a StateCopy of this rank takes.
Index state_bytes(Network& network);

}  // namespace norn
