// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/elements/access.h"
#include "kernels/cuda/elements/search.h"
#include "kernels/cuda/select/select_key.h"
#include "kernels/select.h"

#include <limits>

/// Kernels that merge candidates into the lists of the best, a thread block a row.
///
/// Candidates come from a Source, a value with
///   size(r)                        how many of row r,
///   load_four(r, at, score)        the scores of [at, at + 4); NaN where there is none,
///   key(r, i, score)               the key of candidate i, or kNoKey when it may not be chosen.
namespace norn::cuda {

inline constexpr int kMergeThreads = 256;
inline constexpr int kMergeGroups = 4;  ///< of four scores that a thread reads at a time
inline constexpr int kGroupWidth = kMergeThreads * 4;
inline constexpr int kCandidateCapacity = 2048;  ///< a list and one group of candidates
inline constexpr int kLargeThreads = 1024;

/// The lists in the device's memory.
struct BestView {
  MatrixView<float> score;
  MatrixView<Index> unit;
  Index* count;
};

/// Whether a unit may not be recommended to row r.
__device__ inline bool is_forbidden(const Candidates& candidates, Index r, Index unit) {
  if (!candidates.allowed.empty() && candidates.allowed[unit] == 0) return true;
  return candidates.excluded.rows > 0 && stores(candidates.excluded, r, unit);
}

/// The scores of one block of units.
struct BlockOfScores {
  MatrixView<const float> score;
  Index first_unit;
  Candidates candidates;
  int width;  ///< of an access

  __device__ Index size(Index) const { return score.cols; }
  __device__ void load_four(Index r, Index at, float (&x)[4]) const {
    const Index left = score.cols - at;
    cuda::load_four(score.row(r) + at, 0, left < 4 ? int(left) : 4, width,
                    std::numeric_limits<float>::quiet_NaN(), x);
  }
  __device__ Key key(Index r, Index i, float x) const {
    const Index unit = first_unit + i;
    return x != x || is_forbidden(candidates, r, unit) ? kNoKey : key_of(x, unit);
  }
};

/// Other lists.
struct ListOfBest {
  MatrixView<const float> score;
  MatrixView<const Index> unit;
  const Index* count;

  __device__ Index size(Index r) const { return count[r]; }
  __device__ void load_four(Index r, Index at, float (&x)[4]) const {
    const Index left = count[r] - at;
    cuda::load_four(score.row(r) + at, 0, left < 4 ? int(left) : 4, 1,
                    std::numeric_limits<float>::quiet_NaN(), x);
  }
  __device__ Key key(Index r, Index i, float x) const { return key_of(x, unit(r, i)); }
};

/// Sorts n keys, a power of two, best first (Batcher's bitonic network); all threads of the block.
template <typename Int>
__device__ void sort_keys(Key* keys, Int n) {
  for (Int size = 2; size <= n; size *= 2)
    for (Int stride = size / 2; stride > 0; stride /= 2) {
      for (Int i = Int(threadIdx.x); i < n / 2; i += Int(blockDim.x)) {
        const Int low = (i & ~(stride - 1)) * 2 + (i & (stride - 1));
        const Key a = keys[low];
        const Key b = keys[low + stride];
        if ((a < b) == ((low & size) == 0)) {
          keys[low] = b;
          keys[low + stride] = a;
        }
      }
      __syncthreads();
    }
}

/// The candidates of a row that are still in the running, in shared memory.
struct Running {
  Key key[kCandidateCapacity];
  int count;

  /// Sorts them and keeps the best k. Returns the last of these, or kNoKey when there are fewer.
  __device__ Key keep_best(int k) {
    const int filled = count;
    int n = 32;
    while (n < filled) n *= 2;
    for (int i = filled + int(threadIdx.x); i < n; i += kMergeThreads) key[i] = kNoKey;
    __syncthreads();
    sort_keys(key, n);
    if (threadIdx.x == 0) count = min(filled, k);
    __syncthreads();
    return filled >= k ? key[k - 1] : kNoKey;
  }

  /// Adds a candidate; returns whether another group of them might not find room.
  __device__ bool add(Key candidate) {
    const int place = atomicAdd(&count, 1);
    key[place] = candidate;
    return place >= kCandidateCapacity - kGroupWidth;
  }
};

/// Merges in shared memory, for k <= kCandidateCapacity - kGroupWidth. Reads the scores once; most
/// of them fall to the score of the last unit in the list.
template <typename Source>
__global__ void __launch_bounds__(kMergeThreads) merge_small(Source source, BestView best) {
  __shared__ Running running;
  const Index r = blockIdx.x;
  const int k = int(best.score.cols);
  const int listed = int(best.count[r]);
  for (int i = int(threadIdx.x); i < listed; i += kMergeThreads)
    running.key[i] = key_of(best.score(r, i), best.unit(r, i));
  if (threadIdx.x == 0) running.count = listed;
  __syncthreads();
  Key threshold = listed == k ? running.key[k - 1] : kNoKey;
  float least = score_of(threshold);
  bool is_changed = false;
  const Index size = source.size(r);
  for (Index tile = 0; tile < size; tile += kMergeGroups * kGroupWidth) {
    float score[kMergeGroups][4];
    bool has_any = false;
#pragma unroll
    for (int g = 0; g < kMergeGroups; ++g) {
      const Index at = tile + g * kGroupWidth + threadIdx.x * 4;
#pragma unroll
      for (int j = 0; j < 4; ++j) score[g][j] = std::numeric_limits<float>::quiet_NaN();
      if (at < size) source.load_four(r, at, score[g]);
    }
#pragma unroll
    for (int g = 0; g < kMergeGroups; ++g)
#pragma unroll
      for (int j = 0; j < 4; ++j) has_any |= score[g][j] >= least;
    if (!__syncthreads_or(has_any)) continue;
    is_changed = true;
#pragma unroll
    for (int g = 0; g < kMergeGroups; ++g) {
      const Index at = tile + g * kGroupWidth + threadIdx.x * 4;
      bool is_full = false;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (!(score[g][j] >= least)) continue;
        const Key candidate = source.key(r, at + j, score[g][j]);
        if (candidate > threshold) is_full |= running.add(candidate);
      }
      if (__syncthreads_or(is_full)) {
        threshold = running.keep_best(k);
        least = score_of(threshold);
      }
    }
  }
  if (!is_changed) return;
  running.keep_best(k);
  for (int i = int(threadIdx.x); i < running.count; i += kMergeThreads) {
    best.score(r, i) = score_of(running.key[i]);
    best.unit(r, i) = unit_of(running.key[i]);
  }
  if (threadIdx.x == 0) best.count[r] = running.count;
}

/// body(key) for everything that row r's list and a source hold.
template <typename Source, typename Body>
__device__ void for_each_key(const Source& source, const BestView& best, Index r,
                             const Body& body) {
  for (Index i = threadIdx.x; i < best.count[r]; i += kLargeThreads)
    body(key_of(best.score(r, i), best.unit(r, i)));
  const Index size = source.size(r);
  for (Index at = Index(threadIdx.x) * 4; at < size; at += kLargeThreads * 4) {
    float score[4];
    source.load_four(r, at, score);
    for (int j = 0; j < 4; ++j) {
      if (at + j >= size || score[j] != score[j]) continue;
      const Key key = source.key(r, at + j, score[j]);
      if (key != kNoKey) body(key);
    }
  }
}

/// The k-th best key of a list and a source, or kNoKey when there are fewer: digit by digit, each
/// from a histogram of the keys that have the digits before it.
template <typename Source>
__device__ Key find_last_kept(const Source& source, const BestView& best, Index r, Index k) {
  constexpr int kBits = 8;
  __shared__ unsigned long long histogram[1 << kBits];
  __shared__ Key shared_prefix;
  __shared__ Index shared_rest;
  Key prefix = 0;
  Key mask = 0;
  Index rest = k;
  for (int shift = 64 - kBits; shift >= 0; shift -= kBits) {
    for (int i = int(threadIdx.x); i < 1 << kBits; i += kLargeThreads) histogram[i] = 0;
    __syncthreads();
    for_each_key(source, best, r, [&](Key key) {
      if ((key & mask) == prefix) atomicAdd(&histogram[(key >> shift) & ((1 << kBits) - 1)], 1ull);
    });
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = (1 << kBits) - 1;
      while (digit >= 0 && Index(histogram[digit]) < rest) rest -= Index(histogram[digit--]);
      shared_prefix = digit < 0 ? kNoKey : prefix | Key(digit) << shift;
      shared_rest = digit < 0 ? -1 : rest;
    }
    __syncthreads();
    if (shared_rest < 0) return kNoKey;  // the first digit already shows it
    prefix = shared_prefix;
    rest = shared_rest;
    mask |= Key((1 << kBits) - 1) << shift;
  }
  return prefix;
}

/// Merges by selection in global memory, for any k. sorted [rows of the grid x capacity], capacity
/// a power of two and at least k.
template <typename Source>
__global__ void __launch_bounds__(kLargeThreads)
    merge_large(Source source, BestView best, Index first_row, Key* sorted, Index capacity) {
  __shared__ unsigned long long filled;
  const Index r = first_row + blockIdx.x;
  const Index k = best.score.cols;
  Key* kept = sorted + Index(blockIdx.x) * capacity;
  const Key last = find_last_kept(source, best, r, k);
  if (threadIdx.x == 0) filled = 0;
  __syncthreads();
  for_each_key(source, best, r, [&](Key key) {
    if (key < last) return;
    const Index place = Index(atomicAdd(&filled, 1ull));
    if (place < capacity) kept[place] = key;
  });
  __syncthreads();
  const Index count = min(Index(filled), k);
  Index n = 2;
  while (n < count) n *= 2;
  for (Index i = count + threadIdx.x; i < n; i += kLargeThreads) kept[i] = kNoKey;
  __syncthreads();
  sort_keys(kept, n);
  for (Index i = threadIdx.x; i < count; i += kLargeThreads) {
    best.score(r, i) = score_of(kept[i]);
    best.unit(r, i) = unit_of(kept[i]);
  }
  if (threadIdx.x == 0) best.count[r] = count;
}

}  // namespace norn::cuda
