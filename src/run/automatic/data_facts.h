// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/data/data_binding.h"

/// What a search has to know of the contents of its data. Nobody else may be reading them.
namespace norn::run {

/// Whether EASE can be computed: few enough items, targets that are what the inputs have, and no
/// weights of examples. Reads all examples.
bool are_for_ease(Dataset& input, Dataset& target);

/// Whether there is an entry of `all` that is to be found because it is not among those `known` of
/// its example. Reads up to the first such example.
bool hides_entries(Dataset& known, Dataset& all);

}  // namespace norn::run
