// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/base/types.h"
#include "norn/data/label_table.h"
#include "norn/engine/device_choice.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace norn {
class Communicator;
}

/// A trained network in memory, ready to be used.
namespace norn::run {

/// Weights or a vector of a layer, under a name that stays the same. Element (i, j, ..) stands at
/// data[i * stride[0] + j * stride[1] + ..].
struct Parameter {
  /// "Input -> Hidden", "Hidden bias", "Hidden runningMeanBN", "Input featureWeights".
  std::string name;
  /// [source units, units], [units]; of a convolution [channels of the layer, channels of the
  /// source, .., y, x] and [channels].
  std::vector<Index> extent;
  std::vector<Index> stride;  ///< elements from one to the next, as long as extent
  const float* data = nullptr;
  std::shared_ptr<const void> owner;  ///< keeps them, also when the model is gone

  /// Element j of row i: the axes behind the first are counted as one.
  float at(Index i, Index j = 0) const {
    Index offset = i * stride[0];
    for (std::size_t axis = extent.size(); axis-- > 1; j /= extent[axis])
      offset += j % extent[axis] * stride[axis];
    return data[offset];
  }
};

/// How a model is opened.
struct ModelOptions {
  DeviceChoice device = {};
  std::shared_ptr<Communicator> ranks = {};  ///< null: one process
  Log log = {};
  Index batch = 1024;        ///< most examples of one step: fewer where memory has no room
  bool trust_index = false;  ///< takes unit u of the data for unit u of the model
};

/// Ranks hold it together: all call the same functions in the same order.
class Model {
 public:
  /// Reads and verifies a file; its weights are loaded when data are there to say what inputs are.
  /// Throws DataError when it is missing, damaged or no model.
  Model(std::filesystem::path file, ModelOptions options);
  /// The same of what bytes() gave.
  static std::unique_ptr<Model> from_bytes(std::string_view bytes, ModelOptions options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Its descriptor as JSON, with the settings that it was trained with.
  std::string network() const;
  /// How the recipe "auto" chose its settings, JSON (docs/user/recipes.md); empty: it did not.
  std::string chosen() const;
  /// The labels of a layer's units, where they are known. Throws UsageError for a name that no
  /// layer has.
  const LabelTable& unit_labels(std::string_view layer) const;
  /// Writes a file that train() can go on from and that every program reads; it is complete or
  /// absent. It is there when the function returns, on every rank.
  void save(const std::filesystem::path& file);
  /// What save() would write.
  std::string bytes();
  /// Weights of the network's edges and the vectors of its layers, whole, on every rank: as they
  /// stand in main memory, or copies of what is on a GPU or on several ranks.
  std::vector<Parameter> parameters();

 private:
  friend struct ModelAccess;
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace norn::run
