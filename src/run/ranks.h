// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/communicator.h"

#include <functional>
#include <string>

/// What the launcher says about the ranks, and work that one does for all.
namespace norn::run {

/// Ranks of this run that share this machine, at least 1.
int ranks_on_this_host();

/// What rank 0 says; the others' texts do not matter.
std::string text_of_rank_0(Communicator& communicator, const std::string& mine);

/// Runs `work` on rank 0, in a thread of its own; the others wait for it, however long it takes:
/// longer than a collective may. When it throws, rank 0 throws again, and the others wait for the
/// end that rank 0 gives them.
void rank_0_alone(Communicator& communicator, const std::function<void()>& work);

}  // namespace norn::run
