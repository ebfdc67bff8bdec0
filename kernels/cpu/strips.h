// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <algorithm>
#include <array>

/// How the CPU's row-wise kernels cut their work: strips that stay in the first-level cache, sums
/// that are float64 trees of a fixed shape, and runs of rows for one task.
namespace norn::strips {

inline constexpr Index kWidth = 256;  ///< elements of a strip

/// x[i] += x[i + Half], then the same for half of Half, down to x[0]: additions of whole vectors,
/// where a running sum would wait for each one.
template <Index Half>
double fold(double* x) {
  for (Index i = 0; i < Half; ++i) x[i] += x[i + Half];
  if constexpr (Half > 1)
    return fold<Half / 2>(x);
  else
    return x[0];
}

/// term(0) + ... + term(n - 1), n <= kWidth, in float64 as a balanced tree.
template <typename Term>
double sum_strip(Index n, const Term& term) {
  std::array<double, kWidth> terms;
  for (Index i = 0; i < n; ++i) terms[std::size_t(i)] = term(i);
  std::fill(terms.begin() + n, terms.end(), 0.0);
  return fold<kWidth / 2>(terms.data());
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
    total += sum_strip(count, [&](Index i) { return double(terms[i]); });
  }
  return total;
}

/// The float64 sum of squares: a tree within a strip, strips in order.
inline double sum_of_squares(const float* x, Index n) {
  double total = 0;
  for_each_strip(n, [&](Index first, Index count) {
    const float* strip = x + first;
    total += sum_strip(count, [strip](Index i) { return double(strip[i]) * double(strip[i]); });
  });
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
