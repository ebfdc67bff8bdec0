// SPDX-License-Identifier: Apache-2.0
#include "src/engine/state_copy.h"

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
  for (Region& region : regions_) {
    const std::size_t bytes = std::size_t(region.bytes);
    if (&own_ == &place_)
      own_.copy(region.kept.data(), region.data, bytes);
    else
      own_.read(region.data, region.kept.data(), bytes);
  }
}

void StateCopy::put_back() {
  for (const Region& region : regions_) {
    const std::size_t bytes = std::size_t(region.bytes);
    if (&own_ == &place_)
      own_.copy(region.data, region.kept.data(), bytes);
    else
      own_.write(region.data, region.kept.data(), bytes);
  }
}

void StateCopy::exchange() {
  require(place_.is_host(), "StateCopy: of a copy in main memory");
  for (Region& region : regions_) {
    if (own_.is_host())
      std::swap_ranges(region.data, region.data + region.bytes, region.kept.data());
    else
      exchange_with_device(region);
  }
}

void StateCopy::exchange_with_device(Region& region) {
  constexpr Index kRun = Index(64) << 20;
  Buffer<std::byte> run(std::min(kRun, region.bytes), place_);
  for (Index first = 0; first < region.bytes; first += kRun) {
    const std::size_t bytes = std::size_t(std::min(kRun, region.bytes - first));
    std::byte* mine = region.data + first;
    std::byte* kept = region.kept.data() + first;
    own_.read(mine, run.data(), bytes);
    own_.write(mine, kept, bytes);
    std::copy_n(run.data(), bytes, kept);
  }
}

Index state_bytes(Network& network) {
  Index bytes = 0;
  network.for_each_state([&](const Tensor& tensor, std::byte*) { bytes += tensor.bytes(); });
  return bytes;
}

}  // namespace norn
