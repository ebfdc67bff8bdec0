// SPDX-License-Identifier: Apache-2.0
// A build without NCCL.
#include "src/parallel/nccl_version.h"

namespace norn {

std::string nccl_version() {
  return "none";
}

}  // namespace norn
