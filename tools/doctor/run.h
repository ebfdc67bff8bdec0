// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/doctor/doctor.h"
#include "tools/training/trainer_options.h"

#include <string>

namespace norn::tools {

/// trainer --doctor: all ranks call it together; rank 0 prints. Returns the exit code: 0, or that
/// of a device when there is a problem.
int run_doctor(const TrainerOptions& options, MpiSession& session);

/// What a rank tells the others of itself, as one text and back. rank_from throws
/// CommunicationError for the text of another version of the program.
std::string text_of(const RankFacts& rank);
RankFacts rank_from(const std::string& text);

}  // namespace norn::tools
