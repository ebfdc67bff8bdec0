// SPDX-License-Identifier: Apache-2.0
// A build without NCCL has nothing to try.
#include "src/parallel/rank_facts.h"

namespace norn {

std::optional<NcclFacts> try_nccl(int) {
  return std::nullopt;
}

}  // namespace norn
