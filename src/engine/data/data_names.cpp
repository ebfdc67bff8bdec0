// SPDX-License-Identifier: Apache-2.0
// Data sets found by what they are for.
#include "src/engine/data/data_names.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/engine/data/listed_sets.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace norn {
namespace {

constexpr std::string_view kInputEnding = "_input";
constexpr std::string_view kOutputEnding = "_output";

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// NAME of the one pair NAME_input, NAME_output, neither of which holds features of units.
std::string name_of_pair(const std::vector<std::string>& names,
                         const std::vector<std::string>& features) {
  std::vector<std::string> pairs;
  for (const std::string& name : names) {
    if (!name.ends_with(kInputEnding)) continue;
    std::string stem = name.substr(0, name.size() - kInputEnding.size());
    const std::string output = stem + std::string(kOutputEnding);
    if (has(names, output) && !has(features, name) && !has(features, output))
      pairs.push_back(std::move(stem));
  }
  if (pairs.size() == 1) {
    // A descriptor would keep another name, which no data set has.
    if (valid_utf8(pairs.front()) == pairs.front()) return pairs.front();
    throw DataError(fmt::format(
        "the name of the data sets \"{0}_input\" and \"{0}_output\" is not UTF-8, as that "
        "of a descriptor is; write them again with another one",
        pairs.front()));
  }
  for (const std::string& name : features)
    if (!name.empty() && !has(names, name))
      throw DataError(in_none_of_files(name, names, ", which has features of items,"));
  const std::string what =
      pairs.empty() ? "they hold no NAME_input with a NAME_output"
                    : fmt::format("they hold {} pairs of NAME_input and NAME_output", pairs.size());
  throw DataError(fmt::format(
      "\"DataSet\": \"auto\" does not tell which data sets are meant: {}; name the data "
      "sets in the descriptor, or give files with one pair. They hold: {}",
      what, join(names)));
}

bool is_auto(const LayerDescriptor& layer, const std::vector<std::string>& names) {
  return layer.dataset == kAutoDataset && !has(names, kAutoDataset);
}

}  // namespace

std::string in_none_of_files(const std::string& name, const std::vector<std::string>& held,
                             std::string_view what_for) {
  // A set by the name that importer was given is its input: features of items are.
  const std::string input = name + std::string(kInputEnding);
  const std::string hint = has(held, input) ? fmt::format("; did you mean \"{}\"?", input)
                                            : did_you_mean(name, held, ".");
  return fmt::format("data set \"{}\"{} is in none of the files{} They hold: {}", name, what_for,
                     hint, join(held));
}

std::vector<ListedSet> list_sets(const DataSources& sources) {
  std::vector<ListedSet> all;
  std::vector<std::filesystem::path> seen;
  const auto add = [&](const std::vector<std::filesystem::path>& files, bool from_outputs) {
    for (const auto& file : files) {
      if (std::find(seen.begin(), seen.end(), file) != seen.end()) continue;
      seen.push_back(file);
      for (DatasetInfo& info : list_datasets(file)) all.push_back({std::move(info), from_outputs});
    }
  };
  for (const MemorySet& set : sources.sets) all.push_back({describe(set), false, &set});
  add(sources.input_files, false);
  add(sources.output_files, true);
  return all;
}

std::vector<std::string> names_of_sets(const std::vector<ListedSet>& sets) {
  std::vector<std::string> names;
  for (const ListedSet& set : sets)
    if (!has(names, set.info.name)) names.push_back(set.info.name);
  return names;
}

const ListedSet* find_set(const std::vector<ListedSet>& sets, const std::string& name,
                          bool for_output) {
  const ListedSet* best = nullptr;
  for (const ListedSet& set : sets) {
    if (set.info.name != name) continue;
    if (set.memory) return &set;
    if (!best || set.from_outputs == for_output) best = &set;
  }
  return best;
}

void name_data_sets(NetworkDescriptor& network, const DataSources& sources) {
  const auto says_auto = [](const LayerDescriptor& layer) { return layer.dataset == kAutoDataset; };
  if (std::none_of(network.layers.begin(), network.layers.end(), says_auto)) return;
  const std::vector<std::string> names = names_of_sets(list_sets(sources));
  std::vector<std::string> features = sources.features;
  for (const LayerDescriptor& layer : network.layers) features.push_back(layer.features);
  for (LayerDescriptor& layer : network.layers)
    if (is_auto(layer, names))
      layer.dataset = name_of_pair(names, features) +
                      std::string(layer.kind == LayerKind::input ? kInputEnding : kOutputEnding);
}

RecipeFacts recipe_facts(const std::string& dataset, const DataSources& sources) {
  const std::vector<ListedSet> sets = list_sets(sources);
  const std::vector<std::string> names = names_of_sets(sets);
  const bool by_role = dataset == kAutoDataset && !has(names, dataset);
  const std::string name =
      by_role ? name_of_pair(names, sources.features) + std::string(kOutputEnding) : dataset;
  const ListedSet* set = find_set(sets, name, true);
  if (!set) throw DataError(in_none_of_files(name, names, ", which a recipe is to be made for,"));
  const DatasetInfo& info = set->info;
  if (!info.gives_sparse_batches())
    throw UsageError(
        fmt::format("{} is dense, and recipes are for sparse ones; write a descriptor for it "
                    "(docs/user/descriptor.md)",
                    place(info)));
  // Examples may share rows, of which entries are counted once.
  const double each = double(info.entries) / double(std::max<Index>(1, info.unique_examples));
  return {info.examples, info.width(),
          info.sparse ? std::int64_t(std::llround(each * double(info.examples)))
                      : std::int64_t(info.examples)};
}

}  // namespace norn
