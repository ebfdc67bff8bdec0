// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/doctor/doctor.h"
#include "tools/training/trainer_options.h"

namespace norn::tools {

/// trainer --doctor: all ranks call it together; rank 0 prints. Returns the exit code: 0, or that
/// of a device when there is a problem.
int run_doctor(const TrainerOptions& options, MpiSession& session);

/// What a rank tells the others of itself, and back. rank_from throws CommunicationError for the
/// record of another version of the program.
JsonValue json_of(const RankFacts& rank);
RankFacts rank_from(const JsonValue& record);

}  // namespace norn::tools
