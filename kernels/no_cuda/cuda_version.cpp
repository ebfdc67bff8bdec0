// SPDX-License-Identifier: Apache-2.0
// A build without CUDA.
#include "kernels/common/cuda_version.h"

namespace norn {

std::string cuda_version() {
  return "none";
}

std::string cuda_architectures() {
  return "none";
}

}  // namespace norn
