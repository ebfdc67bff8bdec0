// SPDX-License-Identifier: Apache-2.0
// Imports an input and a target set, joined by example label, and splits them.
#include "import_writer.h"
#include "norn/base/error.h"
#include "split.h"
#include "src/base/text.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace fs = std::filesystem;

namespace {

class PairImporter {
 public:
  PairImporter(const PairImport& options, const Log& log)
      : options_(options), split_(options.split), ingest_(options.rules, examples_, log) {}

  ImportReport run() {
    check_options();
    read_texts();
    if (split_.by_item()) put_new_items_last();
    join();
    plan_parts();
    write();
    fill_counts(report_, ingest_);
    return std::move(report_);
  }

 private:
  /// What one output file will hold.
  struct PartTotals {
    Index examples = 0;
    Index label_bytes = 0;
    Index input_entries = 0;
    Index target_entries = 0;
  };

  void check_options() {
    if (options_.name.empty()) throw UsageError("`name` is empty; name the data sets");
    std::vector<fs::path> inputs = {options_.input};
    if (!options_.target.empty()) inputs.push_back(options_.target);
    std::vector<fs::path> outputs = {features_path(), target_features_path()};
    for (int part = 0; part < split_.parts(); ++part) {
      outputs.push_back(file_of(part));
      outputs.push_back(beside(file_of(part), ".examples"));
    }
    check_paths(inputs, outputs);
    for (const fs::path& output : outputs) remove_abandoned(output);
  }

  fs::path file_of(int part) const {
    if (split_.parts() == 1) return options_.output;
    return beside(options_.output, fmt::format(".{}.nc", split_.name(part)));
  }

  fs::path features_path() const {
    return options_.features.empty() ? beside(options_.output, ".features") : options_.features;
  }
  fs::path target_features_path() const {
    return options_.target_features.empty() ? beside(options_.output, ".target_features")
                                            : options_.target_features;
  }

  /// A file that was not named is not read, either: it is a leftover of another run.
  FeatureIndex open_index(const fs::path& named) const {
    const bool fresh = named.empty() && options_.feature_mode == FeatureMode::automatic;
    if (named.empty() && !fresh && options_.feature_mode != FeatureMode::fresh) {
      throw UsageError("`merge_features` needs the index to be named with `features`");
    }
    return FeatureIndex::open(named, fresh ? FeatureMode::fresh : options_.feature_mode);
  }

  TextOptions text_options(bool valued) const {
    TextOptions text = options_.rules.text;
    text.values = valued ? TextValues::require : TextValues::ignore;
    text.times = split_.by_time();
    return text;
  }

  void read_texts() {
    features_ = open_index(options_.features);
    const fs::path folder = scratch_folder(options_.rules, options_.output);
    std::optional<TextReader> text;
    // Whether values are wanted may depend on the format, which opening the text finds out.
    text.emplace(options_.input, text_options(false));
    const TextFormatInfo& format = text->format().info();
    input_valued_ = options_.input_kind == ValueKind::analog ||
                    (options_.input_kind == ValueKind::automatic && format.valued);
    target_valued_ = options_.target_kind == ValueKind::analog;
    const bool own_target = options_.target.empty();
    labelled_ = format.numbered && own_target;
    separate_ = labelled_ || options_.separate_targets || !options_.target_features.empty();
    if (labelled_ && target_valued_)
      throw UsageError(fmt::format("{} labels have no values; drop `target_type`", format.title));
    if (separate_ && own_target && !labelled_) {
      throw UsageError(
          "the input is its own target, so both have the same features; name a `target`");
    }
    if (separate_) target_features_ = open_index(options_.target_features);
    if (split_.by_entry() && split_.parts() > 1 && (!own_target || labelled_)) {
      throw UsageError(
          "a split by entry needs an input that is its own target; use `split_by` example");
    }
    if (split_.by_time() && !format.entry_a_line) {
      throw UsageError(
          fmt::format("{}: is {} text, which has no times; a split by time needs {}, with a "
                      "column for them (`time_column`)",
                      options_.input.string(), format.name,
                      fmt::join(text_format_names(&TextFormatInfo::entry_a_line), " or ")));
    }
    const bool values = input_valued_ || (own_target && !labelled_ && target_valued_);
    if (values) text.emplace(options_.input, text_options(true));
    rows_.emplace(folder, values, split_.by_time());
    if (format.numbered) use_numbers(*text);
    if (labelled_) {
      target_rows_.emplace(folder, false);
      ingest_.read(*text, features_, *rows_, &target_features_, &*target_rows_);
    } else {
      ingest_.read(*text, features_, *rows_);
    }
    if (!own_target) read_target(folder);
    target_ = target_rows_ ? &*target_rows_ : &*rows_;
    report_.input_rows = rows_->rows();
    report_.target_rows = target_->rows();
  }

  /// Items that training does not have are numbered behind the others, which keep their order.
  void put_new_items_last() {
    if (features_.fixed() || options_.feature_mode == FeatureMode::merge)
      throw UsageError(fmt::format(
          "`split` new-items numbers items anew, and {} has numbers for them; name another file "
          "with `features`, or begin it anew with `new_features`",
          features_path().string()));
    const std::vector<std::uint8_t> parts = split_.item_parts(features_.width());
    known_ = std::ranges::count(parts, 0);
    Column next[] = {0, Column(known_)};
    for (const std::uint8_t part : parts) number_.push_back(next[part]++);
    features_.renumber(number_);
  }

  /// Features in all files but that of training, which may have fewer.
  Index width_of(int part) const {
    return split_.by_item() && part == 0 ? known_ : features_.width();
  }

  void use_numbers(const TextReader& text) {
    const auto header = text.header();
    features_.use_numbers(header ? header->features : 0);
    const bool numbers = options_.libsvm_labels == LibsvmLabels::numbers ||
                         (options_.libsvm_labels == LibsvmLabels::automatic && header);
    if (labelled_ && numbers) target_features_.use_numbers(header ? header->labels : 0);
  }

  void read_target(const fs::path& folder) {
    TextReader text(options_.target, text_options(target_valued_));
    FeatureIndex& features = separate_ ? target_features_ : features_;
    if (text.format()->numbered && !features.numeric()) {
      if (features.width() > 0 && !features.fixed()) {
        throw UsageError(
            fmt::format("the target is {} text and the input is not; use `separate_targets`",
                        text.format()->title));
      }
      features.use_numbers(text.header() ? text.header()->features : 0);
    }
    target_rows_.emplace(folder, target_valued_);
    ingest_.read(text, features, *target_rows_);
  }

  /// Chooses the examples that are kept, in the order of their numbers.
  void join() {
    const bool drop = options_.rules.missing == MissingExamples::drop;
    for (Index example = 0; example < examples_.size(); ++example) {
      const bool in_input = rows_->has(Column(example)), in_target = target_->has(Column(example));
      if (!in_input && !in_target) continue;
      if (in_input != in_target) {
        ++(in_input ? report_.only_input : report_.only_target);
        if (options_.rules.missing == MissingExamples::error)
          fail_missing(Column(example), in_input);
        if (drop) continue;
      }
      kept_.push_back(Column(example));
    }
    report_.joined = Index(kept_.size());
    if (kept_.empty()) {
      throw DataError(fmt::format("{}: no example is left{}; check the texts and the indexes",
                                  options_.input.string(),
                                  target_rows_ ? " that both texts have" : ""));
    }
  }

  [[noreturn]] void fail_missing(Column example, bool in_input) const {
    const fs::path& has = in_input ? options_.input : options_.target;
    const fs::path& lacks = in_input ? options_.target : options_.input;
    throw DataError(fmt::format(
        "{}: example \"{}\" of {} is missing; add it, or choose with "
        "`missing_examples` drop or empty",
        lacks.empty() ? has.string() : lacks.string(), examples_.label(example), has.string()));
  }

  Index count(const RowTable& rows, Column example) const {
    return rows.has(example) ? Index(rows.count(example)) : 0;
  }

  /// Whether a part's file has a row for an example whose entries are shared out so.
  bool holds(int part, const std::array<Index, 3>& counts) const {
    if (part == 0) return counts[0] > 0 || counts[0] + counts[1] + counts[2] == 0;
    return counts[0] > 0 && counts[std::size_t(part)] > 0;
  }

  void plan_parts() {
    totals_.resize(std::size_t(split_.parts()));
    if (split_.by_looking()) rows_->rewind();
    if (split_.by_example()) example_parts_ = split_.example_parts(Index(kept_.size()));
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const Column example = kept_[i];
      const Index bytes = Index(examples_.label(example).size());
      const Index in_input = count(*rows_, example);
      if (!split_.by_entry()) {
        PartTotals& part = totals_[example_parts_.empty() ? 0 : example_parts_[i]];
        add(part, bytes, in_input, count(*target_, example));
        continue;
      }
      const std::array<Index, 3> counts =
          split_.by_looking() ? next_counts(example) : split_.entry_counts(example, in_input);
      if (counts[0] == 0 && in_input > 0)
        ++(split_.by_item() ? report_.only_new : report_.only_later);
      for (int part = 0; part < split_.parts(); ++part) {
        if (holds(part, counts)) add(totals_[part], bytes, counts[0], counts[part]);
      }
    }
    report_.before_newest = std::ranges::count_if(
        held_out_, [&](Microseconds time) { return time < newest_of_training_; });
    for (int part = 0; part < split_.parts(); ++part) {
      const PartTotals& total = totals_[part];
      if (total.examples > 0 && total.input_entries > 0 && total.target_entries > 0) continue;
      throw DataError(fmt::format(
          "{}: {} examples with {} input and {} target entries are left{}; "
          "import more data or change `split`",
          file_of(part).string(), total.examples, total.input_entries, total.target_entries,
          split_.parts() > 1 ? " for the " + split_.name(part) + " part" : ""));
    }
  }

  /// How many entries each part gets, where they must be looked at, in the order of the examples.
  std::array<Index, 3> next_counts(Column example) {
    SpilledRow row;
    bool left = rows_->next(row);
    while (left && row.example < example) left = rows_->next(row);
    if (!left || row.example != example) return {};
    const std::array<Index, 3> counts = share_out(row, examples_.label(example));
    for (std::size_t k = 0; k < row.times.size(); ++k) {
      if (part_of_entry_[k] > 0)
        held_out_.push_back(row.times[k]);
      else
        newest_of_training_ = std::max(newest_of_training_, row.times[k]);
    }
    return counts;
  }

  /// Sets part_of_entry_.
  std::array<Index, 3> share_out(const SpilledRow& row, std::string_view label) {
    const Index n = Index(row.features.size());
    if (!split_.by_looking()) {
      split_.entry_parts(row.example, n, part_of_entry_);
      return split_.entry_counts(row.example, n);
    }
    if (split_.by_time()) {
      split_.time_parts(row.times, part_of_entry_);
    } else if (split_.by_item()) {
      part_of_entry_.clear();
      for (const Column feature : row.features)
        part_of_entry_.push_back(std::uint8_t(Index(number_[feature]) >= known_));
    } else {
      split_.pair_parts(label, row.features, part_of_entry_);
    }
    std::array<Index, 3> counts = {};
    for (const std::uint8_t part : part_of_entry_) ++counts[part];
    return counts;
  }

  static void add(PartTotals& part, Index label_bytes, Index input, Index target) {
    ++part.examples;
    part.label_bytes += label_bytes;
    part.input_entries += input;
    part.target_entries += target;
  }

  void write() {
    report_.input_width = features_.width();
    report_.target_width = (separate_ ? target_features_ : features_).width();
    IndexFiles indexes(options_.rules);
    if (features_.changed()) indexes.add_features(features_path(), features_);
    if (separate_ && target_features_.changed()) {
      indexes.add_features(target_features_path(), target_features_);
    }
    std::vector<std::unique_ptr<OutputFile>> files;
    std::vector<LabelIndexWriter*> example_files;
    const LabelTable all_labels = features_.table(options_.rules);
    for (int part = 0; part < split_.parts(); ++part) {
      const PartTotals& total = totals_[part];
      const Index width = width_of(part);
      const LabelTable input_labels =
          width == features_.width() ? all_labels : features_.first(width, options_.rules);
      const LabelTable target_labels =
          separate_ ? target_features_.table(options_.rules) : input_labels;
      const Index target_width = separate_ ? report_.target_width : width;
      files.push_back(std::make_unique<OutputFile>(
          file_of(part),
          std::vector<OutputSet>{{options_.name + "_input", input_valued_, width,
                                  total.input_entries, false, input_labels},
                                 {options_.name + "_output", target_valued_, target_width,
                                  total.target_entries, separate_, target_labels}},
          total.examples, total.label_bytes));
      example_files.push_back(&indexes.add(beside(file_of(part), ".examples")));
      report_.files.push_back(
          {file_of(part), total.examples, total.input_entries, total.target_entries});
    }
    write_rows(files, example_files);
    for (const auto& file : files) file->finish();
    indexes.finish();
    for (const auto& file : files) file->commit();
    indexes.commit();
    report_.index_files = indexes.paths();
  }

  void write_rows(const std::vector<std::unique_ptr<OutputFile>>& files,
                  const std::vector<LabelIndexWriter*>& example_files) {
    rows_->rewind();
    if (target_rows_) target_rows_->rewind();
    SpilledRow input, target;
    bool input_left = rows_->next(input), target_left = target_rows_ && target_rows_->next(target);
    Index written = 0;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (i % 65536 == 0) show_stage(options_.rules, "writing", written);
      const Column example = kept_[i];
      while (input_left && input.example < example) input_left = rows_->next(input);
      while (target_left && target.example < example) target_left = target_rows_->next(target);
      const SpilledRow none{example, {}, {}, {}};
      const SpilledRow& x = input_left && input.example == example ? input : none;
      const SpilledRow& t = !target_rows_                              ? x
                            : target_left && target.example == example ? target
                                                                       : none;
      written += Index(x.features.size() + t.features.size());
      const std::string_view label = examples_.label(example);
      if (split_.by_entry()) {
        write_shared_out(x, label, files, example_files);
        continue;
      }
      const std::size_t part = example_parts_.empty() ? 0 : example_parts_[i];
      files[part]->append_row(0, x.features, x.values);
      files[part]->append_row(1, t.features, t.values);
      files[part]->append_label(label);
      example_files[part]->add(label);
    }
  }

  void write_shared_out(const SpilledRow& row, std::string_view label,
                        const std::vector<std::unique_ptr<OutputFile>>& files,
                        const std::vector<LabelIndexWriter*>& example_files) {
    const std::array<Index, 3> counts = share_out(row, label);
    for (auto& columns : part_columns_) columns.clear();
    for (auto& values : part_values_) values.clear();
    for (std::size_t k = 0; k < row.features.size(); ++k) {
      const Column feature = number_.empty() ? row.features[k] : number_[row.features[k]];
      part_columns_[part_of_entry_[k]].push_back(feature);
      if (!row.values.empty()) part_values_[part_of_entry_[k]].push_back(row.values[k]);
    }
    for (int part = 0; part < split_.parts(); ++part) {
      if (!holds(part, counts)) continue;
      files[part]->append_row(0, part_columns_[0], part_values_[0]);
      files[part]->append_row(1, part_columns_[part], part_values_[part]);
      files[part]->append_label(label);
      example_files[part]->add(label);
    }
  }

  const PairImport& options_;
  Split split_;
  LabelIndex examples_;
  TextIngest ingest_;
  FeatureIndex features_;
  FeatureIndex target_features_;
  std::optional<RowTable> rows_;
  std::optional<RowTable> target_rows_;  // none when the input is its own target
  RowTable* target_ = nullptr;
  bool input_valued_ = false;
  bool target_valued_ = false;
  bool labelled_ = false;  // LibSVM text with its labels as targets
  bool separate_ = false;  // targets have features of their own
  std::vector<Column> kept_;
  std::vector<std::uint8_t> example_parts_;  // by position in kept_
  std::vector<PartTotals> totals_;
  std::vector<Column> number_;  // of a split by items: new numbers of features by those of the text
  Index known_ = 0;             // and how many training has
  std::vector<std::uint8_t> part_of_entry_;
  std::vector<Microseconds> held_out_;  // times of entries of a split by time
  Microseconds newest_of_training_ = std::numeric_limits<Microseconds>::min();
  std::array<std::vector<Column>, 3> part_columns_;
  std::array<std::vector<float>, 3> part_values_;
  ImportReport report_;
};

}  // namespace

ImportReport import_pair(const PairImport& options, const Log& log) {
  return PairImporter(options, log).run();
}

}  // namespace norn
