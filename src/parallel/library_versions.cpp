// SPDX-License-Identifier: Apache-2.0
// What ranks are joined by.
#include "norn/base/library_version.h"
#include "norn/parallel/join_facts.h"
#include "src/parallel/nccl_version.h"

namespace norn {

std::vector<LibraryVersion> parallel_libraries() {
  return {{"MPI", mpi_facts().implementation}, {"NCCL", nccl_version()}};
}

}  // namespace norn
