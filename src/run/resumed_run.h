// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/run/training_start.h"

#include <vector>

/// Whether a run that is resumed has the data and the descriptor that it had before.
namespace norn::run {

/// The data sets of a run, as its checkpoints keep them. Nobody else may be reading them.
std::vector<TrainedSet> trained_sets(const DataBinding& data);

/// Warns of data sets that are not those of the checkpoint, or throws UsageError where they have to
/// be. Throws DataError where the checkpoint is of the middle of an epoch over another number of
/// examples.
void compare_data(const TrainingStart& start, const std::vector<TrainedSet>& now,
                  const TrainOptions& options, const Log& log);

/// `examples`: those that are trained on. Throws DataError when the checkpoint is of a place in an
/// epoch that there is not, or has a larger batch.
void require_place(const TrainingStart& start, Index examples);

/// Warns of what the descriptor of `config` says otherwise than the checkpoint, whose word counts.
/// On rank 0.
/// `examples`: those that are trained on.
void compare_descriptor(const TrainingStart& start, const TrainOptions& options, Index examples,
                        const Log& log);

}  // namespace norn::run
