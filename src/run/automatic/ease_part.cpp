// SPDX-License-Identifier: Apache-2.0
// What EASE is to a search.
#include "src/run/automatic/ease_part.h"

#include "norn/base/error.h"
#include "src/engine/data/data_names.h"
#include "src/engine/train/ease.h"
#include "src/run/automatic/data_facts.h"
#include "src/run/automatic/search_rules.h"
#include "src/run/automatic/settings.h"
#include "src/run/closed_form.h"
#include "src/run/ranks.h"

#include <algorithm>

namespace norn::run {
namespace {

// By the settings that are given: EASE counts every entry once.
bool settings_allow_ease(const TrainOptions& options, const DataSources& sources,
                         const SearchFacts& facts) {
  Candidate candidate;
  candidate.recipe = RecipeKind::ease;
  NetworkDescriptor network = described(candidate, facts, sources);
  put_settings(candidate_options(options, network, 1), network, {});
  try {
    require_ease(network, sources.where);
  } catch (const UsageError&) {
    return false;
  }
  return true;
}

// Rank 0's, as it alone computes.
double seconds_of_ease(const TrainOptions& options, const PreparedRun& run,
                       const SearchFacts& facts) {
  const Compute& compute = run.context->compute;
  std::optional<Executor> on_host;  // a GPU's executor has one lane
  if (!compute.memory.is_host()) on_host.emplace(options.device.threads);
  const Index items = facts.data.width;
  const double rate = measure_ease_rate(items, on_host ? *on_host : compute.executor, compute);
  return work_of_ease(facts) / rate;
}

}  // namespace

bool rank_0_finds(Communicator& communicator, const std::function<bool()>& of_data) {
  bool found = false;
  rank_0_alone(communicator, [&] { found = of_data(); });
  return communicator.any(found);
}

NetworkDescriptor described(const Candidate& candidate, const SearchFacts& facts,
                            const DataSources& sources) {
  NetworkDescriptor network = network_of(candidate, facts);
  name_data_sets(network, sources);
  return network;
}

std::optional<EasePlan> plan_ease(const TrainOptions& options, const DataSources& sources,
                                  const PreparedRun& run, double budget, SearchFacts& facts) {
  Communicator& communicator = run.context->communicator;
  const auto& layers = run.graph.network.layers;
  const auto output = std::ranges::find(layers, LayerKind::output, &LayerDescriptor::kind);
  facts.features = output->feature_table ? output->feature_table->features : 0;
  Dataset& input = run.data->set_of(0);
  Dataset& target = run.data->set_of(int(output - layers.begin()));
  facts.has_ease = settings_allow_ease(options, sources, facts) &&
                   rank_0_finds(communicator, [&] { return are_for_ease(input, target); });
  if (!facts.has_ease) return {};
  const bool fits = fits_ease(input, facts.data.width, run);
  facts.has_sums = has_room_for_ease(facts, budget) && fits;
  EasePlan plan;
  if (communicator.rank() != 0) return plan;
  plan.bytes = ease_bytes(input, facts.data.width, run);
  plan.available_bytes = available_memory_bytes(run.context->compute.executor.lanes());
  plan.times = times_of_ease(facts, budget);
  if (fits && plan.times > 0) plan.seconds = seconds_of_ease(options, run, facts);
  return plan;
}

}  // namespace norn::run
