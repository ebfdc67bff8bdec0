// SPDX-License-Identifier: Apache-2.0
// Where everything stands in the outcome of a step.
#include "src/step/outcome.h"

namespace norn {

OutcomeLayout::OutcomeLayout(int layers) {
  source_sum_.resize(layers);
  costs_.resize(layers);
  lengths_.resize(layers);
}

void OutcomeLayout::add_costs(int layer, Index blocks) {
  costs_[layer] = {all_costs_, all_costs_ + blocks};
  all_costs_ += blocks;
}

Index OutcomeLayout::bytes() const {
  return flags() * Index(sizeof(SumFlags)) + (all_costs_ + all_lengths_) * Index(sizeof(double));
}

std::span<double> Outcome::costs(int layer) const {
  const Range range = layout_.costs_[layer];
  return {costs_ + range.begin, std::size_t(range.count())};
}

}  // namespace norn
