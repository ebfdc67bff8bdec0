// SPDX-License-Identifier: Apache-2.0
#include "src/engine/network/state_copy.h"

#include "norn/base/error.h"

#include <algorithm>

namespace norn {

StateCopy::StateCopy(Network& network, Memory& place)
    : own_(network.context().compute.memory), place_(place) {
  require(&own_ == &place_ || place_.is_host(), "StateCopy: of another device's memory");
  network.for_each_state([&](const Tensor& tensor, std::byte* data) {
    regions_.push_back({data, tensor.bytes(), Buffer<std::byte>(tensor.bytes(), place_)});
  });
}

void StateCopy::take() {
  for (Region& region : regions_) keep(region.data, region.kept.data(), region.bytes);
}

void StateCopy::put_back() {
  for (const Region& region : regions_) restore(region.kept.data(), region.data, region.bytes);
}

void StateCopy::exchange() {
  constexpr Index kRun = Index(64) << 20;
  for (Region& region : regions_) {
    Buffer<std::byte> run(std::min(kRun, region.bytes), place_);
    for (Index first = 0; first < region.bytes; first += kRun) {
      const Index bytes = std::min(kRun, region.bytes - first);
      std::byte* mine = region.data + first;
      std::byte* kept = region.kept.data() + first;
      keep(mine, run.data(), bytes);
      restore(kept, mine, bytes);
      place_.copy(kept, run.data(), std::size_t(bytes));
    }
  }
}

void StateCopy::keep(const std::byte* from, std::byte* to, Index bytes) const {
  if (&own_ == &place_)
    own_.copy(to, from, std::size_t(bytes));
  else
    own_.read(from, to, std::size_t(bytes));
}

void StateCopy::restore(const std::byte* from, std::byte* to, Index bytes) const {
  if (&own_ == &place_)
    own_.copy(to, from, std::size_t(bytes));
  else
    own_.write(to, from, std::size_t(bytes));
}

Index state_bytes(Network& network) {
  Index bytes = 0;
  network.for_each_state([&](const Tensor& tensor, std::byte*) { bytes += tensor.bytes(); });
  return bytes;
}

}  // namespace norn
