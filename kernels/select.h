// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/tensor/buffer.h"

#include <algorithm>
#include <bit>
#include <cstdint>

/// The best K units of every example, gathered block by block.
namespace norn {

/// Which units may be recommended.
struct Candidates {
  CsrView excluded;  ///< rows [B]; columns ascend; rows == 0: nothing is excluded
  VectorView<const std::uint8_t> allowed;  ///< [units] 1 where allowed, or empty for all
};

/// The best units so far: rows are kept best first; ties by lowest unit.
struct TopK {
  Matrix<float> score;  ///< [B x K]
  Matrix<Index> unit;   ///< [B x K]
  Buffer<Index> count;  ///< [B] how many of the K are filled
  Index k = 0;
};

/// How a GPU merges lists that are too long for its shared memory: they are sorted in its own, some
/// rows at a time, as keys of 8 bytes.
struct SortedLists {
  static constexpr Index kLongestMerged = 1024;  ///< up to here nothing is sorted
  static constexpr Index kMostBytes = Index(1) << 28;
  /// Keys of a row.
  static constexpr Index capacity(Index k) { return Index(std::bit_ceil(std::uint64_t(k))); }
  static constexpr Index rows_at_once(Index rows, Index k) {
    return std::clamp<Index>(kMostBytes / (8 * capacity(k)), 1, rows);
  }
};

class SelectKernels {
 public:
  virtual ~SelectKernels() = default;
  /// Empties `best` for `rows` examples and K = k.
  void begin(Index rows, Index k, TopK& best);
  /// Merges the scores of units [first_unit, first_unit + W) into the best of every row. Exact for
  /// every K; scores that are NaN are never chosen.   score [B x W]
  void merge(MatrixView<const float> score, Index first_unit, const Candidates& candidates,
             TopK& best);
  /// score(r, u - first_unit) *= factor for every unit u of the block that row r of `factors`
  /// lists.
  ///   factors [B x units] with values, columns ascend,  score [B x W]
  void multiply(const CsrView& factors, Index first_unit, MatrixView<float> score);
  /// Merges two lists of the same examples, for example of two ranks.
  void merge(const TopK& other, TopK& best);

 private:
  virtual void do_begin(Index rows, Index k, TopK& best) = 0;
  virtual void do_merge_scores(MatrixView<const float> score, Index first_unit,
                               const Candidates& candidates, TopK& best) = 0;
  virtual void do_multiply(const CsrView& factors, Index first_unit, MatrixView<float> score) = 0;
  virtual void do_merge_lists(const TopK& other, TopK& best) = 0;
};

}  // namespace norn
