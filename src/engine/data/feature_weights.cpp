// SPDX-License-Identifier: Apache-2.0
// From counts of features to the weights that an input layer multiplies them by.
#include "src/engine/data/feature_weights.h"

#include "src/data/feature_counts.h"

namespace norn {

void weigh_features(Network& network, const DataBinding& data) {
  Communicator& communicator = network.context().communicator;
  for (const int layer : network.order()) {
    const LayerDescriptor& descriptor = network.descriptor().layers[std::size_t(layer)];
    if (!network.weights_features(layer)) continue;
    const std::vector<std::int64_t> counts = count_features(data.set_of(layer), descriptor.units());
    std::vector<float> weights;
    weights.reserve(counts.size());
    for (const std::int64_t count : counts)
      weights.push_back(float(feature_weight(descriptor.input_weighting, count, data.examples())));
    // Logarithms may differ in the last bit between processors; the model's must not.
    communicator.set_place({"weighing features"});
    communicator.broadcast(std::as_writable_bytes(std::span(weights)), 0);
    network.set_feature_weights(layer, weights);
  }
}

}  // namespace norn
