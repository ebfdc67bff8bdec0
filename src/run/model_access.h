// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/model.h"
#include "src/engine/model_file.h"
#include "src/engine/unit_matcher.h"
#include "src/run/scratch_folder.h"

namespace norn::run {

struct Model::State {
  std::unique_ptr<ScratchFolder> scratch;  // of a model that came as bytes
  std::filesystem::path file;              // empty: trained here
  ModelOptions options;
  std::shared_ptr<Communicator> ranks;
  ModelInfo info;
  std::unique_ptr<Runtime> runtime;
  std::vector<DatasetShape> shapes;  // of the data that the network was made for
  std::unique_ptr<Network> network;  // null: not asked for yet
};

/// What the functions of this layer, and Norn's programs, need of a model.
struct ModelAccess {
  /// Of a network that has been trained, on its device, with data of these shapes.
  static std::unique_ptr<Model> trained(std::unique_ptr<Runtime> runtime,
                                        std::shared_ptr<Communicator> ranks,
                                        std::unique_ptr<Network> network,
                                        std::vector<DatasetShape> shapes, TrainingState state);
  /// Of a file in a folder that goes away with it.
  static std::unique_ptr<Model> in_scratch(std::unique_ptr<ScratchFolder> scratch,
                                           std::filesystem::path file, ModelOptions options);
  /// The network, for data of these shapes; built when it is first asked for.
  static Network& network(Model& model, const std::vector<DatasetShape>& shapes);
  /// Examples of one step.
  static Index batch(const Model& model);
  static const ModelInfo& info(const Model& model) { return model.state_->info; }
  static ModelUnits units(const Model& model);
  static Communicator& ranks(const Model& model) { return *model.state_->ranks; }
  static bool trusts_index(const Model& model) { return model.state_->options.trust_index; }
  static const std::filesystem::path& file(const Model& model) { return model.state_->file; }
  /// For what every rank would say: rank 0 says it.
  static Log shared_log(const Model& model);
};

}  // namespace norn::run
