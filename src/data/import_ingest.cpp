// SPDX-License-Identifier: Apache-2.0
// Numbers examples and features, applies the rules for single rows, and stores the rows.
#include "import_ingest.h"

#include "first_line.h"
#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/text.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr Index kRowsBetweenProgress = 1 << 14;
constexpr std::size_t kLinesTogether = 256;

/// Gives the labels from number `first` on the order of their bytes; new numbers by old ones.
std::vector<Column> sort_labels(LabelIndex& labels, Index first) {
  std::vector<Column> order(std::size_t(labels.size()));
  std::iota(order.begin(), order.end(), Column(0));
  std::sort(order.begin() + first, order.end(),
            [&labels](Column a, Column b) { return labels.label(a) < labels.label(b); });
  LabelIndex sorted;
  sorted.reserve(labels.size());
  std::vector<Column> numbers(order.size());
  for (const Column old : order) numbers[old] = Column(sorted.add(labels.label(old)));
  labels = std::move(sorted);
  return numbers;
}

}  // namespace

FeatureIndex FeatureIndex::open(const std::filesystem::path& path, FeatureMode mode) {
  FeatureIndex index;
  const bool there = !path.empty() && path_exists(path);
  if (mode == FeatureMode::existing && !there) {
    throw DataError(
        fmt::format("{}: no such index of features; start a new one with -c", path.string()));
  }
  if (mode == FeatureMode::fresh || !there) return index;
  index.fresh_ = false;
  index.labels_ = read_label_index(path, LabelBytes::utf8);
  index.given_ = index.labels_.size();
  if (mode != FeatureMode::merge) index.growth_ = Growth::fixed;
  return index;
}

void FeatureIndex::use_numbers(Index width) {
  width_ = fixed() ? given_ : std::max(width, given_);
  numeric_ = true;
}

void FeatureIndex::number_all(std::span<const std::string_view> labels,
                              std::vector<Column>& numbers) {
  labels_.number_all(labels, fixed() ? LabelIndex::Absent::report : LabelIndex::Absent::add,
                     numbers);
}

std::vector<Column> FeatureIndex::sort_new() {
  return sort_labels(labels_, given_);
}

void FeatureIndex::renumber(std::span<const Column> numbers) {
  std::vector<Column> old(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) old[numbers[i]] = Column(i);
  LabelIndex ordered;
  for (const Column number : old) ordered.add(labels_.label(number));
  labels_ = std::move(ordered);
}

LabelTable FeatureIndex::first(Index count, const ImportRules& rules) const {
  LabelIndex some;
  for (Index number = 0; number < count; ++number) some.add(labels_.label(number));
  const LabelTable table = LabelTable::of(some);
  return rules.keep_labels ? table : table.checksum_only();
}

std::optional<Column> FeatureIndex::number(Column number) {
  if (fixed() && Index(number) >= width_) return std::nullopt;
  width_ = std::max(width_, Index(number) + 1);
  return number;
}

std::string FeatureIndex::name(Column number) const {
  return numeric_ ? std::to_string(number) : std::string(labels_.label(number));
}

LabelTable FeatureIndex::table(const ImportRules& rules) const {
  // Numbers have the labels that the index file will have.
  if (numeric_ && changed()) return LabelTable::numbers(width_);
  const LabelTable labels = LabelTable::of(labels_);
  return rules.keep_labels ? labels : labels.checksum_only();
}

void EntryLines::add(const TextRow& row) {
  bytes += row.example;
  example_end.push_back(bytes.size());
  bytes += row.features[0];
  feature_end.push_back(bytes.size());
  values.insert(values.end(), row.values.begin(), row.values.end());
  times.insert(times.end(), row.times.begin(), row.times.end());
}

void EntryLines::make_views() {
  std::size_t begin = 0;
  const std::string_view all = bytes;
  for (std::size_t i = 0; i < feature_end.size(); ++i) {
    examples.push_back(all.substr(begin, example_end[i] - begin));
    features.push_back(all.substr(example_end[i], feature_end[i] - example_end[i]));
    begin = feature_end[i];
  }
}

void EntryLines::clear() {
  bytes.clear();
  example_end.clear();
  feature_end.clear();
  values.clear();
  times.clear();
  examples.clear();
  features.clear();
  example_numbers.clear();
  columns.clear();
}

/// Adds the row's values to the columns from `first` on, without the columns that are unknown.
void TextIngest::drop_unknown(const TextRow& row, std::size_t first) {
  values_.insert(values_.end(), row.values.begin(), row.values.end());
  std::size_t kept = first;
  for (std::size_t i = first; i < columns_.size(); ++i) {
    if (columns_[i] == LabelIndex::kUnknown) continue;
    columns_[kept] = columns_[i];
    if (!values_.empty()) values_[kept] = values_[i];
    ++kept;
  }
  counts_.unknown += Index(columns_.size() - kept);
  columns_.resize(kept);
  if (!values_.empty()) values_.resize(kept);
}

void TextIngest::number_features(const TextRow& row, FeatureIndex& features) {
  const std::size_t first = columns_.size();
  for (const Column number : row.numbers) {
    columns_.push_back(features.number(number).value_or(LabelIndex::kUnknown));
  }
  features.number_all(row.features, columns_);
  drop_unknown(row, first);
}

void TextIngest::number_labels(const TextRow& row, FeatureIndex& features) {
  columns_.clear();
  values_.clear();
  if (!features.numeric()) {
    features.number_all(row.labels, columns_);
  }
  for (std::size_t i = 0; features.numeric() && i < row.labels.size(); ++i) {
    const auto number = parse_integer(row.labels[i]);
    if (!number || *number < 0 || *number >= std::numeric_limits<Column>::max()) {
      throw DataError(
          fmt::format("{}: the label \"{}\" is not a number from 0; number the labels, or "
                      "take them as names with `libsvm_labels` names",
                      text_->place(), row.labels[i]));
    }
    const auto header = text_->header();
    if (header && *number >= header->labels)
      throw DataError(
          fmt::format("{}: the label {} is out of range, the header announces {} labels, from 0; "
                      "correct it or the header line",
                      text_->place(), *number, header->labels));
    columns_.push_back(features.number(Column(*number)).value_or(LabelIndex::kUnknown));
  }
  drop_unknown({}, 0);
}

void TextIngest::fail_duplicate(const FeatureIndex& features, std::size_t entry,
                                const std::string& place) const {
  throw DataError(
      fmt::format("{}: example \"{}\": the feature \"{}\" occurs twice; remove one, or "
                  "choose with `duplicates` sum or first",
                  place, label_, features.name(columns_[entry])));
}

bool TextIngest::add_row(const FeatureIndex& features, RowTable& rows, RowKind kind) {
  if (columns_.empty()) {
    const bool labels = kind == RowKind::labels;
    ++(labels ? counts_.unlabelled : counts_.empty);
    if (rules_.empty_rows == EmptyRows::drop) return false;
    if (rules_.empty_rows == EmptyRows::error) {
      throw DataError(fmt::format(
          "{}: example \"{}\" has no {}{}, or choose with `empty_rows` drop or keep",
          text_->place(), label_, labels ? "labels" : "features",
          features.fixed() ? " that the given index knows; add its features to the index with -m"
                           : "; remove it"));
    }
  }
  const std::size_t repeated = cleaner_.clean(columns_, values_, times_);
  if (repeated < columns_.size()) fail_duplicate(features, repeated, text_->place());
  example_ = Column(examples_.add(label_));
  if (rows.has(example_)) {
    if (rules_.repeated == RepeatedExamples::error) {
      throw DataError(
          fmt::format("{}: example \"{}\" has been on an earlier line; put its features on "
                      "one line, or choose with `repeated_examples` merge or last",
                      text_->place(), label_));
    }
    ++counts_.repeated;
  }
  rows.add(example_, columns_, values_);
  return true;
}

void TextIngest::close_piece(const FeatureIndex& features, RowTable& rows) {
  if (!piece_open_) return;
  piece_open_ = false;
  label_ = examples_.label(example_);
  if (!rows.timed()) {  // else the row's parts are merged together, in the order of their times
    const std::size_t repeated = cleaner_.clean(columns_, values_, times_);
    if (repeated < columns_.size()) fail_duplicate(features, repeated, text_->name());
  }
  rows.add(example_, columns_, values_, times_);
  columns_.clear();
  values_.clear();
  times_.clear();
}

/// Numbers the lines that wait, and adds their entries. Lines of one example that follow each other
/// make one piece of its row.
void TextIngest::add_lines(FeatureIndex& features, RowTable& rows) {
  lines_.make_views();
  features.number_all(lines_.features, lines_.columns);
  if (features.fixed() && rules_.empty_rows == EmptyRows::keep) note_examples();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < lines_.columns.size(); ++i) {
    if (lines_.columns[i] == LabelIndex::kUnknown) {
      if (rules_.empty_rows != EmptyRows::keep) left_out_.add(lines_.examples[i]);
      continue;
    }
    lines_.columns[kept] = lines_.columns[i];
    lines_.examples[kept] = lines_.examples[i];
    if (!lines_.values.empty()) lines_.values[kept] = lines_.values[i];
    if (!lines_.times.empty()) lines_.times[kept] = lines_.times[i];
    ++kept;
  }
  counts_.unknown += Index(lines_.columns.size() - kept);
  lines_.examples.resize(kept);
  examples_.number_all(lines_.examples, LabelIndex::Absent::add, lines_.example_numbers);
  for (std::size_t i = 0; i < kept; ++i) {
    if (piece_open_ && lines_.example_numbers[i] != example_) close_piece(features, rows);
    example_ = lines_.example_numbers[i];
    piece_open_ = true;
    columns_.push_back(lines_.columns[i]);
    if (!lines_.values.empty()) values_.push_back(lines_.values[i]);
    if (!lines_.times.empty()) times_.push_back(lines_.times[i]);
  }
  lines_.clear();
}

/// Numbers the examples of all lines that wait, also of those whose features are unknown.
void TextIngest::note_examples() {
  examples_.number_all(lines_.examples, LabelIndex::Absent::add, lines_.example_numbers);
  named_.resize(std::max(named_.size(), std::size_t(examples_.size())));
  for (const Column example : lines_.example_numbers) named_[example] = true;
  lines_.example_numbers.clear();
}

/// Examples that are named with unknown features alone: they get rows without entries, or are
/// counted.
void TextIngest::end_bare_examples(RowTable& rows) {
  Index bare = 0;
  for (std::size_t example = 0; example < named_.size(); ++example) {
    if (!named_[example] || rows.has(Column(example))) continue;
    rows.add(Column(example), {}, {});
    ++bare;
  }
  std::vector<std::string_view> labels;
  for (Index i = 0; i < left_out_.size(); ++i) labels.push_back(left_out_.label(i));
  std::vector<Column> numbers;
  examples_.number_all(labels, LabelIndex::Absent::report, numbers);
  for (const Column example : numbers)
    bare += example == LabelIndex::kUnknown || !rows.has(example);
  counts_.empty += bare;
  if (bare > 0 && rules_.empty_rows == EmptyRows::error)
    log_.warning(fmt::format(
        "{}: {} examples have no features that the given index knows and are left out, so rows are "
        "not those of all examples; choose with `empty_rows` keep or drop, or add their features "
        "to the index with -m",
        text_->name(), with_thousands(bare)));
  named_.clear();
  left_out_ = LabelIndex();
}

// A file that was cut off has fewer than its header says.
void TextIngest::compare_with_header(const TextReader& text, Index examples) const {
  const auto header = text.header();
  if (!header || header->examples == examples) return;
  log_.warning(
      fmt::format("{}: {} examples were read, but the header announces {}: the file may be "
                  "cut off",
                  text.name(), with_thousands(examples), with_thousands(header->examples)));
}

void TextIngest::show_progress(const char* stage, Index entries) {
  if (!rules_.progress) return;
  rules_.progress({stage, text_->bytes_read(), text_->bytes_total(), entries});
}

void TextIngest::read(TextReader& text, FeatureIndex& features, RowTable& rows,
                      FeatureIndex* label_features, RowTable* labels) {
  text_ = &text;
  const bool pieces = text.format()->entry_a_line;
  columns_.clear();
  values_.clear();
  times_.clear();
  FirstLineCheck first_line(text.first_line());
  TextRow row;
  Index line = 0;
  for (; text.next(row); ++line) {
    if (line % kRowsBetweenProgress == 0) show_progress("reading", rows.entries());
    if (pieces) {
      first_line.see(row.example, row.features[0]);
      lines_.add(row);
      if (lines_.feature_end.size() == kLinesTogether) add_lines(features, rows);
      continue;
    }
    label_ = row.example;
    if (labels) {
      number_labels(row, *label_features);
      // An example without labels goes with its features, or stays with an empty row.
      if (!add_row(*label_features, *labels, RowKind::labels)) continue;
    }
    columns_.clear();
    values_.clear();
    number_features(row, features);
    add_row(features, rows, RowKind::features);
  }
  add_lines(features, rows);
  close_piece(features, rows);
  end_bare_examples(rows);
  show_progress("reading", rows.entries());
  // What has times is the same in whatever order its lines come, so labels must not be numbered by
  // it.
  if (rows.timed()) rows.renumber(sort_labels(examples_, 0), features.sort_new());
  const RowNames names{[this](Column example) { return std::string(examples_.label(example)); },
                       [&features](Column feature) { return features.name(feature); }};
  rows.finish(pieces ? RepeatedExamples::merge : rules_.repeated, cleaner_, names);
  compare_with_header(text, line + text.malformed());
  if (const auto doubt = first_line.doubt(examples_, features.labels()))
    log_.warning(fmt::format("{}: {}", text.name(), *doubt));
  if (const auto doubt = text.time_doubt())
    log_.warning(fmt::format("{}: {}", text.name(), *doubt));
  counts_.malformed += text.malformed();
  if (text.malformed() > 0) {
    log_.warning(fmt::format("{} malformed lines were passed over; the first: {}", text.malformed(),
                             text.first_malformed()));
  }
}

}  // namespace norn
