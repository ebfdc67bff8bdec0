// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"

#include <cstdint>
#include <vector>

/// How common the features of a data set are.
namespace norn {

/// By unit, of the first `units`: in how many examples of a set with sparse batches it is stored.
/// Takes memory for these, however wide the set says it is. Examples that
/// share a row count each, a unit that a row names twice counts once; values and weights do not
/// matter. Reads every stored row once, in parts of bounded size. No BatchLoader may be reading the
/// set.
std::vector<std::int64_t> count_features(Dataset& set, Index units);

}  // namespace norn
