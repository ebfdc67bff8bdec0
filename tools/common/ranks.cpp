// SPDX-License-Identifier: Apache-2.0
// The launcher's environment.
#include "tools/common/ranks.h"

#include "norn/base/text.h"

#include <algorithm>
#include <cstdlib>

namespace norn::tools {

int ranks_on_this_host() {
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"}) {
    const char* text = std::getenv(name);
    const auto ranks = text ? parse_integer(text) : std::nullopt;
    if (ranks) return int(std::max(1LL, *ranks));
  }
  return 1;
}

}  // namespace norn::tools
