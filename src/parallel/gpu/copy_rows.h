// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace norn {

/// Rows of memory: row r begins `stride` bytes behind row r - 1.
struct Rows {
  void* data = nullptr;
  std::int64_t stride = 0;
};

/// Copies `rows` rows of `bytes` bytes each within a GPU's memory, as work of `stream`. Addresses,
/// strides and `bytes` are multiples of 2.
cudaError_t copy_rows(Rows to, Rows from, std::int64_t bytes, std::int64_t rows,
                      cudaStream_t stream);

}  // namespace norn
