// SPDX-License-Identifier: Apache-2.0
// Buffers rows, labels and index lines on their way to the output files.

#include "import_writer.h"

#include "norn/base/error.h"
#include "src/base/files.h"

#include <system_error>

#include <fmt/format.h>

namespace norn {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBufferedEntries = std::size_t(1) << 20;
constexpr std::size_t kBufferedRows = std::size_t(1) << 16;

std::vector<DatasetInfo> infos_of(const std::vector<OutputSet>& sets, Index examples,
                                  Index label_bytes) {
  std::vector<DatasetInfo> infos;
  for (const OutputSet& set : sets) {
    DatasetInfo info;
    info.name = set.name;
    info.sparse = true;
    info.boolean = !set.valued;
    info.type = set.valued ? ElementType::float32 : ElementType::uint32;
    info.extent[0] = set.width;
    info.examples = info.unique_examples = examples;
    info.entries = set.entries;
    info.own_units = set.own_units;
    info.unit_labels = set.labels;
    info.sparse_ignore_zero = set.ignore_absent;
    // The first set holds the labels for all.
    info.label_set = label_bytes > 0 ? 0 : -1;
    info.label_bytes = infos.empty() ? label_bytes : 0;
    infos.push_back(info);
  }
  return infos;
}

}  // namespace

OutputFile::OutputFile(const fs::path& path, const std::vector<OutputSet>& sets, Index examples,
                       Index label_bytes)
    : writer_(path, infos_of(sets, examples, label_bytes)), rows_(sets.size()) {
  for (std::size_t i = 0; i < sets.size(); ++i) rows_[i].valued = sets[i].valued;
}

void OutputFile::append_row(int set, std::span<const Column> columns,
                            std::span<const float> values) {
  Rows& rows = rows_[std::size_t(set)];
  rows.sizes.push_back(Index(columns.size()));
  rows.columns.insert(rows.columns.end(), columns.begin(), columns.end());
  if (rows.valued) rows.values.insert(rows.values.end(), values.begin(), values.end());
  if (rows.columns.size() >= kBufferedEntries || rows.sizes.size() >= kBufferedRows) flush(set);
}

void OutputFile::append_label(std::string_view label) {
  labels_.emplace_back(label);
  if (labels_.size() >= kBufferedRows) flush_labels();
}

void OutputFile::flush(int set) {
  Rows& rows = rows_[std::size_t(set)];
  writer_.append_rows(set, rows.sizes, rows.columns, rows.values);
  rows.sizes.clear();
  rows.columns.clear();
  rows.values.clear();
}

void OutputFile::flush_labels() {
  const std::vector<std::string_view> views(labels_.begin(), labels_.end());
  writer_.append_labels(0, views);
  labels_.clear();
}

void OutputFile::finish() {
  for (int set = 0; set < int(rows_.size()); ++set) flush(set);
  flush_labels();
  writer_.finish();
}

void IndexFiles::add_features(const fs::path& path, const FeatureIndex& features) {
  if (!features.numeric()) return add_labels(path, features.labels());
  if (features.width() > kMostNumbers) {
    if (!fs::exists(path)) return;
    throw DataError(fmt::format(
        "{}: is an index of other features, and none is written of {} numbered ones; remove it",
        path.string(), features.width()));
  }
  LabelIndexWriter& file = add(path);
  for (Index number = 0; number < features.width(); ++number) {
    show_line(number);
    file.add(std::to_string(number));
  }
}

void IndexFiles::add_labels(const fs::path& path, const LabelIndex& labels) {
  LabelIndexWriter& file = add(path);
  for (Index number = 0; number < labels.size(); ++number) {
    show_line(number);
    file.add(labels.label(number));
  }
}

/// Whoever shows progress may want to stop.
void IndexFiles::show_line(Index number) const {
  if (number % 65536 == 0) show_stage(rules_, "writing an index:", number);
}

LabelIndexWriter& IndexFiles::add(const fs::path& path) {
  files_.push_back(std::make_unique<LabelIndexWriter>(path));
  return *files_.back();
}

void IndexFiles::finish() {
  for (const auto& file : files_) file->finish();
}

void IndexFiles::commit() {
  for (const auto& file : files_) file->commit();
}

std::vector<fs::path> IndexFiles::paths() const {
  std::vector<fs::path> paths;
  for (const auto& file : files_) paths.push_back(file->path());
  return paths;
}

void show_stage(const ImportRules& rules, const char* stage, Index entries) {
  if (rules.progress) rules.progress({stage, 0, 0, entries});
}

fs::path scratch_folder(const ImportRules& rules, const fs::path& output) {
  return rules.scratch.empty() ? output.parent_path() : rules.scratch;
}

fs::path beside(const fs::path& output, const std::string& ending) {
  fs::path path = output;
  if (path.extension() == ".nc") path.replace_extension();
  return path += ending;
}

void check_paths(const std::vector<fs::path>& inputs, const std::vector<fs::path>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_apart(inputs, outputs[i]);
    for (std::size_t j = 0; j < i; ++j) {
      if (outputs[i].lexically_normal() == outputs[j].lexically_normal()) {
        throw UsageError(
            fmt::format("{} would be written twice; choose another output", outputs[i].string()));
      }
    }
  }
}

void fill_counts(ImportReport& report, const TextIngest& ingest) {
  report.empty_rows = ingest.counts().empty;
  report.unlabelled_rows = ingest.counts().unlabelled;
  report.unknown_features = ingest.counts().unknown;
  report.repeated_examples = ingest.counts().repeated;
  report.malformed = ingest.counts().malformed;
  report.duplicates = ingest.duplicates();
}

}  // namespace norn
