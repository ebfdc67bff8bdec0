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

/// Whether validation has chosen the length already: everything is trained on, nothing held back.
inline bool is_refit(const TrainingDescriptor& training) {
  return training.refit && training.last_epoch > 0;
}

/// Where the run begins: a descriptor alone, weights to go on from, or a checkpoint.
struct TrainingStart {
  NetworkDescriptor network;
  std::string where;                             ///< names the descriptor in messages
  std::optional<std::filesystem::path> weights;  ///< file to load weights from
  std::optional<ModelInfo> info;                 ///< of that file
  TrainingState state;                           ///< all zero unless resumed
  bool resumed = false;

  /// Trains on everything, for as long as validation has chosen.
  bool is_refit() const { return tools::is_refit(network.training); }
};

/// Where the run's data sets are to be found.
DataSources data_sources(const TrainerOptions& options, const std::string& where);

/// Before hours are spent: model and checkpoints can be written, and no other run is at them, or in
/// the way. What killed runs left is removed. Throws UsageError naming the file and the options
/// that help. No other run takes the files while the locks live.
std::vector<RunLock> take_model_path(const TrainerOptions& options, Console& console);

/// What --config or --recipe says, with what follows from the data: a recipe, names of data sets.
NetworkDescriptor read_descriptor(const TrainerOptions& options, const std::string& where,
                                  Console& console);

/// The descriptor with the settings of the command line, and what to go on from. All ranks call it
/// together. Throws UsageError and DataError naming the file.
TrainingStart start_training(const TrainerOptions& options, Communicator& communicator,
                             Console& console);

/// Whether a file begins as NetCDF files do: classic "CDF", or HDF5.
bool begins_as_netcdf(const std::filesystem::path& path);

/// What follows a run with validation whose best model was that of `epoch`: the same, on
/// everything, from the beginning to that epoch. It remembers what was held back.
TrainingStart start_refit(NetworkDescriptor network, std::int64_t epoch, const std::string& where);

/// A batch that was asked for must fit the data, or UsageError is thrown; the default shrinks.
void fit_batch(TrainingStart& start, const TrainerOptions& options, Index examples,
               Console& console);

}  // namespace norn::tools
