// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/unit_matcher.h"
#include "norn/run/model.h"

namespace norn::run {

/// What the functions of this layer need of a model.
struct ModelAccess {
  /// The network, for data of these shapes; built when it is first asked for.
  static Network& network(Model& model, const std::vector<DatasetShape>& shapes);
  static Index batch(const Model& model);
  static const ModelInfo& info(const Model& model) { return model.info_; }
  static ModelUnits units(const Model& model);
  static Communicator& ranks(const Model& model) { return *model.ranks_; }
  static bool trusts_index(const Model& model) { return model.options_.trust_index; }
  static const std::filesystem::path& file(const Model& model) { return model.file_; }
  /// For what every rank would say: rank 0 says it.
  static Log shared_log(const Model& model);
};

}  // namespace norn::run
