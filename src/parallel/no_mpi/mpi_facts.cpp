// SPDX-License-Identifier: Apache-2.0
// A build without MPI has none to tell of.
#include "src/parallel/rank_facts.h"

namespace norn {

MpiFacts mpi_facts() {
  return {"none", {}};
}

}  // namespace norn
