// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/check.h"

#include <algorithm>
#include <cstdint>

/// What the kernels of compute capability 9.0 need of the host: whether the device runs them, and
/// how many of their blocks, which stay on their multiprocessor.
namespace norn::cuda {

/// Whether the current device has the instructions of compute capability 9.0a.
inline bool device_has_wgmma() {
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "cudaDeviceGetAttribute");
  return major == 9 && minor == 0;
}

/// Clusters of `cluster` blocks that run at the same time. The kernel is allowed `shared` bytes of
/// dynamic shared memory. To be called once for each kernel.
template <class Kernel>
int resident_clusters(Kernel* kernel, int threads, int cluster, int shared) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
        "cudaFuncSetAttribute");
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(cluster));
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = std::size_t(shared);
  cudaLaunchAttribute size{};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim = {unsigned(cluster), 1, 1};
  config.attrs = &size;
  config.numAttrs = 1;
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config),
        "cudaOccupancyMaxActiveClusters");
  return std::max(1, clusters);
}

}  // namespace norn::cuda
