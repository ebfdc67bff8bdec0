// SPDX-License-Identifier: Apache-2.0
// A block turns 64 places of 64 channels in shared memory: channels are read in runs of 256 bytes,
// places are written in such runs.
#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/windows/turned_images.h"
#include "kernels/cuda/windows/windows.cuh"
#include "kernels/window_pieces.h"

namespace norn::cuda {
namespace {

constexpr int kSide = 64;  // places and channels of a block
constexpr int kFour = 4;
constexpr int kFours = kSide / kFour;
static_assert(window_pieces::kBox<float> % kFour == 0);  // places of a run are whole fours

struct TurnWork {
  MatrixView<const float> images;
  MatrixView<float> to;
  int width, height;
  int examples;  ///< of a run
  Divisor by_run, by_image, by_pitch;
  bool in_fours;  ///< whether four channels are read at once

  /// The first channel at a place of the turned rows, or null.
  __device__ const float* at(int place) const {
    const int run = by_run.divide(place);
    const int example = by_image.divide(place);
    const int y = by_pitch.divide(place);
    if (example >= examples || y >= height || place >= width) return nullptr;
    return images.row(Index(run) * examples + example) + (Index(y) * width + place) * to.rows;
  }
  __device__ Pack<float, kFour> channels(int place, int channel) const {
    Pack<float, kFour> four{};
    if (place >= to.cols || channel >= to.rows) return four;
    const float* const from = at(place);
    if (from == nullptr) return four;
    return in_fours ? load<kFour>(from + channel) : load_each(from + channel);
  }

 private:
  static __device__ Pack<float, kFour> load_each(const float* from) {
    return {from[0], from[1], from[2], from[3]};
  }
};

__global__ void __launch_bounds__(kWindowThreads) turn_kernel(const TurnWork work) {
  constexpr int kItems = kSide * kFours / kWindowThreads;  // fours of a thread
  __shared__ float tile[kSide][kSide + 1];                 // channel, place
  const int first_place = int(blockIdx.x) * kSide, first_channel = int(blockIdx.y) * kSide;
  Pack<float, kFour> read[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int item = int(threadIdx.x) + i * kWindowThreads;
    read[i] = work.channels(first_place + item / kFours, first_channel + item % kFours * kFour);
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
    const int c = item / kFours, place = item % kFours * kFour;
    if (first_channel + c >= work.to.rows || first_place + place >= work.to.cols) continue;
    const float* const from = &tile[c][place];
    store<kFour>(work.to.row(first_channel + c) + first_place + place,
                 Pack<float, kFour>{from[0], from[1], from[2], from[3]});
  }
}

}  // namespace

void turn_places(const Stream& stream, const Window& window, Index width, Index height, Index runs,
                 MatrixView<const float> images, MatrixView<float> to) {
  const TurnWork work{images,
                      to,
                      int(width),
                      int(height),
                      int(images.rows / runs),
                      Divisor(to.cols / runs),
                      Divisor(window_pieces::turned_places(window)),
                      Divisor(window_pieces::turned_side(window, 0)),
                      is_packable<kFour>(images)};
  const auto blocks = [](Index size) { return unsigned(window_pieces::quotient_up(size, kSide)); };
  turn_kernel<<<dim3(blocks(to.cols), blocks(to.rows)), kWindowThreads, 0, stream.stream>>>(work);
  check_launch("turn_kernel");
}

}  // namespace norn::cuda
