// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/data/data_binding.h"
#include "src/engine/network/network.h"

/// Weights of features, from the data that a network is trained on.
namespace norn {

/// Counts the features of every input layer that has an InputWeighting in `data`, which is what the
/// network will be trained on and nothing else, and sets their weights. For a network that starts
/// anew: one whose weights are loaded has them from the model. Every rank calls it; all get those
/// of rank 0. Reads the data sets once; no BatchLoader may be reading them.
void weigh_features(Network& network, const DataBinding& data);

}  // namespace norn
