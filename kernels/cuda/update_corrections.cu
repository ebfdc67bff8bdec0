// SPDX-License-Identifier: Apache-2.0
// Tables of Adam's bias corrections.
#include "kernels/cuda/update_corrections.h"

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

CorrectionTable UpdateCorrections::up_to(const UpdateSchedule& schedule, std::int64_t last) {
  if (schedule.beta1 != beta1_ || schedule.beta2 != beta2_) {
    host_.clear();
    complete_ = false;
    beta1_ = schedule.beta1;
    beta2_ = schedule.beta2;
  }
  if (!complete_ && last >= Index(host_.size())) {
    const Index size = std::max(kFirst, 2 * (last + 1));
    while (!complete_ && Index(host_.size()) < size) {
      const UpdateStep u = schedule.at(Index(host_.size()));
      complete_ = u.correct1 == 1.0f && u.correct2 == 1.0f;
      if (!complete_) host_.push_back({u.correct1, u.correct2});
    }
    write();
  }
  return {device_.data(), Index(host_.size())};
}

void UpdateCorrections::write() {
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
