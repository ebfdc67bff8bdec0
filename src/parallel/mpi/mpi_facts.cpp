// SPDX-License-Identifier: Apache-2.0
// What the MPI library says of itself; it need not be begun for that.

#include "mpi_c_api.h"
#include "src/parallel/rank_facts.h"

#include <array>
#include <string_view>

#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

namespace norn {

MpiFacts mpi_facts() {
  MpiFacts facts;
  // "Open MPI v4.1.4, package: Debian ..."; MPICH has a line for each part.
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) == MPI_SUCCESS) {
    const std::string_view whole(text.data());
    facts.implementation = whole.substr(0, whole.find_first_of(",\n"));
  }
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  facts.takes_gpu_memory = MPIX_Query_cuda_support() != 0;
#endif
  return facts;
}

}  // namespace norn
