// SPDX-License-Identifier: Apache-2.0
// What kernels/gpu_probe.h says in a build without CUDA.
#include "kernels/gpu_probe.h"

#include "norn/base/error.h"

namespace norn {

CudaVersions cuda_versions() {
  return {};
}

std::vector<GpuShape> cuda_gpus() {
  return {};
}

GpuRates measure_gpu(int, const std::function<void()>&) {
  throw DeviceError("this build has no CUDA, so no GPU can be measured; build the preset cuda");
}

std::vector<PeerRate> measure_peers() {
  return {};
}

}  // namespace norn
