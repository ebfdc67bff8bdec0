// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/sparse/row_lanes.cuh"

/// Sums of scattered rows that are in a cache: little is on its way at a time, so that many warps
/// fit.
namespace norn::cuda {

/// Entries of a list, 64 of them at hand in the lanes of a warp: a row's number and, where the
/// list has them, its factor. They are asked for in order.
template <typename Int>
class Entries {
 public:
  /// Entries [0, limit) may be read. No factors: all are 1.
  __device__ Entries(const Int* number, const float* factor, std::uint32_t limit)
      : number_(number), factor_(factor), limit_(limit) {}

  /// Fetches 64 entries from `first` on.
  __device__ void start(std::uint32_t first) {
    window_ = first;
    here_ = fetch(first);
    next_ = fetch(first + kWarp);
  }

  /// sum += the rows of entries [begin, end). `source` stands at the lane's column; kInFlight rows
  /// are read at a time.
  template <int kWidth, int kInFlight, typename T>
  __device__ void add_rows(std::uint32_t begin, std::uint32_t end, const T* source,
                           std::uint32_t stride, Lane<kWidth>& sum) {
    while (begin < end) {
      if (begin - window_ >= 2 * kWarp)
        start(begin);
      else if (begin - window_ >= kWarp)
        advance();
      const int first = int(begin - window_);
      const int count = int(end - window_ < kWarp ? end - window_ : kWarp);
      if (factor_)
        add_here<kWidth, kInFlight, true>(first, count, source, stride, sum);
      else
        add_here<kWidth, kInFlight, false>(first, count, source, stride, sum);
      begin = window_ + count;
    }
  }

 private:
  struct Entry {
    Int number = 0;
    float factor = 1.0f;
  };

  __device__ Entry fetch(std::uint32_t first) const {
    const std::uint32_t i = first + threadIdx.x % kWarp;
    Entry entry;
    if (i >= limit_) return entry;
    entry.number = __ldcs(number_ + i);
    if (factor_) entry.factor = __ldcs(factor_ + i);
    return entry;
  }
  __device__ void advance() {
    window_ += kWarp;
    here_ = next_;
    next_ = fetch(window_ + kWarp);
  }

  template <int kWidth, int kInFlight, bool kFactors, typename T>
  __device__ void add_here(int k, int count, const T* source, std::uint32_t stride,
                           Lane<kWidth>& sum) const {
    // One instruction an address: a product of 32 bits and a sum of 64.
    const auto* from = reinterpret_cast<const char*>(source);
    const std::uint32_t bytes = stride * std::uint32_t(sizeof(T));
#pragma unroll 1
    for (; k < count; k += kInFlight) {
      Lane<kWidth> row[kInFlight] = {};
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        const auto number = std::uint32_t(__shfl_sync(kAllLanes, here_.number, k + u));
        if (k + u < count)
          row[u] =
              load_lane<kWidth>(reinterpret_cast<const T*>(from + std::uint64_t(number) * bytes));
      }
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        float factor = 1.0f;
        if constexpr (kFactors) factor = __shfl_sync(kAllLanes, here_.factor, k + u);
        if (k + u < count)
          for (int j = 0; j < kWidth; ++j)
            sum.v[j] += kFactors ? factor * row[u].v[j] : row[u].v[j];
      }
    }
  }

  const Int* number_;
  const float* factor_;
  std::uint32_t limit_, window_ = 0;
  Entry here_, next_;
};

}  // namespace norn::cuda
