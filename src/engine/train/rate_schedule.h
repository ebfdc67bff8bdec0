// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/model/model_file.h"

/// The learning rate from epoch to epoch. Within an epoch only warm-up and Decay change it
/// (UpdateSchedule), so that rows that lag behind can be put through the steps that they missed.
namespace norn {

/// Whether the rate of an epoch depends on how many there will be: it falls until the last one.
bool falls_to_the_end(const RateSchedule& schedule);

/// The rate of an epoch, counted from 0, before warm-up and Decay.
float rate_of_epoch(const TrainingDescriptor& training, std::int64_t epoch,
                    const PlateauState& plateau);

/// Steps of warm-up where an epoch has so many.
std::int64_t warm_up_steps(const RateSchedule& schedule, std::int64_t steps_of_epoch);

/// The first epoch after which a run may stop early.
std::int64_t earliest_stop(const TrainingDescriptor& training);

/// After a validation, or an epoch: whether it was better than all before.
void update_plateau(const RateSchedule& schedule, bool is_better, PlateauState& plateau);

}  // namespace norn
