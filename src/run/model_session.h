// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_index.h"
#include "src/engine/data/data_binding.h"
#include "src/engine/model/model_file.h"

#include <filesystem>
#include <memory>
#include <string>

/// A trained model, opened to be used.
namespace norn::run {

/// Compares the checksums of a model file. Every rank calls it; rank 0 reads. Throws DataError
/// naming what is damaged.
void verify_model(const std::filesystem::path& model, Communicator& communicator);

/// Verifies a model file and reads what it says. Throws DataError when the file is missing, damaged
/// or no model. Every rank calls it.
ModelInfo open_model_info(const std::filesystem::path& model, Communicator& communicator);

/// What data that enter the model are matched with.
ModelUnits units_of(const ModelInfo& info, bool trust_index);

/// Throws DataError when an index file of a layer's features numbers them otherwise than the model
/// does; one of the two may go on where the other ends. Of a model that keeps the checksum of its
/// labels alone the index must have them all. Nothing is compared with a model without labels.
void check_index_file(const std::filesystem::path& file, const LabelIndex& index,
                      const ModelInfo& info, int layer);

/// As check_sizes(). Every rank calls it; rank 0 reads.
void check_model_sizes(const std::filesystem::path& model, const Graph& graph,
                       Communicator& communicator);

/// Those that a network whose sizes are numbers takes, where no data are there to say which inputs
/// are sparse: all that may be.
std::vector<DatasetShape> shapes_without_data(const NetworkDescriptor& network);

/// Builds a network for prediction, whose weights are zero. Throws UsageError, naming `where`, for
/// one that cannot be, and DeviceError when there is not enough memory, before anything large is
/// allocated. Every rank calls it. `context`: one of the runtime's.
std::unique_ptr<Network> make_network(const NetworkDescriptor& network,
                                      const std::vector<DatasetShape>& shapes,
                                      const std::string& where, const Runtime& runtime,
                                      const Context& context, Index batch);

/// Builds the network for prediction and loads its weights. Throws DataError when the model's sizes
/// are wrong and DeviceError when there is not enough memory, before anything large is allocated.
/// Every rank calls it. `context`: one of the runtime's.
std::unique_ptr<Network> load_network(const std::filesystem::path& model, const ModelInfo& info,
                                      const std::vector<DatasetShape>& shapes,
                                      const Runtime& runtime, const Context& context, Index batch);

/// The layer of that name, or with an empty name the only output layer, or of several the one named
/// "Output". Throws UsageError naming the layers that there are.
int choose_layer(const NetworkDescriptor& network, const std::string& name);

}  // namespace norn::run
