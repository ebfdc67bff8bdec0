// SPDX-License-Identifier: Apache-2.0
// The version of NCCL, as it is at run time.
#include "src/parallel/nccl_version.h"

#include <fmt/format.h>
#include <nccl.h>

namespace norn {

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace norn
