// SPDX-License-Identifier: Apache-2.0
// Weights of features from their counts.
#include "src/nn/input_weighting.h"

#include <algorithm>
#include <cmath>

namespace norn {

double InverseDocumentFrequency::weight(std::int64_t count, std::int64_t examples) const {
  const double rarity = std::log((1.0 + double(examples)) / (1.0 + double(count))) + 1.0;
  return std::pow(rarity, double(exponent));
}

double InversePopularity::weight(std::int64_t count, std::int64_t examples) const {
  return std::pow(double(examples) / double(std::max<std::int64_t>(1, count)), double(exponent));
}

double feature_weight(const InputWeighting& weighting, std::int64_t count, std::int64_t examples) {
  return std::visit([&](const auto& scheme) { return scheme.weight(count, examples); }, weighting);
}

}  // namespace norn
