// SPDX-License-Identifier: Apache-2.0
// Tables of what rules compute for themselves.
#include "kernels/cuda/update/rule_times.h"

#include <algorithm>

namespace norn::cuda {
namespace {

constexpr Index kFirst = 32768;  // entries that are worked out at a time, unless more are needed
constexpr int kChunk = 480;      // entries that fit in a kernel's arguments

struct Chunk {
  float2 entry[kChunk];
};

__global__ void store_chunk(Chunk chunk, int count, float2* to) {
  for (int i = int(threadIdx.x); i < count; i += int(blockDim.x)) to[i] = chunk.entry[i];
}

}  // namespace

TimesTable RuleTimes::up_to(const UpdateRule& rule, std::int64_t last) {
  if (rule_ != rule) {
    host_.clear();
    complete_ = false;
    rule_ = rule;
  }
  if (!complete_ && last >= Index(host_.size())) {
    const Index size = std::max(kFirst, 2 * (last + 1));
    while (!complete_ && Index(host_.size()) < size) {
      const UpdateStep u = UpdateSchedule{}.at(rule, Index(host_.size()));
      complete_ = u.times[0] == 1.0f && u.times[1] == 1.0f;
      if (!complete_) host_.push_back({u.times[0], u.times[1]});
    }
    write();
  }
  return {device_.data(), Index(host_.size())};
}

void RuleTimes::write() {
  const auto count = Index(host_.size());
  if (device_.size() < count) device_ = Buffer<float2>(count, stream_.memory);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_.stream, &capture), "cudaStreamIsCapturing");
  if (capture == cudaStreamCaptureStatusNone) {
    device_.write(host_.data(), count);
    return;
  }
  for (Index first = 0; first < count; first += kChunk) {
    Chunk chunk{};
    const Index size = std::min<Index>(kChunk, count - first);
    std::copy_n(host_.data() + first, size, chunk.entry);
    store_chunk<<<1, 128, 0, stream_.stream>>>(chunk, int(size), device_.data() + first);
    check_launch("store_chunk");
  }
}

}  // namespace norn::cuda
