// SPDX-License-Identifier: Apache-2.0
// What becomes of a tile of a product of windows: it goes through shared memory and the copy
// engine, in whole lines, or from the registers where it belongs.
#pragma once

#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/hopper/tile_product.cuh"
#include "kernels/cuda/windows/window_product.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace norn::cuda {

/// Where results of a type of element go, and what is read for them: outputs, or what is there
/// already.
template <typename Element>
NORN_HD MatrixView<Element> result_of(const WindowResult& to) {
  if constexpr (std::is_same_v<Element, float>)
    return to.result;
  else
    return to.bf16;
}
template <typename Element>
NORN_HD MatrixView<const Element> needed_of(const WindowResult& to) {
  if constexpr (std::is_same_v<Element, float>)
    return to.existing == Existing::add ? MatrixView<const float>(to.result) : to.outputs;
  else
    return to.bf16_outputs;
}
template <typename Element>
NORN_HD bool needs(const WindowResult& to) {
  return needed_of<Element>(to).data != nullptr;
}

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

/// What dropout leaves of a thread's values, two rows and two columns at a time. Of places four of
/// which have one Philox block, four lanes in a column draw one block each and exchange the words.
class Dropped {
 public:
  struct Four {
    Pack<float, 2> row[2];  ///< eight rows apart
  };
  __device__ Dropped(const WindowResult& to, int row) : mask_(to.dropout) {
    if (!mask_.drops()) return;
    const auto places = unsigned(mask_.places);
    shares_ = places % 4 == 0 && to.first_row % 4 == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        const auto r = unsigned(to.first_row) + unsigned(row + 64 * half + 8 * below);
        example_[half][below] = std::uint64_t(mask_.first_row + r / places);
        place_[half][below] = int(r % places);
      }
  }
  /// By a whole warp.
  __device__ void apply(int half, int col, Four& value) const {
    float chance[4];
    if (shares_)
      draw_together(half, col, chance);
    else
#pragma unroll
      for (int item = 0; item < 4; ++item)
        chance[item] = mask_.random.uniform(example_[half][item / 2], unit(half, col, item));
#pragma unroll
    for (int item = 0; item < 4; ++item) {
      float& x = value.row[item / 2].value[item % 2];
      x = mask_.value(chance[item], x);
    }
  }

 private:
  /// In the order of files.
  __device__ std::uint64_t unit(int half, int col, int item) const {
    return std::uint64_t(Index(col + item % 2) * mask_.places + place_[half][item / 2]);
  }
  static __device__ float pick(const float (&of)[4], int which) {
    const float low = which & 1 ? of[1] : of[0], high = which & 1 ? of[3] : of[2];
    return which & 2 ? high : low;
  }
  /// Member m of four lanes draws for item m of all of them; word w of a block is member w's. In
  /// turn t a member gets what member m + t drew.
  __device__ void draw_together(int half, int col, float (&chance)[4]) const {
    const int lane = int(threadIdx.x) % 32, member = lane / 4 % 4;
    const std::uint64_t own = member & 1 ? unit(half, col, 1) : unit(half, col, 0);
    const std::uint64_t below = member & 1 ? unit(half, col, 3) : unit(half, col, 2);
    const Philox::Block drawn = mask_.random.block(
        (member & 2 ? below : own) / 4, member & 2 ? example_[half][1] : example_[half][0]);
    float words[4], turns[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = Philox::uniform(drawn.word[w]);
#pragma unroll
    for (int turn = 0; turn < 4; ++turn)
      turns[turn] = __shfl_sync(0xFFFFFFFFu, pick(words, (member - turn) & 3),
                                lane + (((member + turn) & 3) - member) * 4);
#pragma unroll
    for (int item = 0; item < 4; ++item) chance[item] = pick(turns, (item - member) & 3);
  }

  const DropoutMask& mask_;
  std::uint64_t example_[2][2];  ///< of the thread's rows, as the mask counts them
  int place_[2][2];
  bool shares_ = false;
};

/// Floats with a bf16 copy beside, or those that the copy engine cannot write: a thread writes two
/// columns at a time, a quad of them 32 bytes. `pairs`: two columns may be read and written at
/// once.
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

/// A consumer's tile of kWidth columns in shared memory, in boxes of 64 rows and at most 128 bytes:
/// what results need comes in, and what is made of it goes out from the same place. Memory that
/// holds a part of the columns has one after another. Its threads must be whole wherever it is
/// called.
template <typename Element, int kWidth>
class ResultTile {
  static constexpr int kMost = 32768;  // bytes, which leave enough to the ring

 public:
  static constexpr int kBoxCols = kWidth % kTileDepthOf<Element> == 0 ? kTileDepthOf<Element> : 32;
  static constexpr int kBoxBytes = 64 * kBoxCols * int(sizeof(Element));
  static constexpr int kBoxes = kWidth / kBoxCols;                         ///< side by side
  static constexpr int kHeld = std::min(kBoxes, kMost / (2 * kBoxBytes));  ///< of them
  static constexpr int kBytes = 2 * kHeld * kBoxBytes;
  static constexpr int kParts = (kBoxes + kHeld - 1) / kHeld;

  __device__ ResultTile(const WindowResult& to, const CUtensorMap& needed,
                        const CUtensorMap& result, std::uint32_t memory, std::uint32_t loaded,
                        int consumer)
      : to_(to),
        needed_(needed),
        result_(result),
        memory_(memory + consumer * kBytes),
        loaded_(loaded + 8 * consumer),
        consumer_(consumer) {}

  /// Before a tile's product: asks for what its first part needs.
  __device__ void load_ahead(TilePlace tile) const {
    if (needs<Element>(to_)) load<0>(tile);
  }
  /// The tile's sums become results and leave.
  template <int kSums>
  __device__ void give(TilePlace tile, const float (&sum)[2][kSums]) {
    const ThreadPlace thread;
    const Dropped dropped(to_, tile.row + thread.row());
    give_part<0>(tile, dropped, sum);
    if constexpr (kParts > 1) {
      if (needs<Element>(to_)) load<1>(tile);
      give_part<1>(tile, dropped, sum);
    }
  }
  /// Until the memory may be written.
  __device__ void wait_for_memory() const {
    if (is_first()) hopper::wait_for_store_reads();
    sync();
  }

 private:
  static_assert(kParts <= 2);

  static __device__ bool is_first() { return threadIdx.x % kConsumerThreads == 0; }
  __device__ void sync() const {
    hopper::named_sync(kConsumerBarrier + consumer_, kConsumerThreads);
  }

  template <int kPart>
  static constexpr int kBoxesOf = std::min(kHeld, kBoxes - kPart * kHeld);
  template <int kPart, typename Use>
  __device__ void for_boxes(TilePlace tile, const Use& use) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int box = 0; box < kBoxesOf<kPart>; ++box)
        use(memory_ + (half * kHeld + box) * kBoxBytes, tile.col + (kPart * kHeld + box) * kBoxCols,
            tile.row + half * 64);
  }
  template <int kPart>
  __device__ void load(TilePlace tile) const {
    if (!is_first()) return;
    hopper::wait_for_store_reads();
    hopper::barrier_arrive_expecting(loaded_, 2 * kBoxesOf<kPart> * kBoxBytes);
    for_boxes<kPart>(tile, [&](std::uint32_t at, int col, int row) {
      hopper::load_box(needed_, at, loaded_, col, row);
    });
  }
  __device__ void wait_for_load() {
    hopper::barrier_wait(loaded_, parity_);
    parity_ ^= 1;
  }

  template <int kPart, int kSums>
  __device__ void give_part(TilePlace tile, const Dropped& dropped, const float (&sum)[2][kSums]) {
    needs<Element>(to_) ? wait_for_load() : wait_for_memory();
    finish<kPart>(tile, dropped, sum);
    store<kPart>(tile);
  }
  /// In place.
  template <int kPart, int kSums>
  __device__ void finish(TilePlace tile, const Dropped& dropped,
                         const float (&sum)[2][kSums]) const {
    const ThreadPlace thread;
    constexpr int kFirst = kPart * kHeld * kBoxCols / 8;
#pragma unroll
    for (int j = kFirst; j < kFirst + kBoxesOf<kPart> * kBoxCols / 8; ++j) {
      const int col = tile.col + thread.col() + 8 * j;
      float2 bias{};
      if (to_.bias.data != nullptr && col < int(result_of<Element>(to_).cols))
        bias = make_float2(__ldg(to_.bias.data + col), __ldg(to_.bias.data + col + 1));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto at = [&](int below) { return address(thread, half, below, 8 * (j - kFirst)); };
        Dropped::Four value;
#pragma unroll
        for (int below = 0; below < 2; ++below) {
          Pack<float, 2> z{sum[half][4 * j + 2 * below], sum[half][4 * j + 2 * below + 1]};
          float2 y{};
          if (needs<Element>(to_)) y = read(at(below));
          if (to_.existing == Existing::add) z.value[0] += y.x, z.value[1] += y.y;
          value.row[below] = finished(to_, z, bias, y);
        }
        if constexpr (std::is_same_v<Element, Bfloat16>)
          if (to_.dropout.drops()) dropped.apply(half, col, value);
#pragma unroll
        for (int below = 0; below < 2; ++below) write(at(below), value.row[below]);
      }
    }
  }
  /// Rows and columns beyond the result's are left out.
  template <int kPart>
  __device__ void store(TilePlace tile) const {
    hopper::fence_async();
    sync();
    if (!is_first()) return;
    for_boxes<kPart>(tile, [&](std::uint32_t at, int col, int row) {
      hopper::store_box(result_, at, col, row);
    });
    hopper::commit_stores();
  }

  /// Of a thread's two columns in eight, as the copy engine's swizzle arranges them: 16-byte runs
  /// of a row are exchanged by the bits of its number.
  __device__ std::uint32_t address(const ThreadPlace& thread, int half, int below, int col) const {
    constexpr int kBytesOf = int(sizeof(Element)), kRowBytes = kBoxCols * kBytesOf;
    const int row = thread.row() + 8 * below;
    const int own = thread.col() * kBytesOf;
    const int run = col % kBoxCols * kBytesOf / 16 + own / 16;
    const int swizzled = kRowBytes == 128 ? run ^ row % 8 : run ^ row / 2 % 4;
    return memory_ + (half * kHeld + col / kBoxCols) * kBoxBytes + row * kRowBytes + swizzled * 16 +
           own % 16;
  }
  static __device__ float2 read(std::uint32_t at) {
    if constexpr (std::is_same_v<Element, float>) {
      float2 pair;
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(pair.x), "=f"(pair.y)
                   : "r"(at)
                   : "memory");
      return pair;
    } else {
      std::uint32_t pair;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(pair) : "r"(at) : "memory");
      return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
    }
  }
  static __device__ void write(std::uint32_t at, Pack<float, 2> value) {
    if constexpr (std::is_same_v<Element, float>) {
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(value.value[0]),
                   "f"(value.value[1])
                   : "memory");
    } else {
      std::uint32_t pair;
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(value.value[1]), "f"(value.value[0]));
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair) : "memory");
    }
  }

  const WindowResult& to_;
  const CUtensorMap& needed_;
  const CUtensorMap& result_;
  std::uint32_t memory_;
  std::uint32_t loaded_;
  int consumer_;
  std::uint32_t parity_ = 0;
};

}  // namespace norn::cuda
