// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/check.h"

#include <algorithm>
#include <cstdint>

/// Launches of kernels whose blocks stay on their multiprocessor.
namespace norn::cuda {

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
