// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/descriptor.h"

#include <memory>

namespace norn {

/// Gives an Output layer of these numbers the table of its units' features, and the network the
/// layer that learns of them, as its last, where it has none: Linear, fed by the same sources, with
/// weights of 0, so that training begins as without features. Names and sources are filled in.
/// Throws UsageError where a layer of that name has another width.
void add_features(NetworkDescriptor& network, std::size_t layer,
                  std::shared_ptr<const FeatureTable> table);

/// Whether a layer is what an Output layer learns of features; of which one, or null.
const LayerDescriptor* has_features_from(const NetworkDescriptor& network,
                                         const LayerDescriptor& layer);

}  // namespace norn
