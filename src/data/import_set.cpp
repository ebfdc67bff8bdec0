// SPDX-License-Identifier: Apache-2.0
// Imports one data set with index files that several runs share, as DSSTNE's generateNetCDF does.
#include "import_writer.h"
#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/text.h"

#include <utility>

#include <fmt/format.h>

namespace norn {

namespace fs = std::filesystem;

namespace {

class SetImporter {
 public:
  SetImporter(const SetImport& options, const Log& log)
      : options_(options),
        known_examples_(path_exists(options.examples)),
        examples_(known_examples_ ? read_label_index(options.examples, LabelBytes::utf8)
                                  : LabelIndex()),
        given_examples_(examples_.size()),
        features_(FeatureIndex::open(options.features, options.feature_mode)),
        rows_(scratch_folder(options.rules, options.output), options.kind == ValueKind::analog),
        ingest_(options.rules, examples_, log),
        log_(log) {}

  ImportReport run() {
    const std::vector<fs::path> outputs = {options_.output, options_.features, options_.examples};
    check_paths({options_.input}, outputs);
    for (const fs::path& output : outputs) remove_abandoned(output);
    read();
    choose_examples();
    write();
    fill_counts(report_, ingest_);
    return std::move(report_);
  }

 private:
  void read() {
    TextOptions options = options_.rules.text;
    options.values = rows_.valued() ? TextValues::require : TextValues::ignore;
    TextReader text(options_.input, options);
    if (text.format()->numbered) {
      throw UsageError(
          fmt::format("{} text gives two data sets; import it with `input` and `output`",
                      text.format()->title));
    }
    ingest_.read(text, features_, rows_);
    report_.input_rows = rows_.rows();
  }

  /// The rows that the file will have. With an index of an earlier run they must be that run's, or
  /// the two files would not fit together.
  void choose_examples() {
    const MissingExamples missing = options_.rules.missing;
    if (known_examples_) {
      if (missing == MissingExamples::error && examples_.size() > given_examples_) {
        throw DataError(fmt::format(
            "{}: example \"{}\" is not in {}, so the rows would not match files written with it "
            "before; use the same examples in all texts, a new `samples` file, or "
            "`missing_examples` "
            "empty "
            "or drop",
            options_.input.string(), examples_.label(given_examples_), options_.examples.string()));
      }
      report_.only_target = examples_.size() - given_examples_;
    }
    for (Index example = 0; example < examples_.size(); ++example) {
      if (!rows_.has(Column(example))) {
        if (missing == MissingExamples::error && known_examples_ && example < given_examples_) {
          throw DataError(fmt::format(
              "{}: example \"{}\" of {} is missing, so the rows would not match files written with "
              "it "
              "before; use the same examples in all texts, or choose with `missing_examples` empty "
              "or "
              "drop",
              options_.input.string(), examples_.label(example), options_.examples.string()));
        }
        ++report_.only_input;
        if (missing != MissingExamples::empty) continue;
      }
      kept_.push_back(Column(example));
    }
    report_.joined = Index(kept_.size());
    if (kept_.empty() || rows_.entries() == 0) {
      throw DataError(fmt::format(
          "{}: no features are left for {}; check the text and the feature "
          "index {}",
          options_.input.string(), options_.output.string(), options_.features.string()));
    }
    if (report_.only_input > 0 && missing == MissingExamples::drop) {
      log_.warning(
          fmt::format("{} examples of {} are not in {}: its rows do not match files written "
                      "with that index before",
                      report_.only_input, options_.examples.string(), options_.output.string()));
    }
  }

  void write() {
    report_.input_width = features_.width();
    Index label_bytes = 0;
    for (const Column example : kept_) label_bytes += Index(examples_.label(example).size());
    OutputFile file(options_.output,
                    {{options_.name, rows_.valued(), features_.width(), rows_.entries(), false,
                      features_.table(options_.rules)}},
                    Index(kept_.size()), label_bytes);
    rows_.rewind();
    SpilledRow row;
    bool left = rows_.next(row);
    Index written = 0;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (i % 65536 == 0) show_stage(options_.rules, "writing", written);
      while (left && row.example < kept_[i]) left = rows_.next(row);
      const bool here = left && row.example == kept_[i];
      file.append_row(0, here ? row.features : std::span<const Column>{},
                      here ? row.values : std::span<const float>{});
      file.append_label(examples_.label(kept_[i]));
      written += here ? Index(row.features.size()) : 0;
    }
    file.finish();
    IndexFiles indexes(options_.rules);
    if (features_.changed()) indexes.add_features(options_.features, features_);
    if (!known_examples_ || examples_.size() > given_examples_) {
      indexes.add_labels(options_.examples, examples_);
    }
    indexes.finish();
    file.commit();
    indexes.commit();
    report_.index_files = indexes.paths();
    report_.files = {{options_.output, Index(kept_.size()), rows_.entries(), 0}};
  }

  const SetImport& options_;
  bool known_examples_;
  LabelIndex examples_;
  Index given_examples_;
  FeatureIndex features_;
  RowTable rows_;
  TextIngest ingest_;
  const Log& log_;
  std::vector<Column> kept_;
  ImportReport report_;
};

}  // namespace

ImportReport import_set(const SetImport& options, const Log& log) {
  if (options.name.empty()) throw UsageError("`name` is empty; name the data set");
  return SetImporter(options, log).run();
}

}  // namespace norn
