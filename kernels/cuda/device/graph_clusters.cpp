// SPDX-License-Identifier: Apache-2.0
// What a graph's kernels are launched in. The driver is asked, because the runtime does not know
// kernels that a library launched through the driver.
#include "kernels/cuda/device/graph_clusters.h"

#include "kernels/cuda/device/driver_entry.h"

namespace norn::cuda {
namespace {

struct Driver {
  decltype(&cuGraphGetNodes) nodes =
      driver_entry<decltype(&cuGraphGetNodes)>("cuGraphGetNodes", 12000);
  decltype(&cuGraphNodeGetType) type =
      driver_entry<decltype(&cuGraphNodeGetType)>("cuGraphNodeGetType", 12000);
  decltype(&cuGraphKernelNodeGetParams) parameters =
      driver_entry<decltype(&cuGraphKernelNodeGetParams)>("cuGraphKernelNodeGetParams", 12000);
  decltype(&cuGraphKernelNodeGetAttribute) attribute =
      driver_entry<decltype(&cuGraphKernelNodeGetAttribute)>("cuGraphKernelNodeGetAttribute",
                                                             12000);
  decltype(&cuKernelGetFunction) function =
      driver_entry<decltype(&cuKernelGetFunction)>("cuKernelGetFunction", 12000);
  decltype(&cuFuncGetAttribute) of_function =
      driver_entry<decltype(&cuFuncGetAttribute)>("cuFuncGetAttribute", 12000);
};

/// Whether a kernel was compiled for clusters of one size: its launches need not name it.
bool is_compiled_in_clusters(const Driver& driver, CUfunction function) {
  int width = 0;
  check_driver(driver.of_function(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, function),
               "cuFuncGetAttribute");
  return width > 0;
}

KernelCluster cluster_of(const Driver& driver, CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS kernel{};
  check_driver(driver.parameters(node, &kernel), "cuGraphKernelNodeGetParams");
  CUlaunchAttributeValue launched{};
  check_driver(driver.attribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &launched),
               "cuGraphKernelNodeGetAttribute");
  CUfunction function = kernel.func;
  if (function == nullptr)
    check_driver(driver.function(&function, kernel.kern), "cuKernelGetFunction");
  const auto& [x, y, z] = launched.clusterDim;
  if (x * y * z <= 1 && !is_compiled_in_clusters(driver, function)) return {};
  return {function, x, y, z};
}

}  // namespace

std::vector<KernelCluster> clusters_of(cudaGraph_t graph) {
  static const Driver driver;
  std::size_t count = 0;
  check_driver(driver.nodes(graph, nullptr, &count), "cuGraphGetNodes");
  std::vector<CUgraphNode> nodes(count);
  check_driver(driver.nodes(graph, nodes.data(), &count), "cuGraphGetNodes");
  std::vector<KernelCluster> clusters;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    check_driver(driver.type(node, &type), "cuGraphNodeGetType");
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) clusters.push_back(cluster_of(driver, node));
  }
  return clusters;
}

}  // namespace norn::cuda
