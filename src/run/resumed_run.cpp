// SPDX-License-Identifier: Apache-2.0
// A run that is resumed, against its data and its descriptor of before.
#include "src/run/resumed_run.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/data/contents_checksum.h"
#include "src/nn/graph.h"
#include "src/nn/unit_features.h"
#include "src/run/descriptor_differences.h"
#include "src/run/model_session.h"
#include "src/run/preparation.h"
#include "src/run/ranks.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

using Differences = std::vector<DescriptorDifference>;

constexpr std::size_t kMostLines = 20;

// Sizes of layers with windows follow from their sources.
void infer_sizes(NetworkDescriptor& network) {
  try {
    const Graph graph = make_graph(network, shapes_without_data(network), "network");
    for (std::size_t i = 0; i < network.layers.size(); ++i) {
      network.layers[i].extent = graph.network.layers[i].extent;
      network.layers[i].dimensions = graph.network.layers[i].dimensions;
    }
  } catch (const UsageError&) {  // none that could be trained: what differs says why
  }
}

// What training does to a descriptor by itself: sizes from the data, a batch that fits them. What
// no run heeds is as it was.
void fill_in(const NetworkDescriptor& trained, const TrainOptions& options, Index examples,
             NetworkDescriptor& network) {
  if (!options.batch || options.batch_may_shrink)
    network.training.batch = std::min(network.training.batch, examples);
  for (LayerDescriptor& layer : network.layers) {
    const LayerDescriptor* other = trained.find(layer.name);
    if (!other || !layer.auto_size) continue;
    layer.auto_size = false;
    layer.extent = other->extent;
    layer.dimensions = other->dimensions;
  }
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const LayerDescriptor* other = trained.find(network.layers[i].name);
    if (!network.layers[i].features.empty() && !network.layers[i].feature_table && other &&
        other->feature_table)
      add_features(network, i, other->feature_table);
  }
  infer_sizes(network);
  ValidationDescriptor& validation = network.training.validation;
  const ValidationDescriptor& before = trained.training.validation;
  const bool none = validation.split == 0.0f && before.split == 0.0f;
  if (none) validation.by = before.by;
  if (none || network.training.validation_seed() == trained.training.validation_seed())
    validation.seed = before.seed;
}

// What a run with these options would train that began now. `epochs`: as of asked_network().
NetworkDescriptor begun_now(const TrainOptions& options, const NetworkDescriptor& trained,
                            std::optional<Index> epochs) {
  const Log nobody;  // it has been said
  if (names_network(options)) return asked_network(options, epochs, nobody);
  NetworkDescriptor network = trained;
  put_settings(options, network, nobody);
  return network;
}

// What a recipe makes of the number of epochs is no setting of anybody: a run may have been made
// longer since, and more than once.
void leave_out_what_follows_from_epochs(const TrainOptions& options,
                                        const NetworkDescriptor& trained, Differences& all) {
  const Index epochs = trained.training.epochs;
  const Differences follow = descriptor_differences(begun_now(options, trained, 2 * epochs + 1),
                                                    begun_now(options, trained, epochs));
  std::erase_if(all, [&](const DescriptorDifference& one) {
    return std::ranges::any_of(follow, [&](const auto& two) { return one.place == two.place; });
  });
}

std::vector<std::string> in_few(std::vector<std::string> lines) {
  if (lines.size() <= kMostLines) return lines;
  const std::size_t more = lines.size() - kMostLines;
  lines.resize(kMostLines);
  lines.push_back(fmt::format("{} more differ", more));
  return lines;
}

// What keeps a run from being the checkpoint's; none: it is the same.
Fault other_run(const TrainingStart& start, const TrainOptions& options, Index examples) {
  const NetworkDescriptor& trained = start.info->network;
  NetworkDescriptor asked = begun_now(options, trained, trained.training.epochs);
  fill_in(trained, options, examples, asked);
  Differences all = descriptor_differences(asked, trained);
  std::erase_if(all, [](const DescriptorDifference& one) {
    return one.setting && one.setting->change == Change::any_time;
  });
  if (all.empty()) return {};
  leave_out_what_follows_from_epochs(options, trained, all);
  if (all.empty()) return {};
  std::stable_partition(all.begin(), all.end(),
                        [](const auto& one) { return !one.name().empty(); });
  std::vector<std::string> lines;
  for (const DescriptorDifference& one : all) lines.push_back(one.in_settings());
  return UsageError(fmt::format(
      "{}: is of a run with other settings: {}; give those that it had, or another "
      "`model`, or start anew with `force`, which replaces the model and its checkpoints",
      start.where, fmt::join(in_few(std::move(lines)), "; ")));
}

// The data sets of the checkpoint that are others now, with what they are now.
std::vector<std::pair<TrainedSet, TrainedSet>> changed_sets(const TrainingStart& start,
                                                            const std::vector<TrainedSet>& now) {
  std::vector<std::pair<TrainedSet, TrainedSet>> changed;
  for (const TrainedSet& then : start.state.sets) {
    const auto same_name = [&](const TrainedSet& set) { return set.name == then.name; };
    const auto set = std::ranges::find_if(now, same_name);
    if (set != now.end() && set->checksum != then.checksum) changed.emplace_back(then, *set);
  }
  return changed;
}

std::string in_words(const TrainingStart& start, const TrainedSet& then, const TrainedSet& now) {
  return fmt::format("data set \"{}\" is not the one that {} was trained on: it has {}", then.name,
                     start.where,
                     now.examples == then.examples
                         ? "other contents"
                         : fmt::format("{} examples, not {}", now.examples, then.examples));
}

// What keeps data from being the checkpoint's; none: they are the same.
Fault other_data(const TrainingStart& start, const std::vector<TrainedSet>& now) {
  const auto changed = changed_sets(start, now);
  if (changed.empty()) return {};
  return UsageError(
      in_words(start, changed.front().first, changed.front().second) +
      "; give the data that it was trained on, or start anew with `force`, which replaces the "
      "model and its checkpoints");
}

// Of a run with other settings, which by a recipe may follow from other data.
Fault other_data(TrainingStart start, const TrainOptions& options) {
  try {
    return other_data(start, trained_sets(*bind_data(start, options, {})));
  } catch (const Error&) {  // they are for another network
    return {};
  }
}

void warn_of_differences(const TrainingStart& start, const TrainOptions& options, Index examples,
                         const Log& log) {
  const bool has_file = !options.config.empty() && path_exists(options.config);
  if (!has_file && !options.same_run) return;
  const NetworkDescriptor& trained = start.network;
  const std::optional<Index> epochs = options.same_run ? trained.training.epochs : options.epochs;
  NetworkDescriptor asked = begun_now(options, trained, epochs);
  fill_in(trained, options, examples, asked);
  if (start.is_refit()) {  // what validation has settled
    asked.training.last_epoch = trained.training.last_epoch;
    asked.training.validation = trained.training.validation;
  }
  Differences all = descriptor_differences(asked, trained);
  if (options.same_run && !all.empty()) leave_out_what_follows_from_epochs(options, trained, all);
  std::vector<std::string> lines;
  for (const DescriptorDifference& one : all) {
    const bool is_on = one.then.bool_or(false);  // and no switch turns it off
    const bool may_change = one.setting && one.setting->change != Change::never && !is_on;
    lines.push_back(one.in_keys() +
                    (may_change ? fmt::format("; `{}` changes it", one.setting->name) : ""));
  }
  for (const std::string& line : in_few(std::move(lines)))
    log.warning(fmt::format("{} goes on as it was: in {} {}", start.where,
                            has_file ? options.config.string() : "the network that was given",
                            line));
}

}  // namespace

std::vector<TrainedSet> trained_sets(const DataBinding& data) {
  std::vector<TrainedSet> sets;
  for (Dataset* set : data.sets())
    sets.push_back({set->info().name, set->info().examples,
                    checksum_text(contents_checksum(*set, kTrainedParts))});
  return sets;
}

Fault compare_data(const TrainingStart& start, const std::vector<TrainedSet>& now,
                   const TrainOptions& options, const Log& log) {
  for (const auto& [then, set] : changed_sets(start, now)) {
    if (set.examples != then.examples && start.state.batch > 0)
      throw DataError(fmt::format(
          "{}: the checkpoint is of the middle of an epoch over {} examples, and data set \"{}\" "
          "has "
          "{}; give the data that it was trained on, or resume from a checkpoint of whole epochs",
          start.where, then.examples, then.name, set.examples));
    if (!options.same_run) log.warning(in_words(start, then, set) + "; the run goes on with it");
  }
  return options.same_run ? other_data(start, now) : Fault();
}

void require_same_run(const TrainingStart& start, const TrainOptions& options,
                      Communicator& communicator) {
  refuse_together(communicator, [&] {
    // How many examples there are is not known yet: no more is known of the batch.
    const Fault settings = other_run(start, options, start.info->network.training.batch);
    if (!settings) return settings;
    const Fault data = other_data(start, options);
    return data ? data : settings;
  });
}

void require_place(const TrainingStart& start, Index examples) {
  const Index batch = start.network.training.batch;
  const Index batches = (examples + batch - 1) / batch;
  if (start.state.batch >= batches)
    throw DataError(fmt::format(
        "{}: {} batches of an epoch are done, of which these data have {}; give the data that it "
        "was trained on, or resume from a checkpoint of whole epochs",
        start.where, start.state.batch, batches));
}

void compare_descriptor(const TrainingStart& start, const TrainOptions& options, Index examples,
                        Communicator& communicator, const Log& log) {
  if (options.same_run)
    refuse_together(communicator, [&] { return other_run(start, options, examples); });
  if (communicator.rank() != 0) return;
  try {
    warn_of_differences(start, options, examples, log);
  } catch (const Error& error) {
    log.warning(fmt::format("`config` is not looked at when a run is resumed, and has errors: {}",
                            error.what()));
  }
}

}  // namespace norn::run
