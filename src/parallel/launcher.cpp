// SPDX-License-Identifier: Apache-2.0
// Words of launchers.
#include "src/parallel/launcher.h"

#include <algorithm>
#include <cstdlib>

namespace norn {

bool is_launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "PMI_FD",
                           "MPI_LOCALNRANKS", "SLURM_PROCID"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

int launched_together() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* text = std::getenv(name)) return std::max(1, std::atoi(text));
  return 1;
}

}  // namespace norn
