// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/run/automatic/journal.h"

#include <string>
#include <vector>

/// What a search comes to: which candidate is chosen, how sure that is, and how it is told.
namespace norn::run {

/// A finding, as its network is or with EASE beside it.
struct Pick {
  std::size_t number = 0;  ///< from 0
  bool with_ease = false;
  bool operator==(const Pick&) const = default;
};

/// The largest value of all that have one; with EASE beside it where that is clearly better than
/// all without.
Pick best_pick(const std::vector<Finding>& findings);

/// What is trained for it.
Candidate candidate_of(const Pick& pick, const std::vector<Finding>& findings);

struct Conclusion {
  Pick chosen;
  Pick best;                 ///< the largest value, which may be chance
  Difference difference;     ///< of the recipe as it is and the best
  bool still_rises = false;  ///< the value of what is chosen, at the end of its training
};

/// The first finding is that of the recipe as it is; it stays unless the best is better beyond
/// chance (p <= 0.05), or clearly better and likely so (p <= 0.2). With the values of the examples
/// of both, which rank 0 has.
Conclusion conclude(const std::vector<Finding>& findings);

/// What there is to tell of a search beside its findings.
struct SearchStory {
  std::string metric;  ///< "ndcg@20"
  double budget = 0.0;
  double spent = 0.0;        ///< with the training of what was chosen
  std::string held_back;     ///< "held-back entries"
  std::string not_searched;  ///< why there are no findings
  NextCandidate end;         ///< as the search ended
};

/// Network::chosen(): JSON, in one line, as it is read and written again.
std::string record_of(const SearchStory& story, const std::vector<Finding>& findings,
                      const SearchFacts& facts, const Conclusion& conclusion);

/// "chose softmax, 1024 hidden units, 150 epochs: ndcg@20 ..." and what else is worth a line.
std::vector<std::string> lines_of(const SearchStory& story, const std::vector<Finding>& findings,
                                  const SearchFacts& facts, const Conclusion& conclusion);

/// "softmax, 1024 hidden units, rate 0.004, 150 epochs", "ease, lambda 200".
std::string settings_of(const NetworkDescriptor& network, const Candidate& candidate);

}  // namespace norn::run
