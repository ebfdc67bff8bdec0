// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/portable.h"
#include "norn/base/types.h"

#include <type_traits>

/// Plain, non-owning shapes over memory that somebody else owns. Never stored across calls.
namespace norn {

/// Row-major matrix [rows x cols]: element (r, c) is data[r * stride + c].
template <typename T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;  ///< elements from one row to the next, >= cols

  NORN_HD T* row(Index r) const { return data + r * stride; }
  NORN_HD T& operator()(Index r, Index c) const { return data[r * stride + c]; }
  NORN_HD Index size() const { return rows * cols; }
  NORN_HD bool empty() const { return rows == 0 || cols == 0; }
  NORN_HD MatrixView columns(Index first, Index count) const {
    return {data + first, rows, count, stride};
  }
  NORN_HD MatrixView row_range(Index first, Index count) const {
    return {data + first * stride, count, cols, stride};
  }
  // NOLINTNEXTLINE(google-explicit-constructor): as T* converts to const T*
  NORN_HD operator MatrixView<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, cols, stride};
  }
};

/// A run of elements.
template <typename T>
struct VectorView {
  T* data = nullptr;
  Index size = 0;

  NORN_HD T& operator[](Index i) const { return data[i]; }
  NORN_HD T* begin() const { return data; }
  NORN_HD T* end() const { return data + size; }
  NORN_HD bool empty() const { return size == 0; }
  NORN_HD VectorView range(Index first, Index count) const { return {data + first, count}; }
  // NOLINTNEXTLINE(google-explicit-constructor)
  NORN_HD operator VectorView<const T>() const requires(!std::is_const_v<T>) {
    return {data, size};
  }
};

/// Compressed sparse rows [rows x cols]: row r holds entries [row_begin[r], row_begin[r + 1]).
struct CsrView {
  const RowOffset* row_begin = nullptr;  ///< rows + 1 offsets
  const Column* column = nullptr;        ///< < cols
  const float* value = nullptr;          ///< null: every stored entry counts as 1
  Index rows = 0;
  Index cols = 0;
  /// At least the entries. Set for batches in a GPU's memory, whose offsets the host cannot read.
  Index entry_limit = 0;

  /// Where row_begin can be read.
  NORN_HD RowOffset entries() const { return rows == 0 ? 0 : row_begin[rows] - row_begin[0]; }
};

}  // namespace norn
