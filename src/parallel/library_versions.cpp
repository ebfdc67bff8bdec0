// SPDX-License-Identifier: Apache-2.0
// What ranks are joined by.
#include "src/base/library_version.h"
#include "src/parallel/rank_facts.h"

namespace norn {

std::vector<LibraryVersion> parallel_libraries() {
  return {{"MPI", mpi_facts().implementation}, {"NCCL", nccl_version()}};
}

}  // namespace norn
