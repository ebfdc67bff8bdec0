// SPDX-License-Identifier: Apache-2.0
#include "src/nn/entry_weights.h"

#include <cmath>

namespace norn {

float EntryWeights::weight(float value) const {
  const double v = double(value);
  switch (scheme) {
    case EntryWeightScheme::none:
      break;
    case EntryWeightScheme::value:
      return value;
    case EntryWeightScheme::linear:
      return float(1.0 + double(alpha) * v);
    case EntryWeightScheme::log:
      return float(1.0 + double(alpha) * std::log1p(v / double(epsilon)));
  }
  return 1.0f;
}

const char* name_of(EntryWeightScheme scheme) {
  switch (scheme) {
    case EntryWeightScheme::none:
      break;
    case EntryWeightScheme::value:
      return "Value";
    case EntryWeightScheme::linear:
      return "Linear";
    case EntryWeightScheme::log:
      return "Log";
  }
  return "None";
}

}  // namespace norn
