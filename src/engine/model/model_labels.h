// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_table.h"
#include "src/data/tensor_file.h"
#include "src/nn/descriptor.h"

#include <vector>

/// The labels of layers' units in model files. Layers that have the same labels share a table.
namespace norn {

/// By layer; unknown where the file says nothing. Throws DataError for labels that are damaged.
std::vector<LabelTable> read_unit_labels(const TensorFileReader& file,
                                         const NetworkDescriptor& network);
void define_unit_labels(TensorFileWriter& file, const std::vector<LabelTable>& of_layer);
void write_unit_labels(TensorFileWriter& file, const std::vector<LabelTable>& of_layer);

}  // namespace norn
