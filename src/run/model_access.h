// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/model.h"
#include "src/engine/data/unit_matcher.h"
#include "src/engine/model/model_file.h"
#include "src/run/scratch_folder.h"

#include <optional>

namespace norn::run {

/// A network in a device's memory, with what it stands on.
struct HeldNetwork {
  std::shared_ptr<Communicator> ranks;
  std::unique_ptr<Runtime> runtime;
  std::vector<DatasetShape> shapes;  ///< of the data that it was made for; none: of no data yet
  std::unique_ptr<Network> network;
};

struct Model::State {
  std::unique_ptr<ScratchFolder> scratch;  // of a model that has no file but needs one
  std::filesystem::path file;              // empty: the network here is all there is
  ModelOptions options;
  std::shared_ptr<Communicator> ranks;
  ModelInfo info;
  std::shared_ptr<const HeldNetwork> held;  // null: not asked for yet; shared with views of it
};

/// What the functions of this layer, and Norn's programs, need of a model.
struct ModelAccess {
  /// Of a network on its device, and where it was trained here the state of that.
  static std::unique_ptr<Model> of(HeldNetwork held, std::optional<TrainingState> training,
                                   ModelOptions options);
  /// Of a file in a folder that goes away with it.
  static std::unique_ptr<Model> in_scratch(std::unique_ptr<ScratchFolder> scratch,
                                           std::filesystem::path file, ModelOptions options);
  /// Writes a model that has no file.
  static void save_held(const Model::State& state, const std::filesystem::path& file);
  /// Of the model's file, for data of these shapes.
  static std::shared_ptr<const HeldNetwork> load(const Model::State& state,
                                                 std::vector<DatasetShape> shapes);
  /// The network, for data of these shapes; built when it is first asked for.
  static Network& network(Model& model, const std::vector<DatasetShape>& shapes);
  static const ModelInfo& info(const Model& model) { return model.state_->info; }
  static ModelUnits units(const Model& model);
  /// Whether a forked child can go on with it: not with what is on a GPU, or on several ranks.
  static bool survives_fork(const Model& model);
  static Communicator& ranks(const Model& model) { return *model.state_->ranks; }
  static bool trusts_index(const Model& model) { return model.state_->options.trust_index; }
  static const std::filesystem::path& file(const Model& model) { return model.state_->file; }
  /// For what every rank would say: rank 0 says it.
  static Log shared_log(const Model& model);
};

}  // namespace norn::run
