// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/row_product.h"

/// Products of a few rows, for the file that is compiled for a set of instructions: weights are
/// read once, as they lie. C gives eight chains: Type, zero, load, load_some of the first n (others
/// are zero), store, load_rows and store_rows of 8 / kRows each, add, fma, first (n of a, the rest
/// of b), and transpose of eight of them.
namespace norn {
namespace {

/// kRows x kUnits elements, eight in all, and a chain of each in a vector of its own.
template <typename C, int kRows, int kUnits>
struct FewTile {
  using Type = typename C::Type;
  static_assert(kRows * kUnits == kChains);
  const float* x[kRows];
  const float* w[kUnits];
  Index ahead;  ///< FewRows::ahead, or 0 where others have fetched them

  /// Adds eight steps of the depth to the chains.
  void step(Index k, Type (&chains)[kChains]) const {
    Type values[kUnits];
#pragma GCC unroll 8
    for (int u = 0; u < kUnits; ++u) values[u] = C::load(w[u] + k);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Type value = C::load(x[r] + k);
#pragma GCC unroll 8
      for (int u = 0; u < kUnits; ++u)
        chains[r * kUnits + u] = C::fma(value, values[u], chains[r * kUnits + u]);
    }
  }

  /// Adds the last `rest` steps, fewer than eight.
  void step_some(Index k, Index rest, Type (&chains)[kChains]) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int u = 0; u < kUnits; ++u) {
        Type& chain = chains[r * kUnits + u];
        const Type value = C::load_some(x[r] + k, rest), weight = C::load_some(w[u] + k, rest);
        chain = C::first(rest, C::fma(value, weight, chain), chain);
      }
  }

  /// Adds the runs of the depth to the elements.
  Type add_runs(Index depth, Type sum) const {
    for (Index k = 0; k < depth;) {
      const Index end = depth - k < kDepthRun ? depth : k + kDepthRun, steps = end - k;
      Type chains[kChains];
#pragma GCC unroll 8
      for (Index e = 0; e < kChains; ++e) chains[e] = C::zero();
      for (; k + 16 <= end; k += 16) {
        if (ahead > 0)
#pragma GCC unroll 8
          for (int u = 0; u < kUnits; ++u) __builtin_prefetch(w[u] + k + ahead, 0, 2);
        step(k, chains);
        step(k + kChains, chains);
      }
      for (; k + kChains <= end; k += kChains) step(k, chains);
      if (k < end) step_some(k, end - k, chains);
      k = end;
      C::transpose(chains);
#pragma GCC unroll 8
      for (Index j = 0; j < kChains; ++j)
        if (j < steps) sum = C::add(sum, chains[j]);
    }
    return sum;
  }
};

/// Rows from `row` on by `units` from `unit` on. Units beyond them repeat the last one, and are
/// dropped.
template <typename C, int kRows, int kUnits>
void add_few_tile(const FewRows& p, Index row, Index unit, Index units) {
  const float *x = p.x + row * p.x_stride, *w = p.w + unit * p.w_stride;
  float* z = p.z + row * p.z_stride + unit;
  FewTile<C, kRows, kUnits> tile;
  tile.ahead = row == 0 ? p.ahead : 0;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) tile.x[r] = x + r * p.x_stride;
  if (units >= kUnits) {
#pragma GCC unroll 8
    for (int u = 0; u < kUnits; ++u) tile.w[u] = w + u * p.w_stride;
    const auto sum = C::template load_rows<kRows>(z, p.z_stride);
    C::template store_rows<kRows>(z, p.z_stride, tile.add_runs(p.depth, sum));
    return;
  }
  for (Index u = 0; u < kUnits; ++u) tile.w[u] = w + (u < units ? u : units - 1) * p.w_stride;
  float all[kChains] = {};
  for (Index r = 0; r < kRows; ++r)
    for (Index u = 0; u < units; ++u) all[r * kUnits + u] = z[r * p.z_stride + u];
  C::store(all, tile.add_runs(p.depth, C::load(all)));
  for (Index r = 0; r < kRows; ++r)
    for (Index u = 0; u < units; ++u) z[r * p.z_stride + u] = all[r * kUnits + u];
}

template <typename C, int kRows>
void add_few_tiles(const FewRows& p, Index row, Index unit, Index units) {
  constexpr int kUnits = int(kChains) / kRows;
  for (Index u = 0; u < units; u += kUnits)
    add_few_tile<C, kRows, kUnits>(p, row, unit + u, units - u);
}

template <typename C>
void add_few(const FewRows& p) {
  for (Index unit = 0; unit < p.units; unit += kChains) {
    const Index units = p.units - unit < kChains ? p.units - unit : kChains;
    Index row = 0;
    for (; row + 4 <= p.rows; row += 4) add_few_tiles<C, 4>(p, row, unit, units);
    for (; row + 2 <= p.rows; row += 2) add_few_tiles<C, 2>(p, row, unit, units);
    for (; row < p.rows; ++row) add_few_tiles<C, 1>(p, row, unit, units);
  }
}

}  // namespace
}  // namespace norn
