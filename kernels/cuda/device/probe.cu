// SPDX-License-Identifier: Apache-2.0
// Whether a GPU runs this build's code at all.
#include "kernels/cuda/families.h"

namespace norn::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

bool device_runs_this_build() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
  cudaGetLastError();
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction ||
      status == cudaErrorUnsupportedPtxVersion)
    return false;
  check(status, "cudaFuncGetAttributes");  // a GPU that failed before says so here
  return true;
}

}  // namespace norn::cuda
