// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "src/parallel/communicator.h"

#include <functional>
#include <optional>
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

/// What is wrong with a call; none: nothing is.
using Fault = std::optional<UsageError>;

/// The same where `work` may find a fault, which every rank throws then.
void refuse_together(Communicator& communicator, const std::function<Fault()>& work);

}  // namespace norn::run
