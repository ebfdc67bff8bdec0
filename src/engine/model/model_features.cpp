// SPDX-License-Identifier: Apache-2.0
// Features of units, in and out of model files.
#include "src/engine/model/model_features.h"

#include "norn/base/error.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace norn {
namespace {

std::string item_of(std::size_t layer, const char* what) {
  return fmt::format("layer{}_feature{}", layer, what);
}

// Row offsets and columns as float64, in which whole numbers up to 2^53 are exact.
std::vector<double> as_doubles(const auto& numbers) {
  return {numbers.begin(), numbers.end()};
}

class TableReader {
 public:
  TableReader(const TensorFileReader& file, std::size_t layer, Index units, Index features)
      : file_(file), layer_(layer), units_(units), features_(features) {}

  FeatureTable read() const {
    FeatureTable table;
    table.features = features_;
    read_rows(table);
    read_columns(table);
    const std::string item = item_of(layer_, "Value");
    if (!file_.has_variable(item)) return table;
    if (file_.size(item) != table.entries()) fail(item);
    table.value.resize(std::size_t(table.entries()));
    file_.read(item, 0, std::span(table.value));
    for (const float value : table.value)
      if (!std::isfinite(value)) fail(item);
    return table;
  }

 private:
  [[noreturn]] void fail(const std::string& item) const {
    throw DataError(
        fmt::format("{}: \"{}\" does not hold the features of a layer of {} units; the "
                    "file is damaged, use an older copy of it",
                    file_.path().string(), item, units_));
  }

  // Whole numbers from 0 to `most`.
  std::vector<double> numbers(const std::string& item, double most) const {
    if (!file_.has_variable(item)) fail(item);
    std::vector<double> values(std::size_t(file_.size(item)));
    file_.read(item, 0, std::span(values));
    for (const double value : values)
      if (!(value >= 0.0 && value <= most) || value != std::floor(value)) fail(item);
    return values;
  }

  void read_rows(FeatureTable& table) const {
    const std::string item = item_of(layer_, "Start");
    const std::vector<double> starts = numbers(item, 0x1p53);
    if (starts.empty() || Index(starts.size()) > units_ + 1 || starts[0] != 0.0) fail(item);
    table.row_begin.clear();
    for (const double start : starts) {
      if (!table.row_begin.empty() && RowOffset(start) < table.row_begin.back()) fail(item);
      table.row_begin.push_back(RowOffset(start));
    }
  }

  void read_columns(FeatureTable& table) const {
    const std::string item = item_of(layer_, "Column");
    const std::vector<double> columns = numbers(item, double(features_ - 1));
    if (RowOffset(columns.size()) != table.entries()) fail(item);
    table.column.assign(columns.begin(), columns.end());
    for (Index row = 0; row < table.rows(); ++row)
      for (auto i = std::size_t(table.before(row)) + 1; i < std::size_t(table.before(row + 1)); ++i)
        if (table.column[i] <= table.column[i - 1]) fail(item);
  }

  const TensorFileReader& file_;
  std::size_t layer_;
  Index units_;
  Index features_;
};

}  // namespace

void define_features(TensorFileWriter& file, const NetworkDescriptor& network) {
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const auto& table = network.layers[i].feature_table;
    if (!table) continue;
    const std::string entries = item_of(i, "Entries");
    file.define_double(item_of(i, "Start"), item_of(i, "Rows"), table->rows() + 1);
    file.define_double(item_of(i, "Column"), entries, table->entries());
    if (!table->value.empty()) file.define_float(item_of(i, "Value"), entries, table->entries());
  }
}

void write_features(
    const NetworkDescriptor& network,
    const std::function<void(const std::string& item, Index first, ConstValues values)>& take) {
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const auto& table = network.layers[i].feature_table;
    if (!table) continue;
    const std::vector<double> starts = as_doubles(table->row_begin);
    const std::vector<double> columns = as_doubles(table->column);
    take(item_of(i, "Start"), 0, std::span<const double>(starts));
    take(item_of(i, "Column"), 0, std::span<const double>(columns));
    if (!table->value.empty()) take(item_of(i, "Value"), 0, std::span<const float>(table->value));
  }
}

void read_features(const TensorFileReader& file, NetworkDescriptor& network) {
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    LayerDescriptor& layer = network.layers[i];
    if (layer.features.empty()) continue;
    const LayerDescriptor* learnt = network.find(layer.feature_layer());
    if (!learnt)
      throw DataError(fmt::format("{}: the layer \"{}\" is missing; the file is damaged",
                                  file.path().string(), layer.feature_layer()));
    layer.feature_table = std::make_shared<const FeatureTable>(
        TableReader(file, i, layer.units(), learnt->units()).read());
  }
}

}  // namespace norn
