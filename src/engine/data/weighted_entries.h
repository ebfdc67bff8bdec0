// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"
#include "src/nn/entry_weights.h"

#include <memory>
#include <string>

/// Targets whose values say what they count for.
namespace norn {

/// The set with the weights of its entries in the place of their values, which are 1 where it has
/// none. It must give sparse batches. Reads it once: throws DataError with the number of entries
/// that have no weight, because their value is negative or a float cannot hold what it counts for,
/// and the first of them. `layer` names the Output layer in messages.
std::unique_ptr<Dataset> weigh_entries(std::unique_ptr<Dataset> set, const EntryWeights& weights,
                                       const std::string& layer);

}  // namespace norn
