// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "norn/tensor/buffer.h"

/// Arrays before there is memory for them.
namespace norn {

/// What an array is for; a plan adds up each.
enum class Purpose { parameter, state, working };

/// An array that a network holds: declared once, allocated from this and planned from this.
struct Tensor {
  const char* use = "";  ///< "activations": behind the name of what it belongs to
  Index rows = 0;
  Index cols = 1;
  Index element_bytes = 4;
  Purpose purpose = Purpose::working;

  template <typename T>
  static Tensor of(const char* use, Purpose purpose, Index rows, Index cols = 1) {
    return {use, rows, cols, Index(sizeof(T)), purpose};
  }
  bool empty() const { return rows == 0 || cols == 0; }
  Index bytes() const { return rows * cols * element_bytes; }
};

/// Not initialised.
template <typename T>
Matrix<T> make_matrix(const Tensor& tensor, Memory& memory) {
  return Matrix<T>(tensor.rows, tensor.cols, memory);
}
template <typename T>
Buffer<T> make_buffer(const Tensor& tensor, Memory& memory) {
  return Buffer<T>(tensor.rows * tensor.cols, memory);
}

}  // namespace norn
