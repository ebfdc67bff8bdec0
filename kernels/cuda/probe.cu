// SPDX-License-Identifier: Apache-2.0
// Whether a GPU runs this build's code at all.
#include "kernels/cuda/families.h"

namespace norn::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

bool device_runs_this_build() {
  cudaFuncAttributes attributes{};
  const bool runs = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
  cudaGetLastError();
  return runs;
}

}  // namespace norn::cuda
