// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/dense.h"
#include "norn/base/error.h"
#include "norn/tensor/views.h"

#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

/// Messages about shapes that do not fit.
namespace norn {

template <typename T>
std::string shape_text(const MatrixView<T>& m) {
  return fmt::format("[{} x {}]", m.rows, m.cols);
}
template <typename T>
std::string shape_text(const VectorView<T>& v) {
  return fmt::format("[{}]", v.size);
}
inline std::string shape_text(const CsrView& x) {
  return fmt::format("[{} x {}] CSR", x.rows, x.cols);
}

template <typename View, std::size_t n>
std::string shape_text(const std::array<View, n>& views) {
  std::string text;
  for (const View& view : views) text += (text.empty() ? "" : ", ") + shape_text(view);
  return text;
}

/// Throws ShapeError with the operation, what it expects and the shapes that it got, unless they
/// fit.
template <typename... Views>
void require_fit(bool fits, std::string_view operation, std::string_view expected,
                 const Views&... views) {
  if (fits) return;
  std::string got;
  ((got += (got.empty() ? "" : ", ") + shape_text(views)), ...);
  throw ShapeError(fmt::format("{}: expected {}, got {}", operation, expected, got));
}

/// Whether the rows of a matrix do not overlap.
template <typename T>
bool has_valid_stride(const MatrixView<T>& m) {
  return m.rows >= 0 && m.cols >= 0 && (m.stride >= m.cols || m.rows <= 1);
}

/// Whether an operand's views have the same shape, and the transposed one that of the transpose.
inline bool fits(const DenseOperand& operand) {
  const bool same = operand.bf16.data == nullptr ||
                    (operand.bf16.rows == operand.rows() && operand.bf16.cols == operand.cols());
  const bool is_transposed = operand.transposed.data == nullptr ||
                             (operand.transposed.rows == operand.cols() &&
                              operand.transposed.cols >= (operand.rows() + 3) / 4 * 4);
  return same && is_transposed && has_valid_stride(operand.values) &&
         has_valid_stride(operand.bf16) && has_valid_stride(operand.transposed);
}

}  // namespace norn
