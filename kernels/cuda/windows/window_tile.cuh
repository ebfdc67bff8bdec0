// SPDX-License-Identifier: Apache-2.0
// What becomes of a tile of a product of windows: it goes through shared memory and the copy
// engine, in whole lines, or from the registers where it belongs.
#pragma once

#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/hopper/tile_product.cuh"
#include "kernels/cuda/windows/divisor.cuh"
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

/// Windows of all examples by their places.
struct WindowPlaces {
  Divisor by_windows, by_width;

  explicit WindowPlaces(const Window& window)
      : by_windows(window.out_places()), by_width(window.out[0]) {}
  struct Place {
    int x, y, example;
  };
  __device__ Place at(int window) const {
    const int example = by_windows.divide(window);
    const int y = by_width.divide(window);
    return {window, y, example};
  }
};

/// What a result is made of.
enum class Finish {
  value,    ///< f(sum)
  dropped,  ///< what dropout leaves of it
  slope,    ///< the sum times f's slope at y
  add       ///< the sum and y
};
template <Finish kFinish>
__device__ inline float finished(const SignedSlopes& f, float sum, float y) {
  if constexpr (kFinish == Finish::add)
    return sum + y;
  else
    return kFinish == Finish::slope ? sum * f.slope(y) : f.value(sum);
}
/// Two columns' sums with their bias, in f or times its slope at y.
__device__ inline Pack<float, 2> finished(const WindowResult& to, Pack<float, 2> sum, float2 bias,
                                          float2 y) {
  if (to.bias.data != nullptr) {
    sum.value[0] += bias.x;
    sum.value[1] += bias.y;
  }
  if (to.takes_slope())
    return {finished<Finish::slope>(to.f, sum.value[0], y.x),
            finished<Finish::slope>(to.f, sum.value[1], y.y)};
  return {finished<Finish::value>(to.f, sum.value[0], 0.0f),
          finished<Finish::value>(to.f, sum.value[1], 0.0f)};
}

/// Where a thread's sums are in a tile: rows row() + 64 * half + 8 * below, columns col() + 8 * j
/// and one more.
struct ThreadPlace {
  int lane = int(threadIdx.x) % 32;
  int warp = int(threadIdx.x / 32) % 4;
  __device__ int row() const { return warp * 16 + lane / 4; }
  __device__ int col() const { return lane % 4 * 2; }
};

/// What dropout leaves of a thread's values of a tile of kWidth columns, two rows and two columns
/// at a time. All numbers are drawn first, in a loop of few instructions, and one bit is kept of
/// each. kMay: whether any may be.
template <int kWidth, bool kMay>
class Dropped {
 public:
  struct Four {
    Pack<float, 2> row[2];  ///< eight rows apart
  };
  /// By a whole warp.
  __device__ Dropped(const WindowResult& to, TilePlace tile) : mask_(to.dropout) {
    if (!kMay || !mask_.drops()) return;
    const ThreadPlace thread;
    const Index row = to.first_row + tile.row + thread.row();
    const int col = tile.col + thread.col();
    // Then four rows of one Philox block stand in four lanes.
    if (mask_.places % 4 == 0 && to.first_row % 4 == 0)
      draw_together(row, col);
    else
      draw_alone(row, col);
  }
  /// The values of columns 8 * j and one more.
  __device__ void apply(int half, int j, Four& value) const {
#pragma unroll
    for (int item = 0; item < 4; ++item) {
      float& x = value.row[item / 2].value[item % 2];
      x = mask_.result((kept_[j / 4] >> (place_of(half, j) + item) & 1) != 0, x);
    }
  }

 private:
  static constexpr int kWords = kWidth / 32;  // of eight bits for each j

  /// Of the bits of the items of a half in a word.
  static __device__ int place_of(int half, int j) {
    return j % 4 * 8 + half * 4;
  }
  static __device__ int row_of(int half, int item) {
    return 64 * half + item / 2 * 8;
  }

  struct Unit {
    std::uint64_t example;
    std::uint64_t number;  ///< in the order of files
  };
  __device__ Unit unit(Index row, int col) const {
    const auto r = unsigned(row), places = unsigned(mask_.places);
    return {std::uint64_t(mask_.first_row + r / places),
            std::uint64_t(Index(col) * mask_.places + r % places)};
  }

  /// draw(j): the bits of both halves of columns 8 * j and one more.
  template <typename Draw>
  __device__ void for_words(const Draw& draw) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      std::uint32_t bits = 0;
#pragma unroll 1
      for (int j = 4 * word; j < 4 * word + 4; ++j) bits |= draw(j) << place_of(0, j);
      kept_[word] = bits;
    }
  }

  /// Four lanes in a column have four rows of one block. Member m draws for item m of all of them;
  /// bit w of what it keeps is member w's.
  __device__ void draw_together(Index row, int col) {
    const int lane = int(threadIdx.x) % 32, member = lane / 4 % 4;
    const std::uint32_t least = mask_.least_kept();
    const Unit first = unit(row + row_of(0, member), col + member % 2);
    const Unit second = unit(row + row_of(1, member), col + member % 2);
    const auto step = std::uint64_t(2 * mask_.places);  // blocks of eight columns
    for_words([&](int j) {
      const Philox::Block of[2] = {
          mask_.random.block(first.number / 4 + unsigned(j) * step, first.example),
          mask_.random.block(second.number / 4 + unsigned(j) * step, second.example)};
      std::uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) bits |= std::uint32_t(of[i / 4].word[i % 4] >= least) << i;
      return bits;
    });
#pragma unroll
    for (std::uint32_t& word : kept_) {
      std::uint32_t own = 0;
#pragma unroll
      for (int item = 0; item < 4; ++item) {
        const std::uint32_t drawn = __shfl_sync(0xFFFFFFFFu, word, (lane & ~12) | item * 4);
        own |= (drawn >> member & 0x11111111u) << item;
      }
      word = own;
    }
  }
  __device__ void draw_alone(Index row, int col) {
    for_words([&](int j) {
      std::uint32_t bits = 0;
#pragma unroll 1
      for (int i = 0; i < 8; ++i) {
        const Unit of = unit(row + row_of(i / 4, i % 4), col + 8 * j + i % 2);
        bits |= std::uint32_t(mask_.random.uniform(of.example, of.number) >= mask_.p) << i;
      }
      return bits;
    });
  }

  const DropoutMask& mask_;
  std::uint32_t kept_[kWords] = {};
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

/// Sums as they are, of rows before `rows_end`; two columns may be written at once.
template <int kHalves, int kSums>
__device__ void write_sums(MatrixView<float> to, TilePlace tile, int rows_end,
                           const float (&sum)[kHalves][kSums]) {
  const ThreadPlace thread;
  const int col = tile.col + thread.col(), cols = int(to.cols) - col;
#pragma unroll
  for (int half = 0; half < kHalves; ++half)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const int r = tile.row + thread.row() + 64 * half + 8 * below;
      if (r >= rows_end) continue;
      float* const row = to.row(r) + col;
#pragma unroll
      for (int j = 0; j < kSums / 4; ++j)
        if (8 * j < cols)
          store<2>(row + 8 * j,
                   Pack<float, 2>{sum[half][4 * j + 2 * below], sum[half][4 * j + 2 * below + 1]});
    }
}

/// A consumer's tile of kWidth columns in shared memory, in boxes of 64 rows and at most 128 bytes:
/// what results need comes in, and what is made of it goes out from the same place. Memory that
/// holds a part of the columns has one after another. kPlaced: rows stand at ResultPlaces. Its
/// threads must be whole wherever it is called.
template <typename Element, int kWidth, bool kPlaced>
class ResultTile {
  static constexpr int kMost = 32768;  // bytes, which leave enough to the ring
  static constexpr int kBytesOf = int(sizeof(Element));
  static constexpr bool kMayDrop = std::is_same_v<Element, Bfloat16> && !kPlaced;
  using Drops = Dropped<kWidth, kMayDrop>;

 public:
  static constexpr int kBoxCols = kWidth % kTileDepthOf<Element> == 0 ? kTileDepthOf<Element> : 32;
  static constexpr int kRowBytes = kBoxCols * kBytesOf;
  static constexpr int kBoxBytes = 64 * kRowBytes;
  static constexpr int kBoxes = kWidth / kBoxCols;                         ///< side by side
  static constexpr int kHeld = std::min(kBoxes, kMost / (2 * kBoxBytes));  ///< of them
  static constexpr int kBytes = 2 * kHeld * kBoxBytes;
  static constexpr int kParts = (kBoxes + kHeld - 1) / kHeld;

  __device__ ResultTile(const WindowResult& to, const WindowPlaces& places,
                        const CUtensorMap& needed, const CUtensorMap& result, std::uint32_t memory,
                        std::uint32_t loaded, int consumer)
      : to_(to),
        places_(places),
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
    const Drops dropped(to_, tile);
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
      if constexpr (kPlaced) {
        const WindowPlaces::Place place = places_.at(row < rows() ? row : 0);
        hopper::load_places(needed_, at, loaded_, col, place.x, place.y, place.example, 0, 0);
      } else {
        hopper::load_box(needed_, at, loaded_, col, row);
      }
    });
  }
  __device__ void wait_for_load() {
    hopper::barrier_wait(loaded_, parity_);
    parity_ ^= 1;
  }

  template <int kPart, int kSums>
  __device__ void give_part(TilePlace tile, const Drops& dropped, const float (&sum)[2][kSums]) {
    needs<Element>(to_) ? wait_for_load() : wait_for_memory();
    if (to_.existing == Existing::add)
      finish<kPart, Finish::add, false>(tile, dropped, sum);
    else if (to_.takes_slope())
      finish_with_bias<kPart, Finish::slope>(tile, dropped, sum);
    else if (kMayDrop && to_.dropout.drops())
      finish_with_bias<kPart, kMayDrop ? Finish::dropped : Finish::value>(tile, dropped, sum);
    else
      finish_with_bias<kPart, Finish::value>(tile, dropped, sum);
    store<kPart>(tile);
  }
  template <int kPart, Finish kFinish, int kSums>
  __device__ void finish_with_bias(TilePlace tile, const Drops& dropped,
                                   const float (&sum)[2][kSums]) const {
    if (to_.bias.data != nullptr)
      finish<kPart, kFinish, true>(tile, dropped, sum);
    else
      finish<kPart, kFinish, false>(tile, dropped, sum);
  }
  /// In place. What does not change within a tile is not asked for each element.
  template <int kPart, Finish kFinish, bool kBias, int kSums>
  __device__ void finish(TilePlace tile, const Drops& dropped, const float (&sum)[2][kSums]) const {
#pragma unroll
    for (int box = 0; box < kBoxesOf<kPart>; ++box)
      finish_box<kFinish, kBias>(tile, kPart * kHeld + box, box, dropped, sum);
  }
  /// A box of the tile's in memory.
  template <Finish kFinish, bool kBias, int kSums>
  __device__ void finish_box(TilePlace tile, int of_tile, int in_memory, const Drops& dropped,
                             const float (&sum)[2][kSums]) const {
    constexpr int kCount = kBoxCols / 8;
    const int first = of_tile * kCount;
    const ThreadPlace thread;
    float2 bias[kCount] = {};
    if constexpr (kBias)
#pragma unroll
      for (int j = 0; j < kCount; ++j)  // on their way together
        if (const int col = tile.col + thread.col() + 8 * (first + j); col < cols())
          bias[j] = make_float2(__ldg(to_.bias.data + col), __ldg(to_.bias.data + col + 1));
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const std::uint32_t at = address(thread, in_memory * kBoxCols + 8 * j);
      float2 y[2][2] = {};
      if constexpr (kFinish == Finish::slope || kFinish == Finish::add)
#pragma unroll
        for (int i = 0; i < 4; ++i) y[i / 2][i % 2] = read(at + offset(i / 2, i % 2));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        typename Drops::Four value;
#pragma unroll
        for (int below = 0; below < 2; ++below) {
          float2 z = make_float2(sum[half][4 * (first + j) + 2 * below],
                                 sum[half][4 * (first + j) + 2 * below + 1]);
          if constexpr (kBias) z.x += bias[j].x, z.y += bias[j].y;
          value.row[below] = {finished<kFinish>(to_.f, z.x, y[half][below].x),
                              finished<kFinish>(to_.f, z.y, y[half][below].y)};
        }
        if constexpr (kFinish == Finish::dropped) dropped.apply(half, first + j, value);
#pragma unroll
        for (int below = 0; below < 2; ++below) write(at + offset(half, below), value.row[below]);
      }
    }
  }
  __device__ int cols() const {
    return int(result_of<Element>(to_).cols);
  }
  __device__ int rows() const {
    return int(result_of<Element>(to_).rows);
  }
  /// Rows and columns beyond the result's are left out.
  template <int kPart>
  __device__ void store(TilePlace tile) const {
    hopper::fence_async();
    sync();
    if (!is_first()) return;
    for_boxes<kPart>(tile, [&](std::uint32_t at, int col, int row) {
      if constexpr (kPlaced) {
        if (row >= rows()) return;
        const WindowPlaces::Place place = places_.at(row);
        hopper::store_places(result_, at, col, place.x, place.y, place.example);
      } else {
        hopper::store_box(result_, at, col, row);
      }
    });
    hopper::commit_stores();
  }

  /// Of a thread's two columns in eight, as the copy engine's swizzle arranges them: 16-byte runs
  /// of a row are exchanged by the bits of its number, which are the same eight rows below.
  __device__ std::uint32_t address(const ThreadPlace& thread, int col) const {
    const int own = thread.col() * kBytesOf, row = thread.row();
    const int run = col % kBoxCols * kBytesOf / 16 + own / 16;
    const int swizzled = kRowBytes == 128 ? run ^ row % 8 : run ^ row / 2 % 4;
    return memory_ + col / kBoxCols * kBoxBytes + row * kRowBytes + swizzled * 16 + own % 16;
  }
  static constexpr int offset(int half, int below) {
    return half * kHeld * kBoxBytes + below * 8 * kRowBytes;
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
  const WindowPlaces& places_;
  const CUtensorMap& needed_;
  const CUtensorMap& result_;
  std::uint32_t memory_;
  std::uint32_t loaded_;
  int consumer_;
  std::uint32_t parity_ = 0;
};

}  // namespace norn::cuda
