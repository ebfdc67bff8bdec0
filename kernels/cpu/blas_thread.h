// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "norn/tensor/views.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include <cblas.h>
#include <fmt/format.h>

/// How calls of BLAS are made.
namespace norn {

inline blasint blas_size(Index size) {
  if (size > std::numeric_limits<blasint>::max())
    throw ShapeError(fmt::format(
        "dense: a size or stride of {} is beyond the {} that this BLAS takes; cut the matrix", size,
        std::numeric_limits<blasint>::max()));
  return blasint(size);
}

/// BLAS asks for a stride of at least 1, and of at least the columns, for empty and one-row
/// matrices too.
template <typename T>
blasint stride_of(const MatrixView<T>& m) {
  return blas_size(std::max({m.stride, m.cols, Index(1)}));
}

/// Who computes with BLAS at the moment, and its number of threads before they did.
struct BlasUsers {
  std::mutex mutex;
  int count = 0;
  int threads_before = 1;
};

/// While one lives, a product of BLAS takes the thread that calls it: the lanes are the
/// parallelism, and threads below them would only contend. Their number is the process's, and so
/// whoever else computes in it has it back after the product.
class OneBlasThread {
 public:
  OneBlasThread() {
    const std::lock_guard lock(shared.mutex);
    if (shared.count++ > 0) return;
    shared.threads_before = openblas_get_num_threads();
    if (shared.threads_before > 1) openblas_set_num_threads(1);
  }
  ~OneBlasThread() {
    const std::lock_guard lock(shared.mutex);
    if (--shared.count == 0 && shared.threads_before > 1)
      openblas_set_num_threads(shared.threads_before);
  }
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;

 private:
  static inline BlasUsers shared;
};

}  // namespace norn
