// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <algorithm>
#include <array>

/// How the CPU's row-wise kernels cut their work: strips that stay in the first-level cache, sums
/// in a fixed number of float64 lanes, and runs of rows for one task.
namespace norn::strips {

inline constexpr Index kWidth = 256;  ///< elements of a strip

/// term(0) + ... + term(n - 1) in eight float64 lanes, added pairwise at the end.
template <typename Term>
double sum_in_lanes(Index n, const Term& term) {
  std::array<double, 8> lanes{};
  Index i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) lanes[lane] += term(i + Index(lane));
  for (std::size_t lane = 0; i < n; ++i, ++lane) lanes[lane] += term(i);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

inline double sum(const float* x, Index n) {
  return sum_in_lanes(n, [x](Index i) { return double(x[i]); });
}

inline double sum_of_squares(const float* x, Index n) {
  return sum_in_lanes(n, [x](Index i) { return double(x[i]) * double(x[i]); });
}

/// Calls body(first, count) for the strips of [0, n), in order.
template <typename Body>
void for_each_strip(Index n, const Body& body) {
  for (Index first = 0; first < n; first += kWidth) body(first, std::min(kWidth, n - first));
}

/// The float64 sum of what body(first, count, terms) writes into terms[0, count) for every strip.
template <typename Body>
double sum_of_strips(Index n, const Body& body) {
  double total = 0;
  for (Index first = 0; first < n; first += kWidth) {
    const Index count = std::min(kWidth, n - first);
    float terms[kWidth];
    body(first, count, terms);
    total += sum(terms, count);
  }
  return total;
}

/// Rows of `cols` elements that make a task worth its start.
inline Index rows_per_task(Index cols) {
  return std::max<Index>(1, Index(16384) / std::max<Index>(1, cols));
}

/// Columns of a strip of `rows` rows that make a task worth its start.
inline Index columns_per_task(Index rows) {
  return std::clamp<Index>(Index(16384) / std::max<Index>(1, rows) / 16 * 16, 64, kWidth);
}

}  // namespace norn::strips
