// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/tensor_file.h"
#include "src/engine/model/model_arrays.h"
#include "src/nn/descriptor.h"

#include <functional>

/// Features of units in model files: docs/user/formats.md.
namespace norn {

/// Declares the items of all tables of a network.
void define_features(TensorFileWriter& file, const NetworkDescriptor& network);
/// Gives out their values.
void write_features(
    const NetworkDescriptor& network,
    const std::function<void(const std::string& item, Index first, ConstValues values)>& take);
/// Puts the tables of a file into its network. Throws DataError naming file and item where one is
/// missing or damaged.
void read_features(const TensorFileReader& file, NetworkDescriptor& network);

}  // namespace norn
