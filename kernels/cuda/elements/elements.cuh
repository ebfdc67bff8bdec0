// SPDX-License-Identifier: Apache-2.0
// Work on the elements of matrices of one shape: how they are cut among threads, in 16-byte
// accesses where all pointers and strides allow it.
#pragma once

#include "kernels/cuda/device/stream.h"
#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace norn::cuda {

/// n elements that are read and written in one access.
template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T value[n];
};

/// The n elements from[0], from[kStep], ...; kStep 1 asks for a pointer that is a multiple of the
/// pack's size.
template <int n, int kStep = 1, typename T>
__device__ __forceinline__ Pack<std::remove_const_t<T>, n> load(T* from) {
  if constexpr (kStep == 1) {
    return *reinterpret_cast<const Pack<std::remove_const_t<T>, n>*>(from);
  } else {
    Pack<std::remove_const_t<T>, n> pack;
#pragma unroll
    for (int i = 0; i < n; ++i) pack.value[i] = from[i * kStep];
    return pack;
  }
}
template <int n, int kStep = 1, typename T>
__device__ __forceinline__ void store(T* to, const Pack<T, n>& pack) {
  if constexpr (kStep == 1) {
    *reinterpret_cast<Pack<T, n>*>(to) = pack;
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) to[i * kStep] = pack.value[i];
  }
}

/// The same for bfloat16, from floats; whole words are written, which the compiler does not find by
/// itself.
template <int n, int kStep>
__device__ __forceinline__ void store_bf16(Bfloat16* to, const Pack<float, n>& pack) {
  if constexpr (kStep == 1 && n > 1) {
    Pack<std::uint32_t, n / 2> words;
#pragma unroll
    for (int i = 0; i < n / 2; ++i)
      words.value[i] = std::uint32_t(Bfloat16::rounded(pack.value[2 * i + 1]).bits) << 16 |
                       Bfloat16::rounded(pack.value[2 * i]).bits;
    store<n / 2>(reinterpret_cast<std::uint32_t*>(to), words);
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) to[i * kStep] = Bfloat16::rounded(pack.value[i]);
  }
}

/// Whether packs of n elements may be read at every n-th column of every row. A matrix without
/// memory counts: it is not read.
template <int n, typename T>
bool is_packable(const MatrixView<T>& m) {
  return reinterpret_cast<std::uintptr_t>(m.data) % (sizeof(T) * n) == 0 &&
         (m.rows <= 1 || m.stride % n == 0);
}

/// The same vector for every row, as a matrix.
template <typename T>
MatrixView<T> on_every_row(VectorView<T> v, Index rows) {
  return {v.data, rows, v.size, 0};
}

/// The elements that a kernel goes over. Matrices without padding count as one long row.
struct Elements {
  Index rows = 0;
  Index cols = 0;
  bool is_packable = false;
};

/// What the matrices, all of one shape, have in common when they are read in packs of kWidth.
template <int kWidth, typename First, typename... T>
Elements elements_of(const MatrixView<First>& first, const MatrixView<T>&... others) {
  const auto is_run = [](const auto& m) { return m.data == nullptr || m.stride == m.cols; };
  Elements all{first.rows, first.cols,
               is_packable<kWidth>(first) && (is_packable<kWidth>(others) && ...)};
  if (first.rows > 1 && is_run(first) && (is_run(others) && ...)) {
    all.cols *= all.rows;
    all.rows = 1;
    // One row: what the strides were no longer matters.
    const auto is_aligned = [](auto m) {
      m.rows = 1;
      return cuda::is_packable<kWidth>(m);
    };
    all.is_packable = is_aligned(first) && (is_aligned(others) && ...);
  }
  return all;
}

struct Launch {
  dim3 grid;
  dim3 block;
};

inline constexpr int kElementThreads = 256;

/// Threads for `rows` rows of `chunks` chunks: x runs along rows, one chunk a thread, and y down
/// them. What holds for a column is read from the nearest cache where a thread works on several
/// rows, so there are no more blocks than keep the GPU busy.
inline Launch element_launch(const Stream& stream, Index rows, Index chunks) {
  int x = kElementThreads;
  if (chunks < kElementThreads) {
    for (x = 1; x < chunks; x *= 2) {
    }
  } else {
    // Fewer threads a row leave fewer idle at its end.
    while (x > 32 && (chunks + x - 1) / x * x - chunks > chunks / 16) x /= 2;
  }
  const int y = kElementThreads / x;
  const unsigned across = blocks_for(chunks, x, std::numeric_limits<int>::max());
  const Index down = std::min<Index>(65535, Index(16) * stream.multiprocessors / across);
  return {dim3(across, blocks_for(rows, y, down)), dim3(unsigned(x), unsigned(y))};
}

/// Calls at(r, c, n, step), n and step being constant types, for elements c, c + step, ... (n of
/// them) of row r, so that every element is met once. kStep is 1, where packs can be read, or 32:
/// then a warp goes through 32 * kWidth neighbours, one row of lanes after the other.
template <int kWidth, int kStep, typename At>
__device__ __forceinline__ void for_elements(Index rows, Index cols, const At& at) {
  constexpr std::integral_constant<int, kWidth> kAll{};
  constexpr std::integral_constant<int, 1> kOne{};
  constexpr std::integral_constant<int, kStep> kApart{};
  const Index row_step = Index(gridDim.y) * blockDim.y;
  const Index thread_step = Index(gridDim.x) * blockDim.x * kWidth;
  const Index thread = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  // x steps are multiples of 32 where kStep is: a thread keeps its place in its warp's neighbours.
  const Index first =
      kStep == 1 ? thread * kWidth : (thread & ~Index(31)) * kWidth + (thread & Index(31));
#pragma unroll 1
  for (Index r = Index(blockIdx.y) * blockDim.y + threadIdx.y; r < rows; r += row_step)
#pragma unroll 1
    for (Index c = first; c < cols; c += thread_step) {
      if (c + (kWidth - 1) * kStep < cols)
        at(r, c, kAll, kApart);
      else
        for (Index last = c; last < cols && last < c + kWidth * kStep; last += kStep)
          at(r, last, kOne, kOne);
    }
}

/// work.at<n, step>(r, c) for all elements.
template <int kWidth, int kStep, typename Work>
__global__ void __launch_bounds__(kElementThreads)
    elements_kernel(const Work work, const Index rows, const Index cols) {
  for_elements<kWidth, kStep>(rows, cols, [&](Index r, Index c, auto n, auto step) {
    work.template at<decltype(n)::value, decltype(step)::value>(r, c);
  });
}

/// Calls start(step, launch), the step between a thread's elements being a constant type.
template <int kWidth, typename Start>
void with_element_launch(const Stream& stream, const Elements& elements, const Start& start) {
  if (elements.rows == 0 || elements.cols == 0) return;
  if (kWidth == 1 || elements.is_packable)
    start(std::integral_constant<int, 1>{},
          element_launch(stream, elements.rows, (elements.cols + kWidth - 1) / kWidth));
  else
    start(std::integral_constant<int, 32>{},
          element_launch(stream, elements.rows,
                         (elements.cols + 32 * kWidth - 1) / (32 * kWidth) * 32));
}

template <int kWidth, typename Work>
void run_elements(const Stream& stream, const char* name, const Elements& elements,
                  const Work& work) {
  with_element_launch<kWidth>(stream, elements, [&](auto step, const Launch& l) {
    elements_kernel<kWidth, decltype(step)::value>
        <<<l.grid, l.block, 0, stream.stream>>>(work, elements.rows, elements.cols);
    check_launch(name);
  });
}

/// Elements [c, c + 4) of a row; those beyond its end are 0.
template <bool kPacked>
__device__ __forceinline__ Pack<float, 4> load_four(const float* row, Index c, Index cols) {
  if (kPacked && c + 4 <= cols) return load<4>(row + c);
  Pack<float, 4> four;
#pragma unroll
  for (int i = 0; i < 4; ++i) four.value[i] = c + i < cols ? row[c + i] : 0.0f;
  return four;
}

/// Elements [c, c + 4) of a row become those of `four`, as far as the row goes.
template <bool kPacked>
__device__ __forceinline__ void store_four(float* row, Index c, Index cols,
                                           const Pack<float, 4>& four) {
  if (kPacked && c + 4 <= cols) {
    store<4>(row + c, four);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (c + i < cols) row[c + i] = four.value[i];
}

}  // namespace norn::cuda
