// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "src/engine/train/trainer.h"
#include "src/run/closed_form.h"

#include <functional>
#include <optional>
#include <string>

/// The recipe "auto": trains candidates on a part of each example's entries, measures them on the
/// rest, and says what is to be trained on everything. docs/user/recipes.md.
namespace norn::run {

/// Told of a network that has been trained as a part of a search: it is measured, and not kept.
using OnTrained = std::function<void(Network&, const Validation&, EaseBeside&)>;
/// Makes a training that is a part of a search. All ranks call it together.
using MakePart =
    std::function<TrainResult(const TrainOptions&, const TrainObserver&, const OnTrained&)>;

/// What a search has chosen.
struct Choice {
  std::string network;  ///< the descriptor, JSON
  std::string record;   ///< how it was chosen, JSON: Network::chosen()
  bool is_closed_form = false;
};

/// Searches, or goes on with a search that was stopped or killed, or finds that one has ended. All
/// ranks call it together, and all choose the same. `log`: rank 0's, for all. Nothing: it was
/// stopped. Throws UsageError where a search of other data or settings is in the way.
std::optional<Choice> choose_recipe(const TrainOptions& options, const TrainObserver& observer,
                                    Communicator& communicator, const Log& log,
                                    const MakePart& make);

/// Removes what a search keeps beside the model, before it begins anew or when its choice is
/// trained. Rank 0 does.
void remove_search(const TrainOptions& options, const Communicator& communicator);

}  // namespace norn::run
