// SPDX-License-Identifier: Apache-2.0
// A build without NCCL: GPUs are combined through main memory.

#include "norn/base/error.h"
#include "src/parallel/collectives.h"
#include "src/parallel/rank_facts.h"

namespace norn {

std::string nccl_version() {
  return "none";
}

std::optional<NcclFacts> try_nccl(int) {
  return std::nullopt;
}

bool has_nccl() {
  return false;
}

std::unique_ptr<Collectives> make_gpu_collectives(Communicator&, int, WorkQueue&, Memory&, bool) {
  throw CommunicationError("this build has no NCCL; install it and build again");
}

}  // namespace norn
