// SPDX-License-Identifier: Apache-2.0
// Data sets of files as arrays, and arrays as files.
#include "norn/run/data.h"

#include "norn/base/error.h"
#include "src/data/dataset.h"
#include "src/data/import_writer.h"
#include "src/data/stored_values.h"

#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

MemorySet read_set(const DatasetInfo& info) {
  const std::unique_ptr<Dataset> set = open_dataset(info, Residency::memory, Role::input);
  std::vector<Index> examples(std::size_t(info.examples));
  std::iota(examples.begin(), examples.end(), Index(0));
  const auto batch = std::make_shared<HostBatch>();
  set->gather(examples, *batch);
  MemorySet made{.name = info.name, .width = info.width(), .unit_labels = info.unit_labels};
  made.ignore_absent = info.sparse_ignore_zero;
  made.own_units = info.own_units;
  if (batch->is_sparse) {
    const CsrView rows = batch->csr();
    const auto entries = std::size_t(rows.row_begin[rows.rows]);
    made.row_begin = {rows.row_begin, std::size_t(rows.rows) + 1};
    made.columns = {rows.column, entries};
    if (rows.value != nullptr) made.values = {rows.value, entries};
  } else {
    const MatrixView<const float> rows = batch->matrix();
    require(rows.stride == rows.cols, "read_sets: rows of a dense set follow each other");
    made.dense = {rows.data, std::size_t(rows.rows * rows.cols)};
  }
  made.weights = batch->weight;
  made.owner = batch;
  return made;
}

// What it is, when its arrays fit each other.
OutputSet output_of(const MemorySet& set, const std::filesystem::path& file) {
  if (set.columns.empty() || set.row_begin.size() < 2)
    throw DataError(
        fmt::format("{}: data set \"{}\" has {} examples and {} entries; a file needs "
                    "at least one of each",
                    file.string(), set.name, set.row_begin.empty() ? 0 : set.row_begin.size() - 1,
                    set.columns.size()));
  if (!set.dense.empty() || !set.weights.empty())
    throw UsageError(
        fmt::format("data set \"{}\" is dense or has weights; sparse sets without "
                    "weights can be written",
                    set.name));
  const DatasetInfo info = describe(set);
  if (const auto wrong = first_not_finite(set.values))
    throw DataError(
        fmt::format("data set \"{}\": the value of entry {} is {}, expected a finite "
                    "number",
                    set.name, *wrong, set.values[std::size_t(*wrong)]));
  for (std::size_t entry = 0; entry < set.columns.size(); ++entry)
    if (Index(set.columns[entry]) >= set.width)
      throw DataError(fmt::format("data set \"{}\": entry {} has column {}, expected 0 to {}",
                                  set.name, entry, set.columns[entry], set.width - 1));
  return {set.name,      !set.values.empty(), set.width,        info.entries,
          set.own_units, set.unit_labels,     set.ignore_absent};
}

}  // namespace

FileSets read_sets(const std::filesystem::path& file) {
  FileSets all;
  for (const DatasetInfo& info : list_datasets(file)) {
    all.sets.push_back(read_set(info));
    all.example_labels.push_back(read_example_labels(info));
  }
  return all;
}

void write_sets(const std::filesystem::path& file, std::span<const MemorySet> sets,
                std::span<const std::string_view> labels) {
  std::vector<OutputSet> outputs;
  for (const MemorySet& set : sets) outputs.push_back(output_of(set, file));
  if (outputs.empty()) throw UsageError("`sets` is empty; a file needs at least one data set");
  const std::size_t examples = sets.front().row_begin.size() - 1;
  for (const MemorySet& set : sets)
    if (set.row_begin.size() - 1 != examples || (!labels.empty() && labels.size() != examples))
      throw DataError(fmt::format(
          "data set \"{}\" has {} examples, \"{}\" has {}, and {} labels "
          "were given; all sets of a file have the same examples",
          sets.front().name, examples, set.name, set.row_begin.size() - 1, labels.size()));
  Index label_bytes = 0;
  for (const std::string_view label : labels) label_bytes += Index(label.size());
  OutputFile out(file, outputs, Index(examples), label_bytes);
  for (std::size_t example = 0; example < examples; ++example) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const auto begin = std::size_t(sets[i].row_begin[example]);
      const std::size_t count = std::size_t(sets[i].row_begin[example + 1]) - begin;
      out.append_row(
          int(i), sets[i].columns.subspan(begin, count),
          sets[i].values.empty() ? std::span<const float>{} : sets[i].values.subspan(begin, count));
    }
    if (!labels.empty()) out.append_label(labels[example]);
  }
  out.finish();
  out.commit();
}

}  // namespace norn::run
