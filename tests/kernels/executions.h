// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/tensor/executor.h"
#include "tests/kernels/samples.h"

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

/// The ways in which a kernel may be run, which must all give the same bits.
namespace norn::samples {

/// Calls compute(executor) with executors of 1, 2 and 7 lanes, from outside and from inside a task,
/// and expects the same bytes from each.
template <typename Compute>
void expect_same_bits_however_run(const Compute& compute) {
  std::optional<decltype(compute(std::declval<Executor&>()))> first;
  const auto check = [&](Executor& executor, const char* where) {
    SCOPED_TRACE(std::to_string(executor.lanes()) + " lanes, " + where);
    auto result = compute(executor);
    if (!first)
      first = std::move(result);
    else
      ASSERT_EQ(*first == result, true) << "bits differ";
  };
  for (int lanes : {1, 2, 7}) {
    Executor executor(lanes);
    check(executor, "outside a task");
    executor.for_each(2, [&](Index task, int) {
      if (task == 0) check(executor, "inside a task");
    });
  }
}

/// The bits of a matrix with its padding.
template <typename T>
std::vector<std::uint32_t> bits_of(MatrixView<T> m) {
  static_assert(sizeof(T) == 4);
  std::vector<std::uint32_t> bits(std::size_t(m.rows * m.stride));
  if (!bits.empty()) std::memcpy(bits.data(), m.data, bits.size() * 4);
  return bits;
}

inline void append(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Fills a matrix with normal numbers.
inline void fill_normal(MatrixView<float> m, std::mt19937_64& random, float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  for (Index r = 0; r < m.rows; ++r)
    for (Index c = 0; c < m.cols; ++c) m(r, c) = normal(random);
}

/// A sparse batch with what goes wrong easily: empty rows, a full row, duplicate columns, the last
/// column, unsorted columns, and otherwise about `density` entries a row.
inline SparseRows awkward_batch(Index rows, Index cols, Index density, bool values,
                                std::mt19937_64& random) {
  SparseRows x;
  x.cols = cols;
  std::normal_distribution<float> normal;
  const auto any_column = [&] { return Column(random() % std::uint64_t(cols)); };
  for (Index r = 0; r < rows; ++r) {
    const Index kind = cols == 0 ? 0 : r % 5;
    if (kind == 1 && r < 10)
      for (Index c = cols; c-- > 0;) x.column.push_back(Column(c));
    if (kind == 2)
      for (int i = 0; i < 3; ++i) x.column.push_back(Column(cols / 2));
    if (kind == 3) x.column.push_back(Column(cols - 1));
    if (kind > 0)
      for (Index i = Index(random() % std::uint64_t(2 * density + 1)); i > 0; --i)
        x.column.push_back(any_column());
    x.row_begin.push_back(RowOffset(x.column.size()));
  }
  if (values)
    for (std::size_t i = 0; i < x.column.size(); ++i) x.value.push_back(normal(random));
  return x;
}

}  // namespace norn::samples
