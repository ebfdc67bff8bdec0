// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/run/automatic/candidate.h"

#include <limits>
#include <optional>
#include <vector>

/// Which candidate the recipe "auto" tries next: a function of what has come out so far, and of
/// nothing else. docs/user/recipes.md has the rules.
namespace norn::run {

/// A candidate and what came of it.
struct Tried {
  Candidate candidate;
  double value = 0.0;   ///< of the metric on what is held back; larger is better
  bool failed = false;  ///< it diverged, or did not fit into memory: there is no value
  /// The best value of validations before its end; NaN: there was none.
  double earlier = std::numeric_limits<double>::quiet_NaN();
};

struct NextCandidate {
  std::optional<Candidate> candidate;  ///< none: the search is over
  /// What the budget had no room for, though the moves before it in its direction had won.
  std::optional<Candidate> left_out;
  double budget_for_it = 0.0;  ///< the least that has room for it
};

/// `tried`: what earlier answers of this function came to, in their order. A candidate is only
/// named where its training, all before it, and the training of the best on everything cost no more
/// than a tenth above the budget, which is counted as CandidateCost.
NextCandidate next_candidate(const SearchFacts& facts, const std::vector<Tried>& tried,
                             double budget);

/// Whether EASE, with a few values of lambda, is no more than a part of the budget.
bool has_room_for_ease(const SearchFacts& facts, double budget);

/// About how often EASE is computed: by itself, beside every network, and beside what is chosen, as
/// often as in searches in which no move wins, or every one, with shorter trainings or without.
Index times_of_ease(const SearchFacts& facts, double budget);

/// Whether a value is better than another one by more than half a percent, which the draws of a
/// training alone seldom bring.
bool is_clearly_better(double value, double than);

/// The best of those that have a value: of equal ones the first. None: none has.
std::optional<std::size_t> best_of(const std::vector<Tried>& tried);

}  // namespace norn::run
