// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/run/ranks.h"
#include "src/run/training_start.h"

#include <vector>

/// Whether a run that is resumed has the data and the descriptor that it had before.
namespace norn::run {

/// The data sets of a run, as its checkpoints keep them. Nobody else may be reading them.
std::vector<TrainedSet> trained_sets(const DataBinding& data);

/// What keeps the data from being those of the checkpoint, where they have to be; none: nothing
/// does. Warns of others where they need not. Throws DataError where the checkpoint is of the
/// middle of an epoch over another number of examples.
Fault compare_data(const TrainingStart& start, const std::vector<TrainedSet>& now,
                   const TrainOptions& options, const Log& log);

/// Throws UsageError where the run that the options ask for is another one than that whose
/// checkpoint `start` is, as it was read: by its network, its settings or, where these follow from
/// them, its data. All ranks call it together, and all throw the same.
void require_same_run(const TrainingStart& start, const TrainOptions& options,
                      Communicator& communicator);

/// `examples`: those that are trained on. Throws DataError when the checkpoint is of a place in an
/// epoch that there is not.
void require_place(const TrainingStart& start, Index examples);

/// Warns of what the descriptor of `config` says otherwise than the checkpoint, whose word counts.
/// Where it has to be the same run, throws as require_same_run() does, now that the data are known.
/// `examples`: those that are trained on. All ranks call it together.
void compare_descriptor(const TrainingStart& start, const TrainOptions& options, Index examples,
                        Communicator& communicator, const Log& log);

}  // namespace norn::run
