// SPDX-License-Identifier: Apache-2.0
// A build without NCCL: GPUs are combined through main memory.

#include "norn/base/error.h"
#include "src/parallel/collectives.h"

namespace norn {

bool has_nccl() {
  return false;
}

std::unique_ptr<Collectives> make_gpu_collectives(Communicator&, int, WorkQueue&, Memory&, bool) {
  throw CommunicationError("this build has no NCCL; install it and build again");
}

}  // namespace norn
