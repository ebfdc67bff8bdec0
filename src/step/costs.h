// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cost.h"
#include "src/nn/descriptor.h"

/// The losses of output layers, as the kernels want them.
namespace norn {

inline UnitCost unit_cost(const NetworkDescriptor& network, const LayerDescriptor& layer) {
  return {std::get<Activation>(layer.activation), network.loss, network.boost_one,
          network.boost_zero};
}

inline SoftMaxCost softmax_cost(const NetworkDescriptor& network) {
  return {network.loss, network.target_weight, network.boost_one, network.boost_zero};
}

}  // namespace norn
