// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/background_work.h"
#include "src/data/tensor_file.h"
#include "src/engine/network/network.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Model files: DSSTNE's layout, with a format number, the state of training and everything that a
/// resumed run needs. docs/user/formats.md has the items.
namespace norn {

/// Where the search for a run's best model stands. Epochs are counted from 1; 0: none.
struct SearchState {
  std::int64_t validated_epoch = 0;  ///< the last one
  double best = 0.0;                 ///< value of what is watched
  std::int64_t best_epoch = 0;
  std::int64_t best_step = 0;
  std::int64_t since_best = 0;  ///< validations
  // Of a model that is the best of a run that went on: where that ended.
  std::int64_t ended_epoch = 0;
  std::int64_t ended_since_best = 0;
};

/// What the rate schedule "Plateau" has seen.
struct PlateauState {
  double factor = 1.0;            ///< of the rate by now
  std::int64_t since_better = 0;  ///< validations or epochs, since that or the last change
  std::int64_t evaluated = 0;     ///< of them, in all
  double best_cost = 0.0;         ///< of training; where nothing is validated
};

/// A data set that a run is trained on.
struct TrainedSet {
  std::string name;
  Index examples = 0;
  std::string checksum;  ///< of its contents, or of parts of them where it is large
};

/// Where a run stands between two steps.
struct TrainingState {
  std::int64_t step = 0;   ///< updates made
  std::int64_t epoch = 0;  ///< epochs completed
  std::int64_t batch = 0;  ///< batches made of the current epoch
  FixedSum epoch_cost;     ///< summed over the examples of the current epoch so far
  std::int64_t epoch_examples = 0;
  std::string watched;  ///< the metric that the search goes by; empty: it has not begun
  SearchState search;
  PlateauState plateau;
  std::vector<TrainedSet> sets;  ///< known to rank 0; empty: to nobody
};

/// What a model file says besides weights.
struct ModelInfo {
  NetworkDescriptor network;            ///< sizes filled in, effective training settings
  std::vector<LabelTable> unit_labels;  ///< by layer, where they are known
  std::string chosen;                   ///< Network::chosen()
  int format = 0;                       ///< 0: written by DSSTNE
  bool has_training_state = false;
  TrainingState state;
};

/// Reads the description. Files that DSSTNE wrote are read too: missing optional attributes take
/// their defaults. Throws DataError naming file and item.
ModelInfo read_model_info(const TensorFileReader& file);

/// Compares the sizes of the file's weights and biases with what the graph needs, before a network
/// is made of it. Throws DataError naming the first that differs.
void check_sizes(const TensorFileReader& file, const Graph& graph);

/// Reads weights, biases and running statistics into the network, and with a training state also
/// the update state. The biases that DSSTNE keeps for each source of a layer are added up. Every
/// rank calls it; rank 0 reads (`file` is null on the others).
void load_weights(const TensorFileReader* file, const ModelInfo& info, Network& network);
/// The same of a file that rank 0 reads.
void load_weights(const std::filesystem::path& file, const ModelInfo& info, Network& network);

/// What writing takes beside the model: values that wait for the disk while more are gathered.
constexpr std::int64_t kBytesToDisk = std::int64_t(32) << 20;

/// Writes a model with its units' labels, complete or not at all, in bounded memory. With a state
/// it can be resumed from. Every rank calls it; rank 0 writes. Weights must have caught up to
/// state.step. Throws DivergenceError, on all ranks, and leaves what stands at `path` when a value
/// is not finite.
void save_model(const std::filesystem::path& path, Network& network,
                const std::optional<TrainingState>& state);

/// The same for a run that goes on meanwhile: on rank 0 the values are copied and `writer` writes
/// them, so the file is there when writer.wait() returns, which throws what has gone wrong; what
/// was not written then is not there. As many copies as fit into `memory` bytes, and a few in any
/// case, wait for the disk; for room for others this waits.
void save_model(const std::filesystem::path& path, Network& network,
                const std::optional<TrainingState>& state, BackgroundWork& writer,
                std::int64_t memory);

/// Throws what save_model would throw with a state for values that are not finite, and writes
/// nothing.
void require_finite(Network& network, const TrainingState& state);

}  // namespace norn
