// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/data/data_binding.h"
#include "src/nn/recipe.h"

#include <string>
#include <string_view>
#include <vector>

/// "DataSet": "auto": data sets that are found by what they are for.
namespace norn {

inline constexpr const char* kAutoDataset = "auto";

/// Puts names in the place of "auto": NAME_input for Input layers and NAME_output for Output
/// layers, where the files hold both for one NAME. A data set that is called "auto" itself stays
/// what is meant. Throws DataError naming the sets that there are when there is no such pair or
/// several.
void name_data_sets(NetworkDescriptor& network, const DataSources& sources);

/// `data set "NAME" is in none of the files; did you mean "NEAR"? They hold: ...`, for messages.
std::string in_none_of_files(const std::string& name, const std::vector<std::string>& held,
                             std::string_view what_for = {});

/// What a recipe is to know of that data set of an output layer, or of the one that "auto" means.
/// Throws DataError naming the sets that there are, and UsageError when it has no sparse entries.
RecipeFacts recipe_facts(const std::string& dataset, const DataSources& sources);

}  // namespace norn
