// SPDX-License-Identifier: Apache-2.0
// Columns of a matrix on their way to other ranks and back: the driver's own copies of rows take
// several times as long.
#include "src/parallel/gpu/copy_rows.h"

#include <algorithm>

namespace norn {
namespace {

constexpr int kThreads = 256;

/// Words are numbered row by row; a thread takes one, and further ones a whole grid apart.
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    copy_words(char* to, std::int64_t to_stride, const char* from, std::int64_t from_stride,
               std::int64_t words, std::int64_t all) {
  const std::int64_t step = std::int64_t(gridDim.x) * kThreads;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x; i < all; i += step) {
    const std::int64_t row = i / words;
    const std::int64_t at = (i - row * words) * std::int64_t(sizeof(Word));
    *reinterpret_cast<Word*>(to + row * to_stride + at) =
        *reinterpret_cast<const Word*>(from + row * from_stride + at);
  }
}

template <typename Word>
void launch(Rows to, Rows from, std::int64_t bytes, std::int64_t rows, cudaStream_t stream) {
  constexpr std::int64_t kMostBlocks = 1056;  // eight for each of 132 multiprocessors
  const std::int64_t words = bytes / std::int64_t(sizeof(Word));
  const std::int64_t all = words * rows;
  const std::int64_t blocks = std::min(kMostBlocks, (all + kThreads - 1) / kThreads);
  copy_words<Word><<<unsigned(blocks), kThreads, 0, stream>>>(
      static_cast<char*>(to.data), to.stride, static_cast<const char*>(from.data), from.stride,
      words, all);
}

}  // namespace

cudaError_t copy_rows(Rows to, Rows from, std::int64_t bytes, std::int64_t rows,
                      cudaStream_t stream) {
  if (bytes == 0 || rows == 0) return cudaSuccess;
  const auto bits = reinterpret_cast<std::uintptr_t>(to.data) |
                    reinterpret_cast<std::uintptr_t>(from.data) | std::uintptr_t(to.stride) |
                    std::uintptr_t(from.stride) | std::uintptr_t(bytes);
  if (bits % 16 == 0)
    launch<uint4>(to, from, bytes, rows, stream);
  else if (bits % 4 == 0)
    launch<std::uint32_t>(to, from, bytes, rows, stream);
  else
    launch<std::uint16_t>(to, from, bytes, rows, stream);
  return cudaGetLastError();
}

}  // namespace norn
