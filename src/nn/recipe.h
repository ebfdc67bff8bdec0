// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/descriptor.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Recipes: networks that recommend well on data of any size and density. docs/user/recipes.md says
/// where the rules come from and what each of them is worth.
namespace norn {

enum class RecipeKind { sigmoid, softmax, ease };

/// "sigmoid", "softmax", "ease": in the order of RecipeKind.
const std::vector<std::string>& recipe_names();
/// What a run may be asked for beside them: measurements choose a recipe and its settings.
inline constexpr const char* kAutomaticRecipe = "auto";
/// All that a run may be asked for.
std::vector<std::string> run_recipe_names();
/// The recipe of that name, in any case; nothing when there is none.
std::optional<RecipeKind> recipe_named(const std::string& name);
/// What a recipe calls its networks: "sigmoid recipe".
std::string recipe_title(RecipeKind kind);
/// The recipe that calls its networks so; nothing when none does.
std::optional<RecipeKind> recipe_titled(const std::string& title);

/// What a recipe knows of the data: of the set that the outputs learn. Zeros are read as ones.
struct RecipeFacts {
  Index examples = 1;
  Index width = 1;
  std::int64_t entries = 1;  ///< ones, in all examples together
};

/// Settings that are given, and that others follow: the rate, the length, the warm-up.
struct RecipeWishes {
  std::optional<Index> batch;
  std::optional<Index> epochs;
  std::optional<Index> hidden;  ///< units
};

/// The complete descriptor, with layers Input, Hidden and Output whose data sets are "auto"; EASE
/// has no Hidden one. A function of its arguments alone; numbers are rounded so that they can be
/// read and edited.
NetworkDescriptor make_recipe(RecipeKind kind, const RecipeFacts& facts,
                              const RecipeWishes& wishes = {});

/// Where a descriptor that names a recipe gets the facts from.
struct RecipeSource {
  /// Of a data set; of the one that "DataSet": "auto" means, beside sets with features of units.
  std::function<RecipeFacts(const std::string& dataset, const std::vector<std::string>& features)>
      facts;
  RecipeWishes wishes;  ///< these win over the descriptor's
};

}  // namespace norn
