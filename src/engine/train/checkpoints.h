// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

/// The files of a run's checkpoints, beside the model: model.nc -> model.epoch12.nc, and within an
/// epoch model.epoch12.batch34.nc (12 epochs and 34 batches made).
namespace norn {

std::filesystem::path checkpoint_path(const std::filesystem::path& model, std::int64_t epoch,
                                      std::int64_t batch);

/// Removes all but the newest `keep` checkpoints of a model; keep 0 keeps all. Later ones than the
/// one just made, which a run that goes on from an earlier one passed over, neither count nor go.
void remove_old_checkpoints(const std::filesystem::path& model, int keep, std::int64_t epoch,
                            std::int64_t batch);

}  // namespace norn
