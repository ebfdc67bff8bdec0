// SPDX-License-Identifier: Apache-2.0
// Candidates as networks, and what they cost.
#include "src/run/automatic/candidate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

constexpr double kPasses = 3.0;       // forward, the sources' deltas, the gradients
constexpr double kEvaluations = 3.0;  // of a training: one before its end, two at it
constexpr double kOfPlain = 5.0;      // three before its end
constexpr double kSums = 4.0;         // evaluations with EASE beside it

// As many digits as a recipe gives.
float scaled(float value, double factor) {
  if (factor == 1.0 || value == 0.0f) return value;
  const double exact = double(value) * factor;
  const double scale = std::pow(10.0, 2 - int(std::floor(std::log10(exact))));
  return float(std::round(exact * scale) / scale);
}

// The layer that a candidate may widen; null: EASE has none.
LayerDescriptor* hidden_of(NetworkDescriptor& network) {
  const auto found = std::ranges::find(network.layers, LayerKind::hidden, &LayerDescriptor::kind);
  return found == network.layers.end() ? nullptr : &*found;
}

// Multiplications with additions.
struct Work {
  double training = 0.0;
  double evaluation = 0.0;
};

Work work_of(const Candidate& candidate, const SearchFacts& facts) {
  const double examples = double(std::max<Index>(1, facts.data.examples));
  const double entries = double(std::max<std::int64_t>(1, facts.data.entries));
  const double items = double(std::max<Index>(1, facts.data.width));
  const double row = entries / examples;
  const double inverse = work_of_ease(facts);
  if (!candidate.is_network()) return {inverse, entries * items};
  NetworkDescriptor network = network_of(candidate, facts);
  const double forward =
      double(hidden_of(network)->units()) * (row + items + double(facts.features)) * examples;
  const double sums = facts.has_sums ? inverse + kSums * (forward + entries * items) : 0.0;
  const double evaluations = candidate == Candidate() ? kOfPlain : kEvaluations;
  return {kPasses * double(network.training.epochs) * forward, evaluations * forward + sums};
}

}  // namespace

std::string name_of(const Candidate& candidate) {
  std::string text = recipe_names()[std::size_t(candidate.recipe)];
  const std::pair<const char*, double> factors[] = {{"rate", candidate.rate},
                                                    {"length", candidate.length},
                                                    {"width", candidate.width},
                                                    {"lambda", candidate.lambda}};
  for (const auto& [name, factor] : factors)
    if (factor > 1.0)
      text += fmt::format(", {} x {:g}", name, factor);
    else if (factor < 1.0)
      text += fmt::format(", {} x 1/{:g}", name, 1.0 / factor);
  return text;
}

NetworkDescriptor network_of(const Candidate& candidate, const SearchFacts& facts) {
  NetworkDescriptor network = make_recipe(candidate.recipe, facts.data, facts.wishes);
  TrainingDescriptor& training = network.training;
  if (!candidate.is_network()) {
    training.lambda = scaled(training.lambda, candidate.lambda);
    return network;
  }
  training.rate = scaled(training.rate, candidate.rate);
  training.epochs =
      std::max<Index>(1, Index(std::llround(double(training.epochs) * candidate.length)));
  training.schedule.warm_up = scaled(training.schedule.warm_up, candidate.length);
  LayerDescriptor& hidden = *hidden_of(network);
  hidden.extent[0] =
      std::max<Index>(1, Index(std::llround(double(hidden.extent[0]) * candidate.width)));
  if (candidate.ease_weight > 0.0) {
    training.ease_weight = float(candidate.ease_weight);
    training.ease_lambda = float(candidate.ease_lambda);
  }
  return network;
}

double work_of_ease(const SearchFacts& facts) {
  const double entries = double(std::max<std::int64_t>(1, facts.data.entries));
  const double items = double(std::max<Index>(1, facts.data.width));
  return items * items * items +
         entries * (entries / double(std::max<Index>(1, facts.data.examples)));
}

CandidateCost cost_of(const Candidate& candidate, const SearchFacts& facts) {
  const double unit = work_of({}, facts).training;
  const Work work = work_of(candidate, facts);
  return {work.training / unit, work.evaluation / unit};
}

}  // namespace norn::run
