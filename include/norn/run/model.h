// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/context.h"
#include "norn/engine/model_file.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// A trained network in memory, ready to be used.
namespace norn::run {

class ScratchFolder;

/// Weights or a vector of a layer in main memory, under a name that stays the same.
struct Parameter {
  std::string name;           ///< "Input -> Hidden", "Hidden bias", "Hidden mean"
  std::vector<Index> extent;  ///< [source units, units] or [units]
  std::vector<float> values;  ///< row by row
};

/// How a model is opened.
struct ModelOptions {
  DeviceChoice device;
  std::shared_ptr<Communicator> ranks;  ///< null: one process
  Log log;
  Index batch = 1024;        ///< examples of one step
  bool trust_index = false;  ///< takes unit u of the data for unit u of the model
};

/// Ranks hold it together: all call the same functions in the same order.
class Model {
 public:
  /// Of a network that has been trained, on its device, with data of these shapes.
  Model(std::unique_ptr<Runtime> runtime, std::shared_ptr<Communicator> ranks,
        std::unique_ptr<Network> network, std::vector<DatasetShape> shapes, TrainingState state);
  /// Reads and verifies a file; its weights are loaded when data are there to say what inputs are.
  /// Throws DataError when it is missing, damaged or no model.
  Model(std::filesystem::path file, ModelOptions options);
  /// The same of what bytes() gave.
  static std::unique_ptr<Model> from_bytes(std::string_view bytes, ModelOptions options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const NetworkDescriptor& descriptor() const { return info_.network; }
  /// By layer, where they are known.
  const std::vector<LabelTable>& unit_labels() const { return info_.unit_labels; }
  /// Writes a file that train() can go on from and that every program reads; it is complete or
  /// absent.
  void save(const std::filesystem::path& file);
  /// What save() would write.
  std::string bytes();
  /// Weights of the network's edges and the vectors of its layers, whole, on every rank.
  std::vector<Parameter> parameters();

 private:
  friend struct ModelAccess;
  static std::vector<Parameter> parameters_of(Network& network);
  std::unique_ptr<ScratchFolder> scratch_;  // of a model that came as bytes
  std::filesystem::path file_;              // empty: trained here
  ModelOptions options_;
  std::shared_ptr<Communicator> ranks_;
  std::unique_ptr<Runtime> runtime_;
  ModelInfo info_;
  std::vector<DatasetShape> shapes_;  // of the data that the network was made for
  std::unique_ptr<Network> network_;
};

}  // namespace norn::run
