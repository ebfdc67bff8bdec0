// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

namespace norn::cuda {

/// Of one kernel of a graph: its function and the clusters of thread blocks that it is launched in,
/// all zero where there are none.
struct KernelCluster {
  const void* function = nullptr;
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
  bool operator==(const KernelCluster&) const = default;
};

/// The clusters of a captured graph's kernels, in the order of its nodes.
///
/// cudaGraphExecUpdate takes over grids and arguments of kernels, but not the size of their
/// clusters, and does not say so: a kernel that was captured with other clusters then runs with the
/// old ones, and waits for ever, ends with an illegal instruction or leaves a part of its result
/// unwritten. cuBLASLt has one function for several sizes of cluster, and chooses by the shape of
/// the product. So a graph may only be brought up to date by one with the same clusters.
/// Throws DeviceError where the driver refuses a question.
std::vector<KernelCluster> clusters_of(cudaGraph_t graph);

}  // namespace norn::cuda
