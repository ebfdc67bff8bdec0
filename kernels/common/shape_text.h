// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "norn/kernels/dense.h"
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
bool has_room(const MatrixView<T>& m) {
  return m.rows >= 0 && m.cols >= 0 && (m.stride >= m.cols || m.rows <= 1);
}

/// Whether an operand's views have the same shape, and the turned one that of the transpose.
inline bool fits(const DenseOperand& operand) {
  const bool same = operand.rounded.data == nullptr || (operand.rounded.rows == operand.rows() &&
                                                        operand.rounded.cols == operand.cols());
  const bool is_turned =
      operand.turned.data == nullptr || (operand.turned.rows == operand.cols() &&
                                         operand.turned.cols >= (operand.rows() + 3) / 4 * 4);
  return same && is_turned && has_room(operand.values) && has_room(operand.rounded) &&
         has_room(operand.turned);
}

}  // namespace norn
