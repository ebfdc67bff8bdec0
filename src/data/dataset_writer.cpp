// SPDX-License-Identifier: Apache-2.0
// Files of data sets, written in one pass.

#include "src/data/dataset_writer.h"

#include "dataset_items.h"
#include "norn/base/error.h"
#include "row_parser.h"
#include "src/base/atomic_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

/// A set that is being written: how much of each part is there.
struct Progress {
  DatasetInfo info;
  Index rows = 0;
  Index entries = 0;
  Index values = 0;
  Index indexed = 0;
  Index weights = 0;
  Index labels = 0;
  Index label_bytes = 0;
};

std::uint32_t bits_of(const DatasetInfo& info) {
  std::uint32_t bits = 0;
  if (info.sparse) bits |= kSparseBit;
  if (info.boolean) bits |= kBooleanBit;
  if (info.sparse_ignore_zero) bits |= kIgnoreZeroBit;
  if (info.indexed) bits |= kIndexedBit;
  if (info.weighted) bits |= kWeightedBit;
  return bits;
}

void check_definition(const DatasetInfo& info) {
  const auto need = [&](bool holds, const std::string& problem) {
    if (!holds) throw ShapeError(fmt::format("DatasetWriter: {}: {}", place(info), problem));
  };
  constexpr Index kMostRows = std::numeric_limits<Column>::max();
  need(info.dimensions >= 1 && info.dimensions <= 3,
       fmt::format("it has {} dimensions, expected 1 to 3", info.dimensions));
  need(info.width() >= 1, fmt::format("its width is {}, expected at least 1", info.width()));
  need(info.examples >= 1 && info.unique_examples >= 1, "it has no examples");
  need(info.indexed || info.examples == info.unique_examples,
       fmt::format("it stores {} rows for {} examples, but only an Indexed set shares rows",
                   info.unique_examples, info.examples));
  need(!info.indexed || info.unique_examples <= kMostRows,
       fmt::format("it stores {} rows, but an index of 32 bits counts to {}", info.unique_examples,
                   kMostRows));
  need(info.unit_labels.size() <= info.width(), "it has labels of more features than it is wide");
}

}  // namespace

struct DatasetWriter::State {
  AtomicFile place;
  NetcdfFile file;
  std::vector<Progress> sets;
  std::vector<int> written_labels;  // sets that hold labels of units
  bool finished = false;

  State(const std::filesystem::path& path, std::vector<DatasetInfo> infos)
      : place(path), file(place.temporary(), NetcdfFile::Mode::create, path) {
    int number = 0;
    for (DatasetInfo& info : infos) {
      info.file = path;
      info.number = number++;
      sets.push_back({});
      sets.back().info = std::move(info);
    }
  }

  Progress& set(int number) {
    require(number >= 0 && number < int(sets.size()), "DatasetWriter: no such set");
    return sets[std::size_t(number)];
  }

  void define(const DatasetInfo& info) {
    const int n = info.number;
    const auto attribute = [&](const char* name, Index value) {
      file.set_attribute(item(name, n), std::uint32_t(value));
    };
    file.set_attribute(item("name", n), info.name);
    attribute("attributes", bits_of(info));
    attribute("kind", info.kind);
    attribute("dataType", Index(info.type));
    attribute("dimensions", info.dimensions);
    constexpr std::array<const char*, 3> kExtents = {"width", "height", "length"};
    for (int axis = 0; axis < info.dimensions; ++axis) attribute(kExtents[axis], info.extent[axis]);
    file.define_dimension(item("examplesDim", n), info.examples);
    if (info.indexed) file.define_dimension(item("uniqueExamplesDim", n), info.unique_examples);
    const char* const rows = info.indexed ? "uniqueExamplesDim" : "examplesDim";
    const auto variable = [&](const char* name, StoredType type, const char* dimension) {
      file.define_variable(item(name, n), type, item(dimension, n));
    };
    if (info.sparse) {
      file.define_dimension(item("sparseDataDim", n), std::max<Index>(1, info.entries));
      variable("sparseStart", StoredType::uint64, rows);
      variable("sparseEnd", StoredType::uint64, rows);
      variable("sparseIndex", StoredType::uint32, "sparseDataDim");
      if (!info.boolean) variable("sparseData", stored_type(info.type), "sparseDataDim");
    } else {
      file.define_dimension(item("dataDim", n),
                            info.unique_examples * (info.boolean ? 1 : info.width()));
      variable("data", info.boolean ? StoredType::uint32 : stored_type(info.type), "dataDim");
    }
    if (info.indexed) variable("index", StoredType::uint32, "examplesDim");
    if (info.weighted) variable("dataWeight", StoredType::float32, "examplesDim");
    if (info.own_units) attribute("ownUnits", 1);
    if (info.label_bytes > 0) {
      file.define_dimension(item("exampleLabelBytesDim", n), info.label_bytes);
      variable("exampleLabels", StoredType::text, "exampleLabelBytesDim");
      variable("exampleLabelEnd", StoredType::uint64, "examplesDim");
    } else if (info.label_set >= 0 && info.label_set != n) {
      attribute("exampleLabelsOf", info.label_set);
    }
    if (info.unit_labels.known()) define_unit_labels(info);
  }

  /// Sets that have the same labels keep them once.
  void define_unit_labels(const DatasetInfo& info) {
    const int n = info.number;
    for (const Progress& earlier : sets) {
      if (earlier.info.number >= n || !earlier.info.unit_labels.same_as(info.unit_labels)) continue;
      return file.set_attribute(item("featureLabelsOf", n), std::uint32_t(earlier.info.number));
    }
    const LabelTable::Stored& labels = info.unit_labels.stored();
    file.set_attribute(item("featureLabelCount", n), std::uint64_t(labels.count));
    if (info.unit_labels.are_numbers())
      return file.set_attribute(item("featureLabelsAreNumbers", n), std::uint32_t(1));
    file.set_attribute(item("featureLabelDigest", n), labels.sha256);
    if (!info.unit_labels.has_words()) return;
    file.set_attribute(item("featureLabelLineBytes", n), std::uint64_t(labels.line_bytes));
    file.define_dimension(item("featureLabelBytesDim", n), Index(labels.packed.size()));
    file.define_variable(item("featureLabels", n), StoredType::uint8,
                         item("featureLabelBytesDim", n));
    written_labels.push_back(n);
  }

  /// A dimension of NetCDF has no length of 0: a set without entries has one of no row.
  void write_lone_entries() {
    for (const Progress& set : sets) {
      if (!set.info.sparse || set.info.entries > 0) continue;
      constexpr std::array<Column, 1> kColumn = {0};
      constexpr std::array<float, 1> kValue = {0};
      file.write(item("sparseIndex", set.info.number), 0, std::span<const Column>(kColumn));
      if (!set.info.boolean)
        file.write(item("sparseData", set.info.number), 0, std::span<const float>(kValue));
    }
  }

  void write_unit_labels() {
    for (const int n : written_labels) {
      const std::vector<char>& packed = sets[std::size_t(n)].info.unit_labels.stored().packed;
      file.write(item("featureLabels", n), 0,
                 std::span(reinterpret_cast<const std::uint8_t*>(packed.data()), packed.size()));
    }
  }
};

DatasetWriter::DatasetWriter(const std::filesystem::path& path, std::vector<DatasetInfo> sets) {
  require(!sets.empty(), "DatasetWriter: a file needs at least one data set");
  for (const DatasetInfo& info : sets) check_definition(info);
  state_ = std::make_unique<State>(path, std::move(sets));
  state_->file.set_attribute("datasets", std::uint32_t(state_->sets.size()));
  for (const Progress& set : state_->sets) state_->define(set.info);
  state_->write_unit_labels();
}

DatasetWriter::~DatasetWriter() = default;

void DatasetWriter::append_rows(int set, std::span<const Index> row_sizes,
                                std::span<const Column> columns, std::span<const float> values) {
  Progress& at = state_->set(set);
  require(at.info.sparse, "DatasetWriter: append_rows is for sparse sets");
  require(values.size() == (at.info.boolean ? 0 : columns.size()),
          "DatasetWriter: a valued set needs one value an entry, a boolean one none");
  std::vector<Index> begin, end;
  Index position = at.entries;
  for (const Index size : row_sizes) {
    begin.push_back(position);
    end.push_back(position += size);
  }
  require(position == at.entries + Index(columns.size()),
          "DatasetWriter: row sizes do not add up to the number of entries");
  require(
      at.rows + Index(row_sizes.size()) <= at.info.unique_examples && position <= at.info.entries,
      "DatasetWriter: more rows or entries than were announced");
  for (const Column column : columns) {
    require(Index(column) < at.info.width(), "DatasetWriter: a column lies beyond the width");
  }
  const int n = at.info.number;
  state_->file.write(item("sparseStart", n), at.rows, std::span<const Index>(begin));
  state_->file.write(item("sparseEnd", n), at.rows, std::span<const Index>(end));
  state_->file.write(item("sparseIndex", n), at.entries, columns);
  state_->file.write(item("sparseData", n), at.entries, values);
  at.rows += Index(row_sizes.size());
  at.entries = position;
}

template <typename T>
void DatasetWriter::append_dense(int set, std::span<const T> values) {
  Progress& at = state_->set(set);
  require(!at.info.sparse && !at.info.boolean, "DatasetWriter: append_values is for dense sets");
  require(at.values + Index(values.size()) <= at.info.unique_examples * at.info.width(),
          "DatasetWriter: more values than were announced");
  state_->file.write(item("data", at.info.number), at.values, values);
  at.values += Index(values.size());
}

void DatasetWriter::append_values(int set, std::span<const float> values) {
  append_dense(set, values);
}

void DatasetWriter::append_values(int set, std::span<const std::uint8_t> values) {
  append_dense(set, values);
}

void DatasetWriter::append_classes(int set, std::span<const Column> classes) {
  Progress& at = state_->set(set);
  require(!at.info.sparse && at.info.boolean, "DatasetWriter: append_classes is for class labels");
  require(at.values + Index(classes.size()) <= at.info.unique_examples,
          "DatasetWriter: more classes than were announced");
  for (const Column number : classes) {
    require(Index(number) < at.info.width(), "DatasetWriter: a class lies beyond the width");
  }
  state_->file.write(item("data", at.info.number), at.values, classes);
  at.values += Index(classes.size());
}

void DatasetWriter::append_index(int set, std::span<const Column> rows) {
  Progress& at = state_->set(set);
  require(at.info.indexed && at.indexed + Index(rows.size()) <= at.info.examples,
          "DatasetWriter: not an Indexed set, or more examples than were announced");
  for (const Column row : rows) {
    require(Index(row) < at.info.unique_examples, "DatasetWriter: an index beyond the stored rows");
  }
  state_->file.write(item("index", at.info.number), at.indexed, rows);
  at.indexed += Index(rows.size());
}

void DatasetWriter::append_weights(int set, std::span<const float> weights) {
  Progress& at = state_->set(set);
  require(at.info.weighted && at.weights + Index(weights.size()) <= at.info.examples,
          "DatasetWriter: not a Weighted set, or more examples than were announced");
  state_->file.write(item("dataWeight", at.info.number), at.weights, weights);
  at.weights += Index(weights.size());
}

void DatasetWriter::append_labels(int set, std::span<const std::string_view> labels) {
  Progress& at = state_->set(set);
  std::string bytes;
  std::vector<Index> ends;
  for (const std::string_view label : labels) {
    if (label.find('\0') != std::string_view::npos)
      throw DataError(fmt::format(
          "the label {} of an example has a byte of zero, which a label may not; rename it",
          excerpt(label)));
    bytes += label;
    ends.push_back(at.label_bytes + Index(bytes.size()));
  }
  require(at.label_bytes + Index(bytes.size()) <= at.info.label_bytes &&
              at.labels + Index(labels.size()) <= at.info.examples,
          "DatasetWriter: more labels than were announced");
  const int n = at.info.number;
  state_->file.write(item("exampleLabels", n), at.label_bytes, std::span<const char>(bytes));
  state_->file.write(item("exampleLabelEnd", n), at.labels, std::span<const Index>(ends));
  at.labels += Index(labels.size());
  at.label_bytes += Index(bytes.size());
}

void DatasetWriter::finish() {
  if (state_->finished) return;
  for (const Progress& at : state_->sets) {
    const DatasetInfo& info = at.info;
    const Index values = info.sparse ? 0 : info.unique_examples * (info.boolean ? 1 : info.width());
    const bool complete = at.rows == (info.sparse ? info.unique_examples : 0) &&
                          at.entries == (info.sparse ? info.entries : 0) && at.values == values &&
                          at.indexed == (info.indexed ? info.examples : 0) &&
                          at.weights == (info.weighted ? info.examples : 0) &&
                          at.label_bytes == info.label_bytes &&
                          (info.label_bytes == 0 || at.labels == info.examples);
    if (!complete) {
      throw ShapeError(fmt::format("{}: less was written than was announced", place(info)));
    }
  }
  state_->write_lone_entries();
  state_->file.close();
  state_->finished = true;
}

void DatasetWriter::commit() {
  finish();
  state_->place.commit();
}

}  // namespace norn
