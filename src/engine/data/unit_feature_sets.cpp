// SPDX-License-Identifier: Apache-2.0
// Features of units, from data sets to tables.
#include "src/engine/data/unit_feature_sets.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/data/stored_values.h"
#include "src/engine/data/data_names.h"
#include "src/engine/data/listed_sets.h"
#include "src/nn/graph.h"
#include "src/nn/naming.h"
#include "src/nn/unit_features.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

namespace norn {
namespace {

using FeatureRow = std::vector<std::pair<Column, float>>;

// "12 (such as "a", "b" and "c")"
std::string named(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown;
  for (const std::string& name : names)
    if (shown.size() < kShown) shown.push_back(fmt::format("\"{}\"", name));
  return fmt::format("{} ({}{})", with_thousands(Index(names.size())),
                     names.size() > kShown ? "such as " : "", join(shown));
}

std::vector<std::string> words_of(const LabelTable& labels) {
  std::vector<std::string> words;
  if (!labels.known() || !labels.has_words()) return words;
  const LabelList list = labels.list();
  for (Index i = 0; i < list.size(); ++i) words.emplace_back(list[i]);
  return words;
}

std::vector<FeatureRow> read_rows(const ListedSet& set) {
  const std::unique_ptr<Dataset> opened =
      set.memory ? open_memory_set(*set.memory, Role::input)
                 : open_dataset(set.info, Residency::memory, Role::input);
  std::vector<Index> all(std::size_t(set.info.examples));
  std::iota(all.begin(), all.end(), Index(0));
  HostBatch batch;
  opened->gather(all, batch);
  std::vector<FeatureRow> rows(all.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!batch.is_sparse) {
      for (Index c = 0; c < batch.matrix().cols; ++c)
        if (const float value = batch.matrix()(Index(r), c); value != 0.0f)
          rows[r].emplace_back(Column(c), value);
      continue;
    }
    const CsrView csr = batch.csr();
    FeatureRow entries;
    for (RowOffset i = csr.row_begin[r]; i < csr.row_begin[r + 1]; ++i)
      entries.emplace_back(csr.column[i], csr.value ? csr.value[i] : 1.0f);
    std::ranges::stable_sort(entries, {}, &FeatureRow::value_type::first);
    for (const auto& [column, value] : entries) {
      if (!rows[r].empty() && rows[r].back().first == column)
        rows[r].back().second += value;
      else if (value != 0.0f)
        rows[r].emplace_back(column, value);
    }
  }
  return rows;
}

// By feature that some unit has: the root mean square of its values.
std::vector<std::pair<Column, double>> sizes_of(const FeatureTable& table) {
  std::vector<double> squares(std::size_t(table.features), 0.0);
  std::vector<Index> entries(std::size_t(table.features), 0);
  for (std::size_t i = 0; i < table.value.size(); ++i) {
    const auto feature = std::size_t(table.column[i]);
    squares[feature] += double(table.value[i]) * double(table.value[i]);
    ++entries[feature];
  }
  std::vector<std::pair<Column, double>> sizes;
  for (std::size_t feature = 0; feature < squares.size(); ++feature)
    if (entries[feature] > 0)
      sizes.emplace_back(Column(feature), std::sqrt(squares[feature] / double(entries[feature])));
  return sizes;
}

// Features of which the values are more than kTooLarge times those of the others, by the median of
// these: largest first, and what that is for the first. Training with such a feature learns little
// of the others: docs/user/item_features.md has the measurement.
constexpr double kTooLarge = 100.0;

struct Outsized {
  std::vector<Column> features;
  double size = 0.0, of_others = 0.0;
};

Outsized outsized_features(const FeatureTable& table) {
  std::vector<std::pair<Column, double>> sizes = sizes_of(table);
  Outsized found;
  if (sizes.size() < 2) return found;
  std::ranges::stable_sort(sizes, std::greater<>(), &std::pair<Column, double>::second);
  // The others of a large one are all but it: their middle is one behind, of two the smaller one.
  found.size = sizes.front().second;
  found.of_others = sizes[(sizes.size() + 1) / 2].second;
  for (const auto& [feature, size] : sizes)
    if (size > kTooLarge * found.of_others) found.features.push_back(feature);
  return found;
}

/// Rows of a set on their way to the units of a layer.
class Matching {
 public:
  Matching(const ListedSet& set, const std::vector<std::string>& units, Index count)
      : set_(set), units_(units), rows_(std::size_t(count)), given_(std::size_t(count), false) {}

  void match() {
    std::vector<std::string> labels;
    if (!set_.memory && set_.info.label_set >= 0) labels = read_example_labels(set_.info);
    std::vector<FeatureRow> rows = read_rows(set_);
    const bool by_label = !labels.empty() && !units_.empty();
    if (!by_label && rows.size() > rows_.size())
      throw DataError(
          fmt::format("{} has {} rows, but the layer has {} units, and there are no "
                      "labels to match them by; give a row for each unit",
                      place(set_.info), rows.size(), rows_.size()));
    std::unordered_map<std::string_view, std::size_t> numbers;
    for (std::size_t u = 0; by_label && u < units_.size(); ++u) numbers.emplace(units_[u], u);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::size_t unit = r;
      if (by_label) {
        const auto found = numbers.find(labels[r]);
        if (found == numbers.end() || found->second >= rows_.size()) {
          unknown_.push_back(labels[r]);
          continue;
        }
        unit = found->second;
      }
      if (rows[r].empty()) empty_.push_back(name_of(unit));
      given_[unit] = true;
      rows_[unit] = std::move(rows[r]);
    }
  }

  FeatureTable table() const {
    FeatureTable table;
    table.features = set_.info.width();
    table.labels = words_of(set_.info.unit_labels);
    bool valued = false;
    for (const FeatureRow& row : rows_)
      for (const auto& [column, value] : row) valued = valued || value != 1.0f;
    for (const FeatureRow& row : rows_) {
      for (const auto& [column, value] : row) {
        table.column.push_back(column);
        if (valued) table.value.push_back(value);
      }
      table.row_begin.push_back(RowOffset(table.column.size()));
    }
    if (table.entries() == 0)
      throw DataError(
          fmt::format("{}: none of its rows is of a unit of the layer and has entries; "
                      "rows are units, by the labels of the targets' features",
                      place(set_.info)));
    return table;
  }

  void tell(const FeatureTable& table, const LayerDescriptor& layer, const Log& log) const {
    const Index with = std::count_if(rows_.begin(), rows_.end(),
                                     [](const FeatureRow& row) { return !row.empty(); });
    log.info(fmt::format("layer \"{}\": {} features, {:.1f} of them a unit, of {} of {} units",
                         layer.name, with_thousands(table.features),
                         double(table.entries()) / double(with), with_thousands(with),
                         with_thousands(Index(rows_.size()))));
    if (!unknown_.empty())
      log.warning(fmt::format("{}: {} of its rows are of no unit of layer \"{}\", and left out",
                              place(set_.info), named(unknown_), layer.name));
    std::vector<std::string> missing;
    for (std::size_t u = 0; u < rows_.size(); ++u)
      if (!given_[u]) missing.push_back(name_of(u));
    if (!missing.empty())
      log.warning(fmt::format("{}: {} units of layer \"{}\" have no row there, and no features",
                              place(set_.info), named(missing), layer.name));
    if (!empty_.empty())
      log.warning(
          fmt::format("{}: {} of its rows have no entries", place(set_.info), named(empty_)));
    tell_of_outsized(table, log);
  }

 private:
  void tell_of_outsized(const FeatureTable& table, const Log& log) const {
    const Outsized large = outsized_features(table);
    if (large.features.empty()) return;
    std::vector<std::string> names;
    for (const Column feature : large.features)
      names.push_back(feature < table.labels.size() ? table.labels[feature]
                                                    : std::to_string(feature));
    log.warning(fmt::format(
        "{}: {} of its features have values more than {:g} times as large as others' (root mean "
        "square {:.4g}, and {:.4g}), which training may learn little beside; scale them to the "
        "others' size, or cut them into ranges, each a feature",
        place(set_.info), named(names), kTooLarge, large.size, large.of_others));
  }

  std::string name_of(std::size_t unit) const {
    return unit < units_.size() ? units_[unit] : std::to_string(unit);
  }

  const ListedSet& set_;
  const std::vector<std::string>& units_;
  std::vector<FeatureRow> rows_;  // by unit
  std::vector<bool> given_;       // by unit
  std::vector<std::string> unknown_;
  std::vector<std::string> empty_;
};

void attach(NetworkDescriptor& network, std::size_t number, const std::vector<ListedSet>& sets,
            const DataSources& sources) {
  const LayerDescriptor& layer = network.layers[number];
  const ListedSet* set = find_set(sets, layer.features, true);
  const std::vector<std::string> names = names_of_sets(sets);
  if (!set)
    throw DataError(problem_of(network, number, "Features",
                               "Features: " + in_none_of_files(layer.features, names),
                               sources.where)
                        .text());
  const ListedSet* target = find_set(sets, layer.dataset, true);
  LabelTable labels;
  if (sources.units) labels = sources.units->labels.at(number);
  if (!labels.known() && target) labels = target->info.unit_labels;
  Index units = layer.units();
  if (layer.auto_size && target) units = target->info.width();
  const std::vector<std::string> words = words_of(labels);
  Matching matching(*set, words, units);
  matching.match();
  auto table = std::make_shared<FeatureTable>(matching.table());
  matching.tell(*table, layer, sources.log);
  add_features(network, number, std::move(table));
}

}  // namespace

void attach_features(NetworkDescriptor& network, const DataSources& sources) {
  const auto wants = [](const LayerDescriptor& layer) {
    return layer.kind == LayerKind::output && !layer.features.empty() && !layer.feature_table;
  };
  if (std::ranges::none_of(network.layers, wants)) return;
  fill_names_and_sources(network);
  const std::vector<ListedSet> sets = list_sets(sources);
  for (std::size_t i = 0; i < network.layers.size(); ++i)
    if (wants(network.layers[i])) attach(network, i, sets, sources);
}

void take_feature_labels(const NetworkDescriptor& network, const ModelUnits* model,
                         std::vector<LabelTable>& unit_labels) {
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const LayerDescriptor* output = has_features_from(network, network.layers[i]);
    if (!output) continue;
    if (model && i < model->labels.size()) unit_labels[i] = model->labels[i];
    if (unit_labels[i].known() || !output->feature_table || output->feature_table->labels.empty())
      continue;
    LabelIndex index;
    for (const std::string& label : output->feature_table->labels) index.add(label);
    unit_labels[i] = LabelTable::of(index);
  }
}

}  // namespace norn
