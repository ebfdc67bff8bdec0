// SPDX-License-Identifier: Apache-2.0
// The rules of the recipe "auto": what is tried, in which order, and what follows from it.
#include "src/run/automatic/search_rules.h"

#include "norn/base/error.h"

#include <algorithm>
#include <array>
#include <utility>

namespace norn::run {
namespace {

constexpr double kEaseShare = 0.25;  // of the budget, for all of EASE together
constexpr Index kLeastEase = 3;      // of them, without which there is no choice
constexpr Index kMostEase = 8;
constexpr double kLambdas = 3.0;      // between two of them
constexpr double kMostLength = 16.0;  // times the recipe's, or as often shorter
constexpr double kRounding = 1e-9;    // of sums of costs
constexpr double kClear = 0.005;      // of a value
constexpr double kOver = 0.1;         // of the budget: evaluations and EASE beside the trainings

// Goes through the rules with what is known of each move, up to the first of which nothing is.
class Walk {
 public:
  Walk(const SearchFacts& facts, const std::vector<Tried>& tried, double budget)
      : facts_(facts), tried_(tried), budget_(budget) {}

  const SearchFacts& facts() const { return facts_; }
  double budget() const { return budget_; }
  bool is_over() const { return next_.candidate.has_value(); }
  const NextCandidate& next() const { return next_; }
  /// The network that none so far is clearly better than.
  const Candidate& best_network() const { return best_network_->candidate; }
  bool has_network() const { return best_network_ != nullptr; }
  /// Whether the recipe as it is was clearly better before its end.
  bool plain_fell() const {
    return seen_ > 0 && is_clearly_better(tried_.front().earlier, tried_.front().value);
  }

  /// What a candidate came to; null: nothing is known of it, because it comes next, or because the
  /// budget has no room for it. `winning`: the moves before it in its direction have won.
  const Tried* look(const Candidate& candidate, bool winning = false) {
    if (is_over()) return nullptr;
    const auto end = tried_.begin() + std::ptrdiff_t(seen_);
    const auto before = std::find_if(tried_.begin(), end,
                                     [&](const Tried& one) { return one.candidate == candidate; });
    if (before != end) return &*before;
    const CandidateCost cost = cost_of(candidate, facts_);
    const double last = best_ ? cost_of(best_->candidate, facts_).training : 0.0;
    const double needed = spent_ + cost.in_search() + std::max(cost.training, last);
    if (needed > budget_ * (1.0 + kOver) * (1.0 + kRounding)) {
      if (winning && !next_.left_out) {
        next_.left_out = candidate;
        next_.budget_for_it = needed / (1.0 + kOver);
      }
      return nullptr;
    }
    if (seen_ == tried_.size()) {
      next_.candidate = candidate;
      return nullptr;
    }
    return take(candidate, cost);
  }

  /// Whether a candidate is clearly better than the best network before it.
  enum class Outcome { unknown, won, lost };
  Outcome move_to(const Candidate& candidate, bool winning = false) {
    const Tried* const before = best_network_;
    const Tried* const found = look(candidate, winning);
    if (!found) return Outcome::unknown;
    return best_network_ != before && found == best_network_ ? Outcome::won : Outcome::lost;
  }

 private:
  const Tried* take(const Candidate& candidate, const CandidateCost& cost) {
    const Tried& found = tried_[seen_++];
    require(found.candidate == candidate, "next_candidate: the results are those of its answers");
    spent_ += cost.in_search();
    if (found.failed) return &found;
    if (!best_ || found.value > best_->value) best_ = &found;
    if (candidate.is_network() &&
        (!best_network_ || is_clearly_better(found.value, best_network_->value)))
      best_network_ = &found;
    return &found;
  }

  const SearchFacts& facts_;
  const std::vector<Tried>& tried_;
  double budget_;
  std::size_t seen_ = 0;
  double spent_ = 0.0;
  const Tried* best_ = nullptr;
  const Tried* best_network_ = nullptr;
  NextCandidate next_;
};

using Outcome = Walk::Outcome;

// How many of them the budget has room for.
Index most_ease(const SearchFacts& facts, double budget) {
  Candidate ease;
  ease.recipe = RecipeKind::ease;
  return Index(kEaseShare * budget / cost_of(ease, facts).in_search());
}

void plain(Walk& walk) {
  walk.look({});
}

// Lambda by its rule, then three times as much, and on in the direction that is better.
void closed_forms(Walk& walk) {
  Candidate ease;
  ease.recipe = RecipeKind::ease;
  if (!walk.facts().has_ease) return;
  const Index most = most_ease(walk.facts(), walk.budget());
  if (most < kLeastEase) return;
  const auto value_at = [&](double lambda) {
    ease.lambda = lambda;
    const Tried* const found = walk.look(ease);
    return found && !found->failed ? std::optional(found->value) : std::nullopt;
  };
  std::optional<double> best = value_at(1.0);
  const std::optional<double> more = best ? value_at(kLambdas) : std::nullopt;
  if (!more) return;
  const double factor = *more > *best ? kLambdas : 1.0 / kLambdas;
  double lambda = *more > *best ? kLambdas : 1.0;
  best = std::max(best, more);
  for (Index count = 2; count < std::min(most, kMostEase); ++count) {
    lambda *= factor;
    const std::optional<double> next = value_at(lambda);
    if (!next || *next <= *best) return;
    best = next;
  }
}

// Where the recipe as it is had passed its best by its end.
void shorter_lengths(Walk& walk) {
  if (walk.facts().length_is_given || !walk.plain_fell()) return;
  Candidate move = walk.best_network();
  do {
    move.length *= 0.5;
  } while (move.length * kMostLength >= 1.0 && walk.move_to(move) == Outcome::won);
}

// At the same length a higher rate tells, at a third of the cost, what a longer training would.
void higher_rates(Walk& walk) {
  if (walk.facts().rate_is_given) return;
  const Candidate base = walk.best_network();
  Candidate move = base;
  move.rate = 2.0 * base.rate;
  if (walk.move_to(move) != Outcome::won) return;
  move.rate = 4.0 * base.rate;
  walk.move_to(move, true);
}

// Where a higher rate was better, or none is searched for.
void lengths(Walk& walk) {
  if (walk.facts().length_is_given) return;
  bool winning = walk.best_network().rate > 1.0;
  if (!winning && !walk.facts().rate_is_given) return;
  Candidate move = walk.best_network();
  do {
    move.length *= 2.0;
    if (move.length > kMostLength || walk.move_to(move, winning) != Outcome::won) return;
    winning = true;
  } while (true);
}

void widths(Walk& walk) {
  const Candidate base = walk.best_network();
  Candidate move = base;
  move.width = 2.0 * base.width;
  if (walk.move_to(move) != Outcome::lost) return;
  move.width = 0.5 * base.width;
  walk.move_to(move);
}

// Which is seldom better, and so comes late.
void lower_rate(Walk& walk) {
  if (walk.facts().rate_is_given || walk.best_network().rate > 1.0) return;
  Candidate move = walk.best_network();
  move.rate *= 0.5;
  walk.move_to(move);
}

// As it is, or as short as what is best; its neighbours only where it is better.
void softmax(Walk& walk) {
  Candidate other;
  other.recipe = RecipeKind::softmax;
  other.length = std::min(1.0, walk.best_network().length);
  if (walk.move_to(other) != Outcome::won) return;
  for (const auto rule : {higher_rates, lengths, widths, lower_rate})
    if (!walk.is_over()) rule(walk);
}

// In their order; each begins with the best network that those before it have found.
constexpr std::array kRules = {plain,   closed_forms, shorter_lengths, higher_rates,
                               lengths, widths,       lower_rate,      softmax};

}  // namespace

NextCandidate next_candidate(const SearchFacts& facts, const std::vector<Tried>& tried,
                             double budget) {
  Walk walk(facts, tried, budget);
  for (const auto rule : kRules) {
    rule(walk);
    if (walk.is_over() || !walk.has_network()) break;
  }
  return walk.next();
}

bool has_room_for_ease(const SearchFacts& facts, double budget) {
  return most_ease(facts, budget) >= kLeastEase;
}

Index times_of_ease(const SearchFacts& facts, double budget) {
  if (!facts.has_ease || !has_room_for_ease(facts, budget)) return 0;
  Index most_alone = 0, most_networks = 0;
  constexpr double kGrowth = 1.0 + 2.0 * kClear;
  const std::pair<double, double> searches[] = {{1.0, 0.0}, {kGrowth, 0.0}, {kGrowth, kGrowth}};
  for (const auto& [growth, earlier] : searches) {
    std::vector<Tried> tried;
    Index networks = 0;
    double value = 1.0;
    while (const auto next = next_candidate(facts, tried, budget).candidate) {
      networks += next->is_network();
      tried.push_back({*next, value, false, earlier * value});
      value *= growth;
    }
    most_alone = std::max(most_alone, Index(tried.size()) - networks);
    most_networks = std::max(most_networks, networks);
  }
  return most_alone + (facts.has_sums ? most_networks + 1 : 0);
}

bool is_clearly_better(double value, double than) {
  return value > (1.0 + kClear) * than;
}

std::optional<std::size_t> best_of(const std::vector<Tried>& tried) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < tried.size(); ++i)
    if (!tried[i].failed && (!best || tried[i].value > tried[*best].value)) best = i;
  return best;
}

}  // namespace norn::run
