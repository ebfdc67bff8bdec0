// SPDX-License-Identifier: Apache-2.0
// Data sets bound to layers by name.
#include "src/engine/data/data_binding.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/data/image_augmentation.h"
#include "src/data/stored_values.h"
#include "src/engine/data/data_names.h"
#include "src/engine/data/device_dataset.h"
#include "src/engine/data/listed_sets.h"
#include "src/engine/data/unit_feature_sets.h"
#include "src/engine/data/weighted_entries.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace norn {
namespace {

// The set that a layer names.
const ListedSet& choose(const std::vector<ListedSet>& all, const NetworkDescriptor& network,
                        std::size_t number, const std::string& where) {
  const LayerDescriptor& layer = network.layers[number];
  const ListedSet* best = find_set(all, layer.dataset, layer.kind == LayerKind::output);
  if (!best) {
    const std::vector<std::string> names = names_of_sets(all);
    throw DataError(
        problem_of(network, number, "DataSet", in_none_of_files(layer.dataset, names), where)
            .text());
  }
  return *best;
}

std::vector<std::size_t> layers_with_data(const NetworkDescriptor& network,
                                          DataBinding::Layers layers, const std::string& where) {
  std::vector<std::size_t> numbers;
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const LayerDescriptor& layer = network.layers[i];
    const bool input = layer.kind == LayerKind::input;
    const bool output = layer.kind == LayerKind::output;
    if (!input && !(output && layers == DataBinding::Layers::inputs_and_outputs)) continue;
    numbers.push_back(i);
    if (layer.dataset.empty())
      problems.push_back(problem_of(
          network, i, "",
          fmt::format("names no DataSet; an {} layer needs one", input ? "Input" : "Output"),
          where));
  }
  if (!problems.empty()) throw ProblemsError(std::move(problems));
  return numbers;
}

// What the units of a layer are once data have entered it.
LabelTable labels_of_layer(const ModelUnits* model, const NetworkDescriptor& network, int layer,
                           const LabelTable& features) {
  if (!model) return features;
  const LabelTable& units = model->labels.at(std::size_t(layer));
  if (units.known()) return units;
  const bool fits = features.size() == network.layers[std::size_t(layer)].units();
  return fits ? features : LabelTable();
}

using ChosenSets = std::vector<std::pair<int, const ListedSet*>>;  // by layer

// `"name" of FILE`, as the second one of a message.
std::string other_place(const DatasetInfo& info) {
  return info.file.empty() ? fmt::format("\"{}\"", info.name)
                           : fmt::format("\"{}\" of {}", info.name, info.file.string());
}

void require_same_count(const ChosenSets& chosen) {
  const DatasetInfo& first = chosen.front().second->info;
  for (const auto& [layer, set] : chosen)
    if (set->info.examples != first.examples)
      throw DataError(fmt::format(
          "{} has {} examples, but {} has {}; import both together so that they are aligned by "
          "example",
          place(set->info), set->info.examples, other_place(first), first.examples));
}

// Two sets of one catalogue that were imported apart: unit u of one is another feature in the
// other, so that nothing of an input is known to be in the targets.
void warn_of_other_index(const DatasetInfo& input, const DatasetInfo& target, const Log& log) {
  const LabelTable &known = input.unit_labels, &sought = target.unit_labels;
  if (!input.gives_sparse_batches() || !target.gives_sparse_batches() || input.own_units ||
      target.own_units || input.name == target.name || !known.has_words() || !sought.has_words() ||
      known.same_as(sought) || (known.are_numbers() && sought.are_numbers()))
    return;
  const Index shared = sought.size() - match_units(sought, known).unknown;
  if (2 * shared < std::min(known.size(), sought.size())) return;
  log.warning(fmt::format(
      "{}: {} of the {} features are also among those of {}, which numbers them otherwise: nothing "
      "that an example's input holds is taken for seen, or hidden to validate with; import both "
      "with one index (importer `input`, `target`, or `features`)",
      place(target), with_thousands(shared), with_thousands(sought.size()), place(input)));
}

// Memory that the contents take when they are held.
std::int64_t bytes_of_contents(const DatasetInfo& info) {
  if (!info.gives_sparse_batches())
    return info.unique_examples * info.width() * std::int64_t(sizeof(float));
  const std::int64_t entry =
      std::int64_t(sizeof(Column)) + (info.boolean ? 0 : std::int64_t(sizeof(float)));
  return info.entries * entry + (info.unique_examples + 1) * std::int64_t(sizeof(RowOffset));
}

}  // namespace

// Labels of one file that hold for several sets are read once, and not
// at all where all sets share them.
void require_same_examples(std::span<const DatasetInfo* const> sets) {
  const DatasetInfo* first = nullptr;
  std::vector<std::string> expected;
  std::set<std::pair<std::string, int>> compared;
  for (const DatasetInfo* each : sets) {
    const DatasetInfo& info = *each;
    if (info.label_set < 0) continue;
    if (!compared.emplace(info.file.string(), info.label_set).second) continue;
    if (!first) {
      first = &info;
      continue;
    }
    if (expected.empty()) expected = read_example_labels(*first);
    const std::vector<std::string> labels = read_example_labels(info);
    const auto [here, there] = std::ranges::mismatch(labels, expected);
    if (here == labels.end() || there == expected.end()) continue;
    throw DataError(fmt::format(
        "{}: example {} is \"{}\", but in {} it is \"{}\": examples pair by position, so "
        "the two are not aligned; import both together (importer `input`, `target`)",
        place(info), here - labels.begin(), *here, other_place(*first), *there));
  }
}

DataBinding::DataBinding(const NetworkDescriptor& network, const DataSources& sources,
                         Layers layers)
    : layers_(network.layers.size()), unit_labels_(layers_) {
  const std::vector<ListedSet> all = list_sets(sources);
  ChosenSets chosen;
  std::int64_t total = 0;  // of files: what stands in memory stays where it is
  for (const std::size_t layer : layers_with_data(network, layers, sources.where)) {
    const ListedSet& set = choose(all, network, layer, sources.where);
    chosen.emplace_back(int(layer), &set);
    if (!set.memory) total += bytes_of_contents(set.info);
  }
  require_same_count(chosen);
  std::vector<const DatasetInfo*> infos;
  for (const auto& [layer, set] : chosen) infos.push_back(&set->info);
  require_same_examples(infos);
  UnitMatcher matcher(network, sources.units);
  const Residency residency = total > sources.memory_bytes ? Residency::stream : Residency::memory;
  for (const auto& [layer, set] : chosen) {
    const LayerDescriptor& of = network.layers[std::size_t(layer)];
    const Role role = of.kind == LayerKind::input ? Role::input : Role::target;
    std::unique_ptr<Dataset> opened = set->memory ? matcher.open(*set->memory, role, layer)
                                                  : matcher.open(set->info, residency, role, layer);
    if (of.entry_weights.is_on() && opened->info().gives_sparse_batches())
      opened = weigh_entries(std::move(opened), of.entry_weights, of.name);
    bound_.push_back({layer, std::move(opened)});
    unit_labels_[std::size_t(layer)] =
        labels_of_layer(sources.units, network, layer, set->info.unit_labels);
    examples_ = set->info.examples;
  }
  take_feature_labels(network, sources.units, unit_labels_);
  matcher.report(sources.log);
  warn_of_other_indexes(network, sources.log);
  if (total <= sources.memory_bytes) held_bytes_ = total;
}

void DataBinding::warn_of_other_indexes(const NetworkDescriptor& network, const Log& log) const {
  const auto is_input = [&](const BoundSet& bound) {
    return network.layers[std::size_t(bound.layer)].kind == LayerKind::input;
  };
  for (const BoundSet& target : bound_)
    for (const BoundSet& input : bound_)
      if (is_input(input) && !is_input(target))
        warn_of_other_index(input.set->info(), target.set->info(), log);
}

ValidationData DataBinding::hold_out(const NetworkDescriptor& network, const HoldOutRule& rule,
                                     int layer) {
  std::vector<HoldOutSet> sets;
  std::size_t target = bound_.size();
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    const LayerKind kind = network.layers[std::size_t(bound_[i].layer)].kind;
    sets.push_back({bound_[i].set, kind == LayerKind::input});
    if (bound_[i].layer == layer) target = i;
  }
  require(target < sets.size(), "DataBinding::hold_out: the layer has no data set");
  const DatasetInfo& sought = sets[target].set->info();
  const auto is_alike = [&](const HoldOutSet& other) {
    return other.is_input && other.set->info().shares_units_with(sought);
  };
  constexpr const char* kInstead =
      "validate by user, or with data sets of their own (`validation_input`)";
  if (rule.by == HoldOutBy::entry && !sought.gives_sparse_batches())
    throw UsageError(fmt::format("{} is dense: it has no entries that could be hidden; {}",
                                 place(sought), kInstead));
  if (rule.by == HoldOutBy::entry && !std::any_of(sets.begin(), sets.end(), is_alike))
    throw UsageError(
        fmt::format("{} is {} units wide, and no sparse input has these units: entries that are "
                    "hidden must be hidden from an input, too; {}",
                    place(sought), sought.width(), kInstead));
  HeldOutViews views = norn::hold_out(rule, sets, target);
  ValidationData held_out;
  held_out.data.reset(new DataBinding());
  held_out.data->layers_ = layers_;
  held_out.data->unit_labels_ = unit_labels_;
  held_out.data->examples_ = views.validation.front()->info().examples;
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    bound_[i].set = std::move(views.training[i]);
    held_out.data->bound_.push_back({bound_[i].layer, std::move(views.validation[i])});
  }
  examples_ = bound_.front().set->info().examples;
  if (views.trained_targets) held_out.seen.push_back(std::move(views.trained_targets));
  held_out.unseen_only = true;
  return held_out;
}

std::vector<DatasetShape> DataBinding::shapes() const {
  std::vector<DatasetShape> shapes;
  for (const BoundSet& bound : bound_) {
    const DatasetInfo& info = bound.set->info();
    shapes.push_back({info.name, info.dimensions, info.extent, info.gives_sparse_batches()});
  }
  return shapes;
}

ModelUnits DataBinding::units(bool trust_index) const {
  ModelUnits units{unit_labels_, {}, trust_index, std::vector<Index>(layers_, 0)};
  for (const BoundSet& bound : bound_)
    units.widths[std::size_t(bound.layer)] = bound.set->info().width();
  return units;
}

void DataBinding::move_to(Memory& memory, const NetworkDescriptor& network) {
  for (BoundSet& bound : bound_)
    if (!augments(network, bound.set->info().name))
      bound.set = std::make_unique<DeviceDataset>(std::move(bound.set), memory);
}

BatchChange DataBinding::augmentation(const Graph& graph) const {
  std::vector<std::pair<std::size_t, ImageAugmentation>> all;  // and which set of a batch
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    const int number = bound_[i].layer;
    const LayerDescriptor& layer = graph.network.layers[std::size_t(number)];
    if (layer.kind != LayerKind::input || !layer.augment.is_on()) continue;
    ImageAugmentation& images = all.emplace_back(i, ImageAugmentation()).second;
    images.width = layer.extent[0];
    if (image_axes(graph, number) > 1) images.height = layer.extent[1];
    images.planes = layer.units() / (images.width * images.height);
    images.crop = {layer.augment.crop, images.height > 1 ? layer.augment.crop : 0};
    images.flip = layer.augment.flip;
    images.border = value_of_zero(bound_[i].set->info(), Role::input);
    images.random = Philox::stream(graph.network.training.seed, RandomPurpose::augmentation,
                                   std::uint32_t(number));
  }
  if (all.empty()) return {};
  return [all](LoadedBatch& batch) mutable {
    for (auto& [set, images] : all) images.apply(batch.epoch, batch.sets[set]);
  };
}

std::vector<Dataset*> DataBinding::sets() const {
  std::vector<Dataset*> sets;
  for (const BoundSet& bound : bound_) sets.push_back(bound.set.get());
  return sets;
}

std::vector<BatchSource> DataBinding::sources() const {
  std::vector<BatchSource> sources;
  for (const BoundSet& bound : bound_) sources.emplace_back(bound.set.get());
  return sources;
}

std::vector<BatchSource> DataBinding::sources_for(const Network& network) const {
  std::vector<BatchSource> sources;
  for (const BoundSet& bound : bound_)
    sources.emplace_back(bound.set.get(), network.examples_read(bound.layer));
  return sources;
}

Dataset& DataBinding::set_of(int layer) const {
  const auto found = std::find_if(bound_.begin(), bound_.end(),
                                  [&](const BoundSet& bound) { return bound.layer == layer; });
  require(found != bound_.end(), "DataBinding::set_of: the layer has no data set");
  return *found->set;
}

BoundBatch DataBinding::bind(const LoadedBatch& batch) const {
  BoundBatch bound;
  bound.of_layer.assign(layers_, nullptr);
  bound.ignore_absent.assign(layers_, false);
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    const auto layer = std::size_t(bound_[i].layer);
    bound.of_layer[layer] = &batch.sets[i];
    bound.ignore_absent[layer] = bound_[i].set->info().sparse_ignore_zero;
  }
  bound.examples = Index(batch.example.size());
  return bound;
}

std::vector<std::string> DataBinding::example_labels() const {
  for (const BoundSet& bound : bound_) {
    std::vector<std::string> labels = read_example_labels(bound.set->info());
    if (!labels.empty()) return labels;
  }
  return {};
}

}  // namespace norn
