// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/train/watched_metric.h"
#include "src/run/automatic/search.h"
#include "src/run/automatic/search_rules.h"

#include <filesystem>

/// The settings of a run with the recipe "auto", and of the trainings that it is made of.
namespace norn {
class OptionFaults;
}  // namespace norn

namespace norn::run {

/// TrainOptions::budget where it is not set.
inline constexpr double kSearchBudget = 6.0;

bool is_automatic(const TrainOptions& options);

/// What does not go with the recipe "auto", or with no other.
void check_automatic(const TrainOptions& options, OptionFaults& faults);

/// What candidates are compared by: that of `keep_best`, or ndcg@20.
WatchedMetric search_metric(const TrainOptions& options);

/// What is given of what a recipe would say. The data are left out.
SearchFacts facts_of(const TrainOptions& options);

/// NAME.candidateN.nc of NAME.nc: what the checkpoints of a candidate are named after. Empty where
/// there is no model.
std::filesystem::path candidate_model(const std::filesystem::path& model, std::size_t number);

/// The settings of the training of a candidate, whose number counts from 1.
TrainOptions candidate_options(const TrainOptions& options, const NetworkDescriptor& network,
                               std::size_t number);

/// The settings of the training of what was chosen, on everything.
void take_choice(const Choice& choice, TrainOptions& options);

}  // namespace norn::run
