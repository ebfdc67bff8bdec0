// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"

#include <source_location>
#include <string>

#include <cuda_runtime.h>

/// Errors of the CUDA runtime as exceptions.
namespace norn::cuda {

/// Throws DeviceError when a call of the CUDA runtime failed, naming call, place and both error
/// texts.
inline void check(cudaError_t status, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  throw DeviceError(std::string(call) + " failed at " + where.file_name() + ":" +
                    std::to_string(where.line()) + ": " + cudaGetErrorName(status) + " (" +
                    cudaGetErrorString(status) + ")");
}

/// Call right after <<<>>>: a refused launch fails at the launch, not three calls later.
inline void check_launch(const char* kernel,
                         std::source_location where = std::source_location::current()) {
  check(cudaGetLastError(), kernel, where);
}

}  // namespace norn::cuda
