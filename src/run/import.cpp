// SPDX-License-Identifier: Apache-2.0
// Importing as a program asks for it: words become rules.
#include "norn/run/import.h"

#include "norn/base/error.h"
#include "norn/run/data.h"
#include "src/base/option_faults.h"
#include "src/base/text.h"
#include "src/data/first_line.h"
#include "src/data/image_import.h"
#include "src/data/split.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

// A setting that is one of some words. They stand in the order of the enumeration that they are
// for, "auto" before it where the enumeration has no such member.
struct Choice {
  std::string_view setting;
  std::string ImportOptions::*word;
  std::vector<std::string> words;
};

constexpr const char* kImages = "images";

std::vector<std::string> with_images(std::vector<std::string> words) {
  words.emplace_back(kImages);
  return words;
}

const std::vector<Choice>& choices() {
  using O = ImportOptions;
  static const std::vector<Choice> all = {
      {"format", &O::format, with_images(TextFormat::words())},
      {"type", &O::type, {"auto", "indicator", "analog"}},
      {"target_type", &O::target_type, {"indicator", "analog"}},
      {"header", &O::header, {"auto", "yes", "no"}},
      {"libsvm_labels", &O::libsvm_labels, {"auto", "numbers", "names"}},
      {"duplicates", &O::duplicates, {"error", "sum", "first"}},
      {"empty_rows", &O::empty_rows, {"error", "drop", "keep"}},
      {"repeated_examples", &O::repeated_examples, {"auto", "error", "last", "merge"}},
      {"missing_examples", &O::missing_examples, {"auto", "error", "empty", "drop"}},
      {"feature_labels", &O::feature_labels, {"keep", "checksum"}},
      {"split_by", &O::split_by, {"entry", "example", "pair"}}};
  return all;
}

// Which of its words a setting has, as a member of the enumeration that they are for.
template <typename E>
E chosen(const ImportOptions& options, std::string ImportOptions::*word, int first = 0) {
  const Choice& choice = *std::ranges::find(choices(), word, &Choice::word);
  return E(std::ranges::find(choice.words, options.*word) - choice.words.begin() + first);
}

bool is_single(const ImportOptions& options) {
  return !options.samples.empty();
}

// Parts with slashes between; none where one of them is not what it should be.
template <typename T>
std::vector<T> parts_of(std::string_view text, std::optional<T> (*parse)(std::string_view)) {
  std::vector<T> parts;
  while (!text.empty()) {
    const std::size_t end = text.find('/');
    const std::optional<T> part = parse(text.substr(0, end));
    if (!part) return {};
    parts.push_back(*part);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return parts;
}

SplitRule split_rule(const ImportOptions& options) {
  constexpr std::string_view kRatio = "ratio:", kTime = "time:", kItems = "new-items:";
  SplitRule rule;
  rule.seed = options.seed;
  rule.unit = chosen<SplitRule::Unit>(options, &ImportOptions::split_by);
  if (options.split.empty()) return rule;
  if (options.split == "leave-one-out") {
    rule.kind = SplitRule::Kind::leave_one_out;
    return rule;
  }
  if (options.split == "leave-last-out") {
    rule.kind = SplitRule::Kind::leave_last_out;
    return rule;
  }
  const std::string_view text = options.split;
  if (text.starts_with(kItems)) {
    rule.kind = SplitRule::Kind::new_items;
    rule.ratios = parts_of(text.substr(kItems.size()), parse_double);
    return rule;
  }
  rule.kind = text.starts_with(kTime) ? SplitRule::Kind::time : SplitRule::Kind::ratio;
  if (text.starts_with(kRatio)) rule.ratios = parts_of(text.substr(kRatio.size()), parse_double);
  if (text.starts_with(kTime)) rule.borders = parts_of(text.substr(kTime.size()), parse_time);
  if (rule.ratios.empty() && rule.borders.empty())
    throw UsageError(
        fmt::format("`split` {}: expected ratio:0.8/0.1/0.1, ratio:0.8/0.2, leave-one-out, "
                    "time:2026-01-31, time:2026-01-30/2026-01-31, leave-last-out or new-items:0.1",
                    options.split));
  return rule;
}

FeatureMode feature_mode(const ImportOptions& options) {
  if (options.new_features) return FeatureMode::fresh;
  if (options.merge_features) return FeatureMode::merge;
  return is_single(options) ? FeatureMode::existing : FeatureMode::automatic;
}

ImportRules rules_of(const ImportOptions& options) {
  using O = ImportOptions;
  ImportRules rules;
  rules.text.format = TextFormat::named(options.format);
  rules.text.skip_malformed = options.skip_malformed;
  rules.text.header = chosen<HeaderLine>(options, &O::header);
  rules.text.example_column = options.example_column;
  rules.text.feature_column = options.feature_column;
  rules.text.value_column = options.value_column;
  rules.text.time_column = options.time_column;
  rules.duplicates = chosen<Duplicates>(options, &O::duplicates);
  rules.empty_rows = chosen<EmptyRows>(options, &O::empty_rows);
  rules.repeated = options.repeated_examples != "auto"
                       ? chosen<RepeatedExamples>(options, &O::repeated_examples, -1)
                   : is_single(options) ? RepeatedExamples::last
                                        : RepeatedExamples::error;
  rules.missing = options.missing_examples != "auto"
                      ? chosen<MissingExamples>(options, &O::missing_examples, -1)
                  : is_single(options) ? MissingExamples::error
                                       : MissingExamples::drop;
  rules.keep_labels = options.feature_labels == "keep";
  rules.scratch = options.scratch;
  rules.progress = options.on_progress;
  return rules;
}

ImportReport import_single(const ImportOptions& options) {
  SetImport import;
  import.rules = rules_of(options);
  import.input = options.input;
  import.output = options.output;
  import.features = options.features;
  import.examples = options.samples;
  import.feature_mode = feature_mode(options);
  import.name = options.name;
  import.kind = options.type == "analog" ? ValueKind::analog : ValueKind::indicator;
  return import_set(import, options.log);
}

// Settings that images have no use for, and were given.
std::vector<std::string> of_text_alone(const ImportOptions& options) {
  using O = ImportOptions;
  const ImportOptions unset;
  std::vector<std::string> given;
  const auto look = [&](const char* name, auto ImportOptions::*setting) {
    if (options.*setting != unset.*setting) given.emplace_back(fmt::format("`{}`", name));
  };
  look("features", &O::features);
  look("target_features", &O::target_features);
  look("separate_targets", &O::separate_targets);
  look("new_features", &O::new_features);
  look("merge_features", &O::merge_features);
  look("samples", &O::samples);
  look("type", &O::type);
  look("target_type", &O::target_type);
  look("value_column", &O::value_column);
  look("time_column", &O::time_column);
  look("libsvm_labels", &O::libsvm_labels);
  look("duplicates", &O::duplicates);
  look("empty_rows", &O::empty_rows);
  look("repeated_examples", &O::repeated_examples);
  look("missing_examples", &O::missing_examples);
  if (options.split_by == "pair") given.emplace_back("`split_by` pair");
  return given;
}

SplitRule image_split(const ImportOptions& options) {
  SplitRule rule = split_rule(options);
  rule.unit = SplitRule::Unit::example;
  return rule;
}

ImportReport import_pictures(const ImportOptions& options) {
  ImportOptions text = options;
  text.format = "auto";
  const ImportRules rules = rules_of(text);
  ImageImport import;
  import.query = {options.input, options.target, rules.text, options.skip_malformed};
  import.output = options.output;
  import.name = options.name;
  if (!options.size.empty()) import.size = parse_image_size(options.size);
  import.split = image_split(options);
  import.keep_labels = rules.keep_labels;
  import.scratch = options.scratch;
  import.progress = options.on_progress;
  return import_images(import, options.log);
}

ImportReport import_both(const ImportOptions& options) {
  using O = ImportOptions;
  PairImport import;
  import.rules = rules_of(options);
  import.input = options.input;
  import.target = options.target;
  import.output = options.output;
  import.name = options.name;
  import.input_kind = chosen<ValueKind>(options, &O::type);
  import.target_kind = chosen<ValueKind>(options, &O::target_type, 1);
  import.libsvm_labels = chosen<LibsvmLabels>(options, &O::libsvm_labels);
  import.features = options.features;
  import.target_features = options.target_features;
  import.feature_mode = feature_mode(options);
  import.separate_targets = options.separate_targets;
  import.split = split_rule(options);
  return import_pair(import, options.log);
}

}  // namespace

const std::vector<std::string>& import_words(std::string_view setting) {
  const auto choice = std::ranges::find(choices(), setting, &Choice::setting);
  if (choice == choices().end())
    throw std::logic_error(fmt::format("`{}` is no setting that has words", setting));
  return choice->words;
}

void ImportOptions::check() const {
  OptionFaults faults;
  check(faults);
  faults.throw_any();
}

void ImportOptions::check(OptionFaults& faults) const {
  for (const Choice& choice : choices())
    if (std::ranges::find(choice.words, this->*choice.word) == choice.words.end())
      faults.fail(fmt::format("`{}` {}: there is no such choice; choose of: {}", choice.setting,
                              this->*choice.word, join(choice.words)));
  faults.require_at_least<Index>(0, "`skip_malformed`", skip_malformed);
  faults.attempt("`split`", [&] { Split{split_rule(*this)}; });
  if (format == kImages) {
    if (const std::vector<std::string> given = of_text_alone(*this); !given.empty())
      faults.fail(fmt::format("`format` images does not take {}; leave {} out", join(given),
                              given.size() == 1 ? "it" : "them"));
    faults.attempt("`size`", [&] {
      if (!size.empty()) parse_image_size(size);
    });
    if (!split.empty() && !split.starts_with("ratio:"))
      faults.fail(
          fmt::format("`split` {}: images have no entries and no times; use ratio:0.8/0.2", split));
  } else if (!size.empty()) {
    faults.fail("`size` is for images; add `format` images, or leave it out");
  }
  if (new_features && merge_features)
    faults.fail(
        "`new_features` starts a new index of features and `merge_features` adds to one; choose "
        "one of them");
  if (!is_single(*this)) return;
  if (features.empty()) faults.fail("`samples` needs `features`, too");
  if (!target.empty() || !target_features.empty() || separate_targets || !split.empty())
    faults.fail(
        "`samples` writes one data set; `target`, `target_features`, `separate_targets` and "
        "`split` are for two");
}

ImportReport import_files(const ImportOptions& options) {
  options.check();
  if (options.name.empty()) {
    ImportOptions named = options;
    named.name = options.output.stem().string();
    return import_files(named);
  }
  if (options.format == kImages) return import_pictures(options);
  if (options.value_column != ImportOptions{}.value_column && options.type != "analog" &&
      options.target_type != "analog")
    options.log.warning(
        fmt::format("`value_column` {}: the values are left out, as neither `type` nor "
                    "`target_type` is analog",
                    options.value_column));
  return is_single(options) ? import_single(options) : import_both(options);
}

namespace {

// Adds a line's entries, and sees that its example is not there twice.
void add_row(const TextRow& row, const TextReader& text, bool drops_empty, TextEntries& entries) {
  if (row.features.empty() && drops_empty) return;
  const Index before = entries.example_labels.size();
  const auto example = std::uint32_t(entries.example_labels.add(row.example));
  if (!text.format()->entry_a_line) {
    if (Index(example) < before)
      throw DataError(
          fmt::format("{}: example \"{}\" has been on an earlier line; put its "
                      "features on one line",
                      text.place(), row.example));
    if (row.features.empty())
      throw DataError(fmt::format(
          "{}: example \"{}\" has no features; remove it, or choose with `empty_rows` drop",
          text.place(), row.example));
  }
  entries.examples.insert(entries.examples.end(), row.features.size(), example);
  entries.feature_labels.number_all(row.features, LabelIndex::Absent::add, entries.features);
  entries.values.insert(entries.values.end(), row.values.begin(), row.values.end());
  entries.times.insert(entries.times.end(), row.times.begin(), row.times.end());
}

}  // namespace

TextEntries read_entries(const ImportOptions& options) {
  options.check();
  TextOptions how = rules_of(options).text;
  if (options.type == "analog") how.values = TextValues::require;
  how.times = Split(split_rule(options)).by_time();
  TextReader text(options.input, how);
  if (text.format()->numbered)
    throw UsageError(
        fmt::format("{}: {} text has numbers for features and is imported whole; use "
                    "importer",
                    text.name(), text.format()->title));
  FirstLineCheck first_line(text.first_line());
  TextEntries entries;
  TextRow row;
  for (Index line = 0; text.next(row); ++line) {
    if (line % 65536 == 0 && options.on_progress)
      options.on_progress(
          {"reading", text.bytes_read(), text.bytes_total(), Index(entries.features.size())});
    if (text.first_line()) first_line.see(row.example, row.features[0]);
    add_row(row, text, options.empty_rows == "drop", entries);
  }
  entries.first_line_doubt = first_line.doubt(entries.example_labels, entries.feature_labels);
  entries.time_doubt = text.time_doubt();
  entries.malformed = text.malformed();
  return entries;
}

std::string text_format(const ImportOptions& options) {
  options.check();
  return std::string(TextReader(options.input, rules_of(options).text).format()->name);
}

SharedOut share_out(const ImportOptions& options, const MemorySet& rows,
                    std::span<const std::string_view> labels, std::span<const Microseconds> times) {
  options.check();
  const Split split(split_rule(options));
  const auto examples = Index(rows.row_begin.size()) - 1;
  SharedOut out;
  for (int part = 0; part < split.parts(); ++part) out.parts.push_back(split.name(part));
  out.by_entry = !split.by_example();
  if (split.by_example()) {
    out.part = split.example_parts(examples);
    return out;
  }
  if (split.by_pair() && Index(labels.size()) != examples)
    throw UsageError(fmt::format("`split_by` pair needs the labels of {} examples, {} are given",
                                 examples, labels.size()));
  if (split.by_time() && times.size() != rows.columns.size())
    throw UsageError(fmt::format("`split` {} needs the times of {} entries, {} are given",
                                 options.split, rows.columns.size(), times.size()));
  if (split.by_item()) {
    const auto width = rows.columns.empty() ? Index(0) : Index(std::ranges::max(rows.columns)) + 1;
    const std::vector<std::uint8_t> of_item = split.item_parts(width);
    for (const Column column : rows.columns) out.part.push_back(of_item[column]);
    return out;
  }
  std::vector<std::uint8_t> parts;
  for (Index example = 0; example < examples; ++example) {
    const auto begin = std::size_t(rows.row_begin[std::size_t(example)]);
    const std::size_t count = std::size_t(rows.row_begin[std::size_t(example) + 1]) - begin;
    if (split.by_pair())
      split.pair_parts(labels[std::size_t(example)], rows.columns.subspan(begin, count), parts);
    else if (split.by_time())
      split.time_parts(times.subspan(begin, count), parts);
    else
      split.entry_parts(std::uint64_t(example), Index(count), parts);
    out.part.insert(out.part.end(), parts.begin(), parts.end());
  }
  return out;
}

}  // namespace norn::run
