// SPDX-License-Identifier: Apache-2.0
// What all kinds of communicator share: the check of shares, and an order of floats for maxima.
#pragma once

#include "norn/base/error.h"
#include "norn/tensor/views.h"
#include "src/tensor/block_partition.h"

#include <bit>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace norn {

/// Throws ShapeError unless there is one share for each rank and the shares cut [0, extent) in rank
/// order.
inline void check_shares(std::span<const Range> shares, int ranks, Index extent) {
  require(Index(shares.size()) == ranks, "communicator: expected one share for each rank");
  Index at = 0;
  for (const Range& share : shares) {
    require(share.begin == at && share.end >= at,
            "communicator: the shares must follow each other in rank order without gaps");
    at = share.end;
  }
  require(at == extent, "communicator: the shares must cover the whole matrix");
}

/// Throws ShapeError unless rank `rank` brings as many matrices [rows x N] as it said, which the
/// shares cut.
inline void check_exchange(std::span<const MatrixView<const float>> mine, Index rows,
                           std::span<const Index> counts, std::span<const Range> shares, int rank,
                           int ranks) {
  require(Index(counts.size()) == ranks && Index(mine.size()) == counts[std::size_t(rank)],
          "collectives: every rank must bring as many matrices as it said");
  require(Index(shares.size()) == ranks, "communicator: expected one share for each rank");
  for (const MatrixView<const float>& matrix : mine) {
    require(matrix.rows == rows, "collectives: matrices of an exchange must have equal shapes");
    check_shares(shares, ranks, matrix.cols);
  }
}

/// Matrices of an exchange that the ranks other than `rank` bring.
inline Index brought_by_others(std::span<const Index> counts, int rank) {
  return std::accumulate(counts.begin(), counts.end(), Index(0)) - counts[std::size_t(rank)];
}

/// `count` matrices [rows x cols] that stand one after the other without gaps.
inline std::vector<MatrixView<const float>> packed_matrices(const float* packed, Index count,
                                                            Index rows, Index cols) {
  std::vector<MatrixView<const float>> matrices;
  for (Index i = 0; i < count; ++i)
    matrices.push_back({packed + i * rows * cols, rows, cols, cols});
  return matrices;
}

/// An integer that grows with the float: its maximum does not depend on the order of comparisons,
/// whatever the signs of zeros are. Every NaN becomes the largest of all.
inline std::int32_t ordered_bits(float value) {
  if (value != value) return 0x7fffffff;
  const std::int32_t bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

inline float from_ordered_bits(std::int32_t ordered) {
  return std::bit_cast<float>(ordered >= 0 ? ordered : ordered ^ 0x7fffffff);
}

/// a + b that wraps: sums of many ranks are the same in every grouping.
inline std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return std::int64_t(std::uint64_t(a) + std::uint64_t(b));
}

}  // namespace norn
