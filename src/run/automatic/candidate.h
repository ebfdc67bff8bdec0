// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/recipe.h"

#include <string>

/// What the recipe "auto" chooses between: a recipe, as it is or with a few settings larger or
/// smaller.
namespace norn::run {

/// Factors of what the recipe says by itself.
struct Candidate {
  RecipeKind recipe = RecipeKind::sigmoid;
  double rate = 1.0;
  double length = 1.0;  ///< epochs
  double width = 1.0;   ///< hidden units
  double lambda = 1.0;  ///< of EASE
  /// Of a network: how often EASE's scores are added, 0: not at all; and that EASE's lambda.
  double ease_weight = 0.0;
  double ease_lambda = 0.0;

  bool is_network() const { return recipe != RecipeKind::ease; }
  bool operator==(const Candidate&) const = default;
};

/// "sigmoid, rate x 2": by what it differs from the recipe.
std::string name_of(const Candidate& candidate);

/// What a search knows before it begins.
struct SearchFacts {
  RecipeFacts data;
  RecipeWishes wishes;  ///< what is given; it is not searched
  bool rate_is_given = false;
  bool length_is_given = false;
  Index features = 0;     ///< of units, which every network learns of, too
  bool has_ease = false;  ///< the data are such as EASE is for
  bool has_sums = false;  ///< and EASE is tried beside every network, too
};

/// The complete descriptor, as of make_recipe().
NetworkDescriptor network_of(const Candidate& candidate, const SearchFacts& facts);

/// What costs are counted in: the training of the recipe "sigmoid" as it is. Arithmetic, not time:
/// the same on any machine.
struct CandidateCost {
  double training = 0.0;    ///< on everything, at last
  double validation = 0.0;  ///< what a search evaluates beside it
  double in_search() const { return training + validation; }
};
CandidateCost cost_of(const Candidate& candidate, const SearchFacts& facts);

/// Multiplications with additions of one computation of EASE.
double work_of_ease(const SearchFacts& facts);

}  // namespace norn::run
