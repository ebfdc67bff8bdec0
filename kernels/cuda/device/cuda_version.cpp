// SPDX-License-Identifier: Apache-2.0
// Versions of CUDA's runtime and driver.
#include "kernels/common/cuda_version.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace norn {
namespace {

std::string number_of(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::string cuda_version() {
  int runtime = 0;
  int driver = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) return "unknown";
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return number_of(runtime) + ", no driver";
  return fmt::format("{}, driver for CUDA {}", number_of(runtime), number_of(driver));
}

std::string cuda_architectures() {
  return NORN_CUDA_ARCHITECTURES;
}

}  // namespace norn
