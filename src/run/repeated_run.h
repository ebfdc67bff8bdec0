// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/run/run_record.h"
#include "src/run/training_start.h"

#include <string>
#include <vector>

/// Making a run again from its record, and knowing it again.
namespace norn::run {

/// The start of a run that is made again: its network and settings, and the weights or checkpoint
/// that it began with. All ranks call it together. Throws DataError when such a file is not there
/// or is another one, and UsageError when other settings change the training.
TrainingStart start_repeated(const RunRecord& recorded, const TrainOptions& options,
                             Communicator& communicator, const Log& log);

/// Throws DataError naming the set when the data are not those that the record in `file` holds of
/// them. `settings`: those that name the data.
void require_same_data(const std::vector<DataSetRecord>& recorded,
                       const std::filesystem::path& file, const std::vector<DataSetRecord>& sets,
                       const std::string& settings);

/// Why the bits may be others than those that were recorded, a sentence each; none when they must
/// be the same.
std::vector<std::string> differences(const RunRecord& recorded, const RunRecord& now);

/// Whether a run that goes on from a checkpoint of its own model is the one that `earlier` records:
/// settings and data are the same, so that it ends as if it had never been interrupted.
bool is_continued(const RunRecord& earlier, const RunRecord& now);

}  // namespace norn::run
