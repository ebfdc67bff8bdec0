// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/plan.h"
#include "src/run/automatic/candidate.h"
#include "src/run/preparation.h"

#include <functional>
#include <optional>

/// EASE in a search of the recipe "auto": whether it is tried, and what it takes.
namespace norn::run {

/// What rank 0 finds, for all.
bool rank_0_finds(Communicator& communicator, const std::function<bool()>& of_data);

/// The descriptor of a candidate for these data sets, with their names.
NetworkDescriptor described(const Candidate& candidate, const SearchFacts& facts,
                            const DataSources& sources);

/// Finds out `features`, `has_ease` and `has_sums` of facts whose `data` are known. Reads all
/// examples of a run whose memory is planned. None: EASE is not for these data or settings. All
/// ranks call it together.
std::optional<EasePlan> plan_ease(const TrainOptions& options, const DataSources& sources,
                                  const PreparedRun& run, double budget, SearchFacts& facts);

}  // namespace norn::run
