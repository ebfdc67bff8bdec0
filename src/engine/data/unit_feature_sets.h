// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/data/data_binding.h"

namespace norn {

/// Reads the data sets that Output layers name by Features, where the network has not got them yet
/// from a model, and gives the network the layers that learn of them (add_features()). Rows of a
/// set are units: by their labels where both have some, else by position. What is of no unit, units
/// without features and rows without entries are told. Throws DataError naming the sets that there
/// are where one is missing, and one whose rows or values are none.
void attach_features(NetworkDescriptor& network, const DataSources& sources);

/// Labels of the features of a network's layers that learn of them, by layer.
void take_feature_labels(const NetworkDescriptor& network, const ModelUnits* model,
                         std::vector<LabelTable>& unit_labels);

}  // namespace norn
