// SPDX-License-Identifier: Apache-2.0
// What ranks are joined by.
#include "norn/base/library_version.h"
#include "src/parallel/mpi_c_api.h"
#include "src/parallel/nccl_version.h"

#include <array>

namespace norn {

std::vector<LibraryVersion> parallel_libraries() {
  // "Open MPI v4.1.4, package: Debian ..."; MPICH has a line for each part.
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string mpi(text.data(), std::size_t(length));
  return {{"MPI", mpi.substr(0, mpi.find_first_of(",\n"))}, {"NCCL", nccl_version()}};
}

}  // namespace norn
