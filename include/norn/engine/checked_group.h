// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <string>

namespace norn {

/// The parameters of one matrix or of one layer's biases, whose gradients were compared with
/// central differences of the cost.
struct CheckedGroup {
  std::string name;         ///< "Input -> Hidden", "Hidden biases"
  Index parameters = 0;     ///< that there are
  Index checked = 0;        ///< of them
  Index wrong = 0;          ///< of those
  double largest = 0.0;     ///< gradient
  double difference = 0.0;  ///< the largest one between a gradient and a difference of costs
};

}  // namespace norn
