// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/model_file.h"
#include "tools/common/program.h"

#include <filesystem>
#include <memory>
#include <string>

/// A trained model, opened to be used.
namespace norn::tools {

/// Reads what a model file says. Throws DataError when the file is missing or no model.
ModelInfo open_model_info(const std::filesystem::path& model);

/// Builds the network for prediction and loads its weights. Every rank calls it.
std::unique_ptr<Network> load_network(const std::filesystem::path& model, const ModelInfo& info,
                                      const std::vector<DatasetShape>& shapes,
                                      const Context& context, Index batch);

/// The layer of that name, or with an empty name the only output layer, or of several the one named
/// "Output". Throws UsageError naming the layers that there are.
int choose_layer(const NetworkDescriptor& network, const std::string& name);

}  // namespace norn::tools
