// SPDX-License-Identifier: Apache-2.0
// A block turns 64 channels of 64 values of a row in shared memory: channels are read in runs of
// 256 bytes, examples of places are written in such runs. Blocks next to each other read other
// channels of the same places.
#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/windows/turned_images.h"
#include "kernels/cuda/windows/windows.cuh"
#include "kernels/window_pieces.h"

namespace norn::cuda {
namespace {

constexpr int kSide = 64;  // channels and values of their rows, of a block
constexpr int kFour = 4;
constexpr int kFours = kSide / kFour;
static_assert(window_pieces::kTurnedRun % kFour == 0);  // rows are whole fours

struct TurnWork {
  MatrixView<const float> images;
  MatrixView<float> to;
  int width, height;
  int channels;
  int examples;         ///< of a run
  int channel_blocks;   ///< that turn the same values of a row
  Divisor by_examples;  ///< with those that are added
  Divisor by_width;     ///< of the copy
  bool in_fours;        ///< whether four channels are read at once

  /// The first channel of what stands somewhere in a run's rows, or null.
  __device__ const float* at(int run, int value) const {
    int e = value;
    int x = by_examples.divide(e);
    const int y = by_width.divide(x);
    if (e >= examples || y >= height || x >= width) return nullptr;
    return images.row(Index(run) * examples + e) + (Index(y) * width + x) * channels;
  }
  __device__ Pack<float, kFour> read(int run, int value, int channel) const {
    if (value >= to.cols || channel >= channels) return {};
    const float* const from = at(run, value);
    if (from == nullptr) return {};
    if (in_fours) return load<kFour>(from + channel);
    return {from[channel], from[channel + 1], from[channel + 2], from[channel + 3]};
  }
};

__global__ void __launch_bounds__(kWindowThreads) turn_kernel(const TurnWork work) {
  constexpr int kItems = kSide * kFours / kWindowThreads;  // fours of a thread
  __shared__ float tile[kSide][kSide + 1];                 // channel, value
  const int run = int(blockIdx.y);
  const int first = int(blockIdx.x) / work.channel_blocks * kSide;
  const int first_channel = int(blockIdx.x) % work.channel_blocks * kSide;
  Pack<float, kFour> read[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int item = int(threadIdx.x) + i * kWindowThreads;
    read[i] = work.read(run, first + item / kFours, first_channel + item % kFours * kFour);
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int item = int(threadIdx.x) + i * kWindowThreads;
#pragma unroll
    for (int j = 0; j < kFour; ++j)
      tile[item % kFours * kFour + j][item / kFours] = read[i].value[j];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int item = int(threadIdx.x) + i * kWindowThreads;
    const int c = item / kFours, at = item % kFours * kFour;
    if (first_channel + c >= work.channels || first + at >= work.to.cols) continue;
    const float* const from = &tile[c][at];
    store<kFour>(work.to.row(Index(run) * work.channels + first_channel + c) + first + at,
                 Pack<float, kFour>{from[0], from[1], from[2], from[3]});
  }
}

}  // namespace

void turn_places(const Stream& stream, const Window& window, Index width, Index height, Index runs,
                 MatrixView<const float> images, MatrixView<float> to) {
  const Index channels = to.rows / runs, examples = images.rows / runs;
  const Index channel_blocks = window_pieces::quotient_up(channels, kSide);
  const TurnWork work{images,
                      to,
                      int(width),
                      int(height),
                      int(channels),
                      int(examples),
                      int(channel_blocks),
                      Divisor(window_pieces::turned_examples(examples)),
                      Divisor(window_pieces::turned_width(window)),
                      is_packable<kFour>(images)};
  const Index blocks = channel_blocks * window_pieces::quotient_up(to.cols, kSide);
  turn_kernel<<<dim3(unsigned(blocks), unsigned(runs)), kWindowThreads, 0, stream.stream>>>(work);
  check_launch("turn_kernel");
}

}  // namespace norn::cuda
