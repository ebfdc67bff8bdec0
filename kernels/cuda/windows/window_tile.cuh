// SPDX-License-Identifier: Apache-2.0
// What becomes of a tile of a product of windows: floats go where they belong from the registers,
// bfloat16 alone through shared memory and the copy engine, in whole lines.
#pragma once

#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/hopper/tile_product.cuh"
#include "kernels/cuda/windows/window_product.h"

#include <cstdint>

namespace norn::cuda {

/// Two columns' sums with their bias, in f or times its slope at y.
__device__ inline Pack<float, 2> finished(const WindowResult& to, Pack<float, 2> sum, float2 bias,
                                          float2 y) {
  if (to.bias.data != nullptr) {
    sum.value[0] += bias.x;
    sum.value[1] += bias.y;
  }
  if (to.takes_slope()) {
    sum.value[0] *= to.f.slope(y.x);
    sum.value[1] *= to.f.slope(y.y);
  } else {
    sum.value[0] = to.f.value(sum.value[0]);
    sum.value[1] = to.f.value(sum.value[1]);
  }
  return sum;
}

/// Where a thread's sums are in a tile: rows row() + 64 * half + 8 * below, columns col() + 8 * j
/// and one more.
struct ThreadPlace {
  int lane = int(threadIdx.x) % 32;
  int warp = int(threadIdx.x / 32) % 4;
  __device__ int row() const { return warp * 16 + lane / 4; }
  __device__ int col() const { return lane % 4 * 2; }
};

/// What dropout leaves of a thread's values.
struct Dropped {
  Index example[2][2];  ///< of its rows, as the mask counts them
  int place[2][2];

  __device__ Dropped(const WindowResult& to, int row) {
    if (!to.dropout.drops()) return;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        const auto r = unsigned(to.first_row) + unsigned(row + 64 * half + 8 * below);
        const auto places = unsigned(to.dropout.places);
        example[half][below] = to.dropout.first_row + r / places;
        place[half][below] = int(r % places);
      }
  }
  __device__ Pack<float, 2> operator()(const DropoutMask& mask, int half, int below, int col,
                                       Pack<float, 2> value) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Index unit = Index(col + i) * mask.places + place[half][below];
      const float chance =
          mask.random.uniform(std::uint64_t(example[half][below]), std::uint64_t(unit));
      value.value[i] = mask.value(chance, value.value[i]);
    }
    return value;
  }
};

/// Floats, with a bf16 copy beside: a thread writes two columns at a time, a quad of them 32 bytes.
/// `pairs`: two columns may be read and written at once.
template <int kHalves, int kSums>
__device__ void write_floats(const WindowResult& to, bool pairs, TilePlace tile, int rows_end,
                             const float (&sum)[kHalves][kSums]) {
  const ThreadPlace thread;
  const auto pair_of = [&](const float* from) {
    return pairs ? __ldg(reinterpret_cast<const float2*>(from))
                 : make_float2(__ldg(from), __ldg(from + 1));
  };
#pragma unroll
  for (int half = 0; half < kHalves; ++half)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const int r = tile.row + thread.row() + 64 * half + 8 * below;
      if (r >= rows_end) continue;
#pragma unroll
      for (int j = 0; j < kSums / 4; ++j) {
        const int col = tile.col + thread.col() + 8 * j;
        if (col >= int(to.result.cols)) continue;
        float2 bias{}, y{};
        if (to.bias.data != nullptr)
          bias = make_float2(__ldg(to.bias.data + col), __ldg(to.bias.data + col + 1));
        if (to.outputs.data != nullptr) y = pair_of(to.outputs.row(r) + col);
        Pack<float, 2> value{sum[half][4 * j + 2 * below], sum[half][4 * j + 2 * below + 1]};
        float* const pair = to.result.row(r) + col;
        if (to.existing == Existing::add) {
          value.value[0] += pair[0];
          value.value[1] += pair[1];
        }
        value = finished(to, value, bias, y);
        if (pairs)
          store<2>(pair, value);
        else
          pair[0] = value.value[0], pair[1] = value.value[1];
        if (to.bf16.data != nullptr) store_bf16<2, 1>(to.bf16.row(r) + col, value);
      }
    }
}

/// A consumer's tile of kWidth columns in shared memory, in boxes of 64 rows: outputs come in, and
/// what is made of them goes out from the same place. Its threads must be whole wherever it is
/// called.
template <int kWidth>
class Bf16Tile {
 public:
  static constexpr int kBoxCols = kWidth % 64 == 0 ? 64 : 32;
  static constexpr int kBoxes = kWidth / kBoxCols;  ///< side by side
  static constexpr int kBoxBytes = 64 * kBoxCols * int(sizeof(Bfloat16));
  static constexpr int kBytes = 2 * kBoxes * kBoxBytes;

  __device__ Bf16Tile(std::uint32_t memory, std::uint32_t loaded, int consumer)
      : memory_(memory + consumer * kBytes), loaded_(loaded + 8 * consumer), consumer_(consumer) {}

  /// Asks for the outputs at a tile, before its product.
  __device__ void load(const CUtensorMap& outputs, TilePlace tile) const {
    if (!is_first()) return;
    hopper::wait_for_store_reads();
    hopper::barrier_arrive_expecting(loaded_, kBytes);
    for_boxes(tile, [&](std::uint32_t at, int col, int row) {
      hopper::load_box(outputs, at, loaded_, col, row);
    });
  }
  __device__ void wait_for_load() {
    hopper::barrier_wait(loaded_, parity_);
    parity_ ^= 1;
  }
  /// Until the memory may be written, where nothing was loaded.
  __device__ void wait_for_memory() const {
    if (is_first()) hopper::wait_for_store_reads();
    sync();
  }

  /// In place.
  template <int kSums>
  __device__ void finish(const WindowResult& to, TilePlace tile,
                         const float (&sum)[2][kSums]) const {
    const ThreadPlace thread;
    const Dropped dropped(to, tile.row + thread.row());
#pragma unroll
    for (int j = 0; j < kSums / 4; ++j) {
      const int col = tile.col + thread.col() + 8 * j;
      float2 bias{};
      if (to.bias.data != nullptr && col < int(to.bf16.cols))
        bias = make_float2(__ldg(to.bias.data + col), __ldg(to.bias.data + col + 1));
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int below = 0; below < 2; ++below) {
          const std::uint32_t at =
              address(half, thread.row() + 8 * below, 8 * j) + 2 * thread.col();
          float2 y{};
          if (to.takes_slope()) y = read(at);
          Pack<float, 2> value{sum[half][4 * j + 2 * below], sum[half][4 * j + 2 * below + 1]};
          value = finished(to, value, bias, y);
          if (to.dropout.drops()) value = dropped(to.dropout, half, below, col, value);
          write(at, value);
        }
    }
  }
  /// Rows and columns beyond the result's are left out.
  __device__ void store(const CUtensorMap& result, TilePlace tile) const {
    hopper::fence_async();
    sync();
    if (!is_first()) return;
    for_boxes(tile,
              [&](std::uint32_t at, int col, int row) { hopper::store_box(result, at, col, row); });
    hopper::commit_stores();
  }

 private:
  static __device__ bool is_first() {
    return threadIdx.x % kConsumerThreads == 0;
  }
  __device__ void sync() const {
    hopper::named_sync(kConsumerBarrier + consumer_, kConsumerThreads);
  }
  template <typename Use>
  __device__ void for_boxes(TilePlace tile, const Use& use) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int box = 0; box < kBoxes; ++box)
        use(memory_ + (half * kBoxes + box) * kBoxBytes, tile.col + box * kBoxCols,
            tile.row + half * 64);
  }
  /// Of eight columns, as the copy engine's swizzle arranges them: 16-byte runs of a row are
  /// exchanged by the bits of its number.
  __device__ std::uint32_t address(int half, int row, int col) const {
    const int run = col % kBoxCols / 8;
    const int swizzled = kBoxCols == 64 ? run ^ row % 8 : run ^ row / 2 % 4;
    return memory_ + (half * kBoxes + col / kBoxCols) * kBoxBytes +
           row * (kBoxCols * int(sizeof(Bfloat16))) + swizzled * 16;
  }
  static __device__ float2 read(std::uint32_t at) {
    std::uint32_t pair;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(pair) : "r"(at) : "memory");
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
  }
  static __device__ void write(std::uint32_t at, Pack<float, 2> value) {
    std::uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(value.value[1]), "f"(value.value[0]));
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair) : "memory");
  }

  std::uint32_t memory_;
  std::uint32_t loaded_;
  int consumer_;
  std::uint32_t parity_ = 0;
};

}  // namespace norn::cuda
