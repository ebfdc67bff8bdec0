// SPDX-License-Identifier: Apache-2.0
// Labels of units, in and out of model files.
#include "src/engine/model/model_labels.h"

#include "norn/base/error.h"
#include "src/data/label_check.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
namespace {

std::string layer_item(std::size_t layer) {
  return fmt::format("layer{}_labels", layer);
}

std::string variable_of(std::size_t table) {
  return fmt::format("labels{}", table);
}

// Each table once, in the order of the layers; with the numbers of the tables by layer.
struct Tables {
  std::vector<LabelTable> different;
  std::vector<int> of_layer;  // -1: unknown
  explicit Tables(const std::vector<LabelTable>& labels) {
    for (const LabelTable& table : labels) of_layer.push_back(table.known() ? place(table) : -1);
  }

 private:
  int place(const LabelTable& table) {
    for (std::size_t t = 0; t < different.size(); ++t)
      if (different[t].same_as(table)) return int(t);
    different.push_back(table);
    return int(different.size()) - 1;
  }
};

[[noreturn]] void fail(const TensorFileReader& file, const std::string& problem) {
  throw DataError(fmt::format("{}: {}; the file is damaged, use an older copy of it",
                              file.path().string(), problem));
}

// The most weights of any edge; no layer of the file has more units.
Index most_weights(const TensorFileReader& file) {
  Index most = 0;
  const std::int64_t edges = file.integer_or("weights", 0);
  for (std::int64_t edge = 0; edge < edges; ++edge) {
    const std::string weights = fmt::format("weight{}_weights", edge);
    if (file.has_variable(weights)) most = std::max(most, file.size(weights));
  }
  return most;
}

LabelTable read_table(const TensorFileReader& file, std::size_t number) {
  const std::string variable = variable_of(number);
  LabelTable::Stored stored;
  stored.count = file.integer(variable + "_count");
  if (stored.count < 0) fail(file, fmt::format("attribute {}_count is {}", variable, stored.count));
  stored.sha256 = file.text_or(variable + "_digest", "");
  // Numbers need no memory in the file, and as much here as there are.
  if (stored.sha256.empty() && stored.count > most_weights(file))
    fail(file,
         fmt::format("attribute {}_count is {}, more than it has weights", variable, stored.count));
  if (file.has_variable(variable)) {
    stored.line_bytes = file.integer(variable + "_lineBytes");
    stored.packed = file.read_bytes(variable);
  }
  LabelTable table(std::move(stored), file.path().string());
  if (!file.is_sealed()) check_labels(table, file.path().string());
  return table;
}

}  // namespace

std::vector<LabelTable> read_unit_labels(const TensorFileReader& file,
                                         const NetworkDescriptor& network) {
  std::vector<LabelTable> tables;
  for (std::size_t t = 0; file.has_attribute(variable_of(t) + "_count"); ++t)
    tables.push_back(read_table(file, t));
  std::vector<LabelTable> of_layer(network.layers.size());
  for (std::size_t i = 0; i < of_layer.size(); ++i) {
    if (!file.has_attribute(layer_item(i))) continue;
    const std::int64_t number = file.integer(layer_item(i));
    if (number < 0 || std::size_t(number) >= tables.size())
      fail(file, fmt::format("attribute {} is {}, but there are {} lists of labels", layer_item(i),
                             number, tables.size()));
    of_layer[i] = tables[std::size_t(number)];
    const Index units = network.layers[i].units();
    if (of_layer[i].size() > units)
      fail(file, fmt::format("it has {} labels of the {} units of layer \"{}\"", of_layer[i].size(),
                             units, network.layers[i].name));
  }
  return of_layer;
}

void define_unit_labels(TensorFileWriter& file, const std::vector<LabelTable>& of_layer) {
  const Tables tables(of_layer);
  for (std::size_t i = 0; i < of_layer.size(); ++i)
    if (tables.of_layer[i] >= 0) file.attribute(layer_item(i), std::int32_t(tables.of_layer[i]));
  for (std::size_t t = 0; t < tables.different.size(); ++t) {
    const LabelTable& table = tables.different[t];
    const std::string variable = variable_of(t);
    file.attribute(variable + "_count", std::int64_t(table.size()));
    if (table.are_numbers()) continue;
    file.attribute(variable + "_digest", table.stored().sha256);
    if (!table.has_words()) continue;
    file.attribute(variable + "_lineBytes", table.stored().line_bytes);
    file.define_bytes(variable, variable + "_dim", Index(table.stored().packed.size()));
  }
}

void write_unit_labels(TensorFileWriter& file, const std::vector<LabelTable>& of_layer) {
  const Tables tables(of_layer);
  for (std::size_t t = 0; t < tables.different.size(); ++t) {
    const std::vector<char>& packed = tables.different[t].stored().packed;
    if (!packed.empty())
      file.write(variable_of(t), 0,
                 std::span(reinterpret_cast<const std::uint8_t*>(packed.data()), packed.size()));
  }
}

}  // namespace norn
