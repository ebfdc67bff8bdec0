// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "src/engine/data/data_binding.h"
#include "src/engine/train/trainer.h"
#include "src/run/run_lock.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Where a run starts from.
namespace norn::run {

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
  std::string chosen;  ///< how a search chose the network: Network::chosen()

  /// Trains on everything, for as long as validation has chosen.
  bool is_refit() const { return run::is_refit(network.training); }
};

/// Where the run's data sets are to be found.
DataSources data_sources(const TrainOptions& options, const std::string& where);

/// Before hours are spent: model and checkpoints can be written, and no other run is at them, or in
/// the way. What killed runs left is removed. Throws UsageError naming the file and the settings
/// that help. No other run takes the files while the locks live.
std::vector<RunLock> take_model_path(const TrainOptions& options, const Log& log);

/// Whether the options name a network: `config`, `recipe` or `network`.
bool names_network(const TrainOptions& options);

/// The newest checkpoint of `model` that is whole, or the model where it is newer, which `resume`
/// "auto" goes on from; empty: there is none. Rank 0 looks for it, for all: on another host a file
/// system may not show the same files yet, and it is read but once. Throws DataError where there
/// are some and none is whole.
std::string choose_checkpoint(const TrainOptions& options, Communicator& communicator,
                              const Log& log);

/// What the options say of a network's training and of its order of examples.
void put_settings(const TrainOptions& options, NetworkDescriptor& network, const Log& log);

/// The network that `config`, `recipe` or `network` names, a descriptor or a model's, with what
/// follows from the data, a recipe and names of data sets, and the settings of the run. `epochs`:
/// those that a recipe is for; none: it knows. Throws UsageError and DataError naming the file.
NetworkDescriptor asked_network(const TrainOptions& options, std::optional<Index> epochs,
                                const Log& log);

/// The descriptor with the settings of the run, and what to go on from. All ranks call it
/// together. Throws UsageError and DataError naming the file.
TrainingStart start_training(const TrainOptions& options, Communicator& communicator,
                             const Log& log);

/// Whether a file begins as NetCDF files do: classic "CDF", or HDF5.
bool begins_as_netcdf(const std::filesystem::path& path);

/// What follows a run with validation whose best model was that of `epoch`: the same, on
/// everything, from the beginning to that epoch. It remembers what was held back.
TrainingStart start_refit(NetworkDescriptor network, std::int64_t epoch, const std::string& where);

/// A batch that was asked for must fit the data, or UsageError is thrown; the default shrinks.
void fit_batch(TrainingStart& start, const TrainOptions& options, Index examples, const Log& log);

}  // namespace norn::run
