// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/data_binding.h"
#include "norn/engine/trainer.h"
#include "tools/training/run_lock.h"
#include "tools/training/trainer_options.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Where the trainer starts from.
namespace norn::tools {

/// Where the run begins: a descriptor alone, weights to go on from, or a checkpoint.
struct TrainingStart {
  NetworkDescriptor network;
  std::string where;                             ///< names the descriptor in messages
  std::optional<std::filesystem::path> weights;  ///< file to load weights from
  std::optional<ModelInfo> info;                 ///< of that file
  TrainingState state;                           ///< all zero unless resumed
  bool resumed = false;
};

/// Before hours are spent: model and checkpoints can be written, and no other run is at them, or in
/// the way. What killed runs left is removed. Throws UsageError naming the file and the options
/// that help. No other run takes the files while the locks live.
std::vector<RunLock> take_model_path(const TrainerOptions& options, Console& console);

/// The descriptor with the settings of the command line, and what to go on from. All ranks call it
/// together. Throws UsageError and DataError naming the file.
TrainingStart start_training(const TrainerOptions& options, Communicator& communicator,
                             Console& console);

/// Whether a file begins as NetCDF files do: classic "CDF", or HDF5.
bool begins_as_netcdf(const std::filesystem::path& path);

/// A batch that was asked for must fit the data, or UsageError is thrown; the default shrinks.
void fit_batch(TrainingStart& start, const TrainerOptions& options, Index examples,
               Console& console);

}  // namespace norn::tools
