// SPDX-License-Identifier: Apache-2.0
// A run that is resumed, against its data and its descriptor of before.
#include "src/run/resumed_run.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/data/contents_checksum.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/json_value.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;

// By its place in the text, such as "Training.Alpha" and "Layers[1].N", as JSON.
using Values = std::map<std::string, std::string>;

void add_values(const JsonValue& value, const std::string& place, Values& values) {
  if (value.is_object())
    for (const auto& [name, member] : value.members())
      add_values(member, place.empty() ? name : fmt::format("{}.{}", place, name), values);
  else if (value.is_array() && !value.entries().empty() && value.entries().front().is_object())
    for (std::size_t i = 0; i < value.entries().size(); ++i)
      add_values(value.entries()[i], fmt::format("{}[{}]", place, i), values);
  else
    values[place] = value.line();
}

Values values_of(const NetworkDescriptor& network) {
  Values values;
  add_values(parse_json(to_json(network), "descriptor"), "", values);
  return values;
}

// What training does to a descriptor by itself: sizes from the data, a batch that fits them.
void fill_in(const NetworkDescriptor& trained, Index examples, NetworkDescriptor& network) {
  network.training.batch = std::min(network.training.batch, examples);
  for (std::size_t i = 0; i < std::min(network.layers.size(), trained.layers.size()); ++i) {
    LayerDescriptor& layer = network.layers[i];
    if (!layer.auto_size) continue;
    layer.auto_size = false;
    layer.extent = trained.layers[i].extent;
    layer.dimensions = trained.layers[i].dimensions;
  }
}

NetworkDescriptor read_config(const TrainOptions& options, const Log& log) {
  return begins_as_netcdf(options.config)
             ? read_model_info(TensorFileReader(options.config)).network
             : read_descriptor(options, options.config.string(), log);
}

// Each of them on one line, the setting that changes it where there is one.
std::vector<std::string> differences(const Values& config, const Values& trained) {
  static const std::map<std::string, const char*> kSettings = {
      {"Training.Epochs", "`epochs`"}, {"Training.Alpha", "`rate`"},
      {"Training.Lambda", "`lambda`"}, {"Training.Lambda1", "`lambda1`"},
      {"Training.Mu", "`mu`"},         {"Training.Mu1", "`mu1`"}};
  Values all = config;
  all.insert(trained.begin(), trained.end());
  const auto shown = [](const Values& values, const std::string& place) {
    const auto found = values.find(place);
    return found == values.end() ? std::string("the default") : found->second;
  };
  std::vector<std::string> lines;
  for (const auto& [place, ignored] : all) {
    const std::string here = shown(config, place);
    const std::string there = shown(trained, place);
    if (here == there) continue;
    const auto setting = kSettings.find(place);
    lines.push_back(fmt::format(
        "{} is {}, the checkpoint has {}{}", place, here, there,
        setting == kSettings.end() ? "" : fmt::format("; {} changes it", setting->second)));
  }
  return lines;
}

}  // namespace

std::vector<TrainedSet> trained_sets(const DataBinding& data) {
  std::vector<TrainedSet> sets;
  for (Dataset* set : data.sets())
    sets.push_back({set->info().name, set->info().examples,
                    checksum_text(contents_checksum(*set, kTrainedParts))});
  return sets;
}

void compare_data(const TrainingStart& start, const std::vector<TrainedSet>& now,
                  const TrainOptions& options, const Log& log) {
  for (const TrainedSet& then : start.state.sets) {
    const auto same_name = [&](const TrainedSet& set) { return set.name == then.name; };
    const auto set = std::ranges::find_if(now, same_name);
    if (set == now.end() || set->checksum == then.checksum) continue;
    if (set->examples != then.examples && start.state.batch > 0)
      throw DataError(fmt::format(
          "{}: the checkpoint is of the middle of an epoch over {} examples, and data set \"{}\" "
          "has "
          "{}; give the data that it was trained on, or resume from a checkpoint of whole epochs",
          start.where, then.examples, then.name, set->examples));
    const std::string what = set->examples == then.examples
                                 ? "other contents"
                                 : fmt::format("{} examples, not {}", set->examples, then.examples);
    const std::string difference =
        fmt::format("data set \"{}\" is not the one that {} was trained on: it has {}", then.name,
                    start.where, what);
    if (options.same_data)
      throw UsageError(difference +
                       "; give the data that it was trained on, or start anew with `force`, which "
                       "replaces the model and its checkpoints");
    log.warning(difference + "; the run goes on with it");
  }
}

void require_place(const TrainingStart& start, Index examples) {
  const Index batch = start.network.training.batch;
  if (batch > examples)
    throw DataError(fmt::format(
        "{}: was trained with a batch of {}, and the data have {} examples; give data "
        "with as many examples at least, or start a new run with its weights (`config`)",
        start.where, batch, examples));
  const Index batches = (examples + batch - 1) / batch;
  if (start.state.batch >= batches)
    throw DataError(fmt::format(
        "{}: {} batches of an epoch are done, of which these data have {}; give the data that it "
        "was trained on, or resume from a checkpoint of whole epochs",
        start.where, start.state.batch, batches));
}

void compare_descriptor(const TrainingStart& start, const TrainOptions& options, Index examples,
                        const Log& log) {
  constexpr std::size_t kMostLines = 20;
  if (options.config.empty() || !path_exists(options.config)) return;
  const Log nobody;  // it has been said
  NetworkDescriptor network;
  try {
    network = read_config(options, nobody);
  } catch (const Error& error) {
    log.warning(fmt::format("`config` is not looked at when a run is resumed, and has errors: {}",
                            error.what()));
    return;
  }
  options.apply_to(network.training, nobody);
  if (!options.shuffle.empty()) network.shuffle = options.shuffle == "yes";
  fill_in(start.network, examples, network);
  if (start.is_refit()) {  // what validation has settled
    network.training.last_epoch = start.network.training.last_epoch;
    network.training.validation = start.network.training.validation;
  }
  std::vector<std::string> lines = differences(values_of(network), values_of(start.network));
  if (lines.size() > kMostLines) {
    const std::size_t more = lines.size() - kMostLines;
    lines.resize(kMostLines);
    lines.push_back(fmt::format("{} more differ", more));
  }
  for (const std::string& line : lines)
    log.warning(
        fmt::format("{} goes on as it was: in {} {}", start.where, options.config.string(), line));
}

}  // namespace norn::run
