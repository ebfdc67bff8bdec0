// SPDX-License-Identifier: Apache-2.0
// Functions of the driver.
#include "kernels/cuda/device/driver_entry.h"

#include "kernels/cuda/device/check.h"

#include <fmt/format.h>

namespace norn::cuda {

void* driver_entry_point(const char* name, unsigned version) {
  void* symbol = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &symbol, version, cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess)
    throw DeviceError(
        fmt::format("the CUDA driver has no {}, which came with CUDA {}; update it, or use "
                    "`device` cpu",
                    name, version / 1000));
  return symbol;
}

void check_driver(CUresult status, const char* call) {
  if (status != CUDA_SUCCESS)
    throw DeviceError(fmt::format("{} failed with status {}", call, int(status)));
}

}  // namespace norn::cuda
