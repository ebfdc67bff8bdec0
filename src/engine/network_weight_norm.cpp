// SPDX-License-Identifier: Apache-2.0
// WeightNorm of layers with several sources: a unit's weights from all of them have one norm, which
// is known when all have been updated. Weights from one source are bounded where they are updated,
// while they are in a cache.
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

namespace norn {

// All of a unit's weights are this rank's then: see choose_sharding() and check_runnable().
bool Network::bounds_sources_together(const UnitLayer& layer) const {
  return layer.descriptor().weight_norm > 0.0f && layer.connections.size() > 1;
}

void Network::build_weight_squares() {
  weight_squares_.resize(units_.size());
  if (purpose_ != Pass::training) return;
  for (int number : order_)
    if (const UnitLayer* layer = unit_layer(number); layer && bounds_sources_together(*layer))
      weight_squares_[std::size_t(number)] =
          Buffer<double>(layer->mine().count(), context_.compute.memory);
}

// Sums go from source to source in the order of the descriptor, so no bit depends on the ranks.
void Network::bound_weights_together() {
  UpdateKernels& kernels = *context_.compute.kernels.update;
  for (int number : order_) {
    UnitLayer* layer = unit_layer(number);
    Buffer<double>& buffer = weight_squares_[std::size_t(number)];
    if (!layer || buffer.empty()) continue;
    const float limit = layer->descriptor().weight_norm;
    const VectorView<double> squares = buffer.view();
    buffer.fill_zero();
    for (const Connection& connection : layer->connections) {
      Weights& weights = connection.weights();
      weights.shape().by_destination ? kernels.add_row_squares(weights.values(), squares)
                                     : kernels.add_column_squares(weights.values(), squares);
    }
    for (const Connection& connection : layer->connections) {
      Weights& weights = connection.weights();
      weights.shape().by_destination ? kernels.scale_rows(limit, squares, weights.values())
                                     : kernels.scale_columns(limit, squares, weights.values());
      weights.round(context_.compute);
    }
  }
}

}  // namespace norn
