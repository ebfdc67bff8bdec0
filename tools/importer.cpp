// SPDX-License-Identifier: Apache-2.0
// The program `importer`: makes files of data sets from text and images.
#include "norn/base/error.h"
#include "norn/run/import.h"
#include "src/base/text.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/stop_signals.h"

#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace norn::tools {
namespace {

struct ImporterOptions : run::ImportOptions {
  bool quiet = false;
};

void add_file_options(ImporterOptions& options, CommandLine& line) {
  line.section("Files and names");
  line.option("--input", "-i", "PATH", options.input,
              "text to read: a file, or a folder whose files are read in the order of their names; "
              ".gz is unpacked. With --format images: a folder with a folder of PNG or JPEG files "
              "for each class, a list of paths and labels (CSV, TSV), or a file or folder of idx "
              "(MNIST) or of CIFAR's binary records")
      .required = true;
  line.option("--output", "-o", "FILE", options.output, "NetCDF file to write").required = true;
  line.option("--name", "-d", "NAME", options.name,
              "the data sets are NAME_input and NAME_output; with --samples the one set is NAME")
      .default_text = "the output's name";
  line.option("--target", "", "PATH", options.target,
              "text with what is to be predicted for the examples of --input; without it the input "
              "is its own target, and LibSVM text has its labels. Of one file of idx images: the "
              "file of its labels");
  line.option("--features", "-f", "FILE", options.features,
              "index of features (label, tab, number). Without --samples: read when it exists, and "
              "features that it lacks are dropped; else written")
      .default_text = "a new one beside the output, with the ending .features";
  line.option("--target-features", "", "FILE", options.target_features,
              "the same for targets with features of their own")
      .default_text = "beside the output, with the ending .target_features";
  line.toggle("--separate-targets", "", options.separate_targets,
              "targets have features of their own");
  line.toggle("--new-features", "-c", options.new_features,
              "start new indexes of features where files exist");
  line.toggle("--merge-features", "-m", options.merge_features,
              "add new features to indexes that exist");
  line.option("--samples", "-s", "FILE", options.samples,
              "as generateNetCDF: write one data set, whose rows follow this index of examples; it "
              "is read when it exists, and extended");
  line.choice("--feature-labels", "", run::import_words("feature_labels"), options.feature_labels,
              "what the files tell of the features' labels, and models that are trained on them: "
              "the labels, by which data of another index are put in the model's order, or only a "
              "checksum, by which they are refused");
  line.option("--scratch", "", "FOLDER", options.scratch,
              "for temporary files, about 4 bytes an entry (8 with values)")
      .default_text = "the output's folder";
}

void add_text_options(ImporterOptions& options, CommandLine& line) {
  line.section("Text");
  const std::string columns = join(text_format_names(&TextFormatInfo::entry_a_line), " and ");
  line.choice("--format", "", run::import_words("format"), options.format,
              text_formats_help() + "; images: no text, see --input");
  line.choice("--type", "-t", run::import_words("type"), options.type,
              fmt::format("whether input features are present or absent, or have values; auto: "
                          "analog for {}, else indicator",
                          join(text_format_names(&TextFormatInfo::valued))));
  line.choice("--target-type", "", run::import_words("target_type"), options.target_type,
              "the same for targets");
  line.choice("--header", "", run::import_words("header"), options.header,
              fmt::format("whether {} begin with a line of column names; auto: when a column is "
                          "given by name, or when the first value is no number",
                          columns));
  line.option("--example-column", "", "COLUMN", options.example_column,
              fmt::format("of {}: number or name", columns));
  line.option("--feature-column", "", "COLUMN", options.feature_column, "the same");
  line.option("--value-column", "", "COLUMN", options.value_column, "the same, with --type analog");
  line.option(
          "--time-column", "", "COLUMN", options.time_column,
          "the same, with a split by time: ISO dates and times, or Unix seconds or milliseconds")
      .default_text = "4, unless a header line calls that something else than a time";
  line.choice(
      "--libsvm-labels", "", run::import_words("libsvm_labels"), options.libsvm_labels,
      "labels of libsvm text are columns from 0, or names; auto: numbers when the text has a "
      "header line");
}

void add_image_options(ImporterOptions& options, CommandLine& line) {
  line.section("Images");
  line.option("--size", "", "WxH[xC]", options.size,
              "what every image is made: 32x32, 32x32x3 in colour, 32x32x1 in grey; without it "
              "all must have one size")
      .default_text = "as they are";
}

void add_rule_options(ImporterOptions& options, CommandLine& line) {
  line.section("What is not as expected");
  line.option("--skip-malformed", "", "N", options.skip_malformed,
              "pass over up to N malformed lines, or images that cannot be decoded");
  line.choice("--duplicates", "", run::import_words("duplicates"), options.duplicates,
              "a feature that an example names twice");
  line.choice("--empty-rows", "", run::import_words("empty_rows"), options.empty_rows,
              "an example without features, or without labels in libsvm text");
  line.choice("--repeated-examples", "", run::import_words("repeated_examples"),
              options.repeated_examples,
              "an example on two lines of dsstne text; auto: error, with --samples last");
  line.choice("--missing-examples", "", run::import_words("missing_examples"),
              options.missing_examples,
              "an example that only one of --input and --target has, or that is not in --samples; "
              "auto: drop, with --samples error");
}

void add_split_options(ImporterOptions& options, CommandLine& line) {
  line.section("Training and test parts");
  line.option(
      "--split", "", "RULE", options.split,
      "ratio:0.8/0.1/0.1 (train/validation/test), ratio:0.8/0.2 (train/test), "
      "leave-one-out; by time: time:2026-01-31 (what is older trains, the rest tests), "
      "time:2026-01-30/2026-01-31 (validation between), leave-last-out (the newest entry of "
      "each example tests); new-items:0.1: a share of the features, which training does not have: "
      "they are numbered behind the others; writes OUTPUT.train.nc and so on");
  line.choice(
      "--split-by", "", run::import_words("split_by"), options.split_by,
      "share out the entries of each example (inputs are then always its training "
      "entries), or whole examples; pair: as entry, but each by its example's label and its "
      "feature's number alone, so that it stays in its part when the text grows. Images are "
      "always shared out whole");
  line.option("--seed", "", "N", options.seed, "of the split");
  line.section("Running");
  line.toggle("--quiet", "-q", options.quiet, "warnings and errors only, no progress");
}

CommandLine importer_command_line(ImporterOptions& options) {
  CommandLine line("importer", "Makes files of data sets (NetCDF) from text and images.",
                   "importer --input PATH --output FILE.nc [options]");
  line.uses(data_libraries);
  add_file_options(options, line);
  add_text_options(options, line);
  add_image_options(options, line);
  add_rule_options(options, line);
  add_split_options(options, line);
  line.checks([&options](OptionFaults& faults) { options.check(faults); });
  line.example(
      "importer --input train.txt --target held_out.txt --name shop --output test.nc "
      "--features shop.features",
      "what was held out as targets, joined by example; first, so that the index of features knows "
      "both texts");
  line.example("importer --input train.txt --name shop --output train.nc --features shop.features",
               "inputs that are their own targets, with the same features");
  line.example(
      "importer --input ratings.csv --example-column userId --feature-column movieId "
      "--name films --output films.nc --split leave-one-out",
      "films.train.nc and films.test.nc from a table");
  line.example(
      "importer --input ratings.csv --example-column userId --feature-column movieId "
      "--time-column timestamp --name films --output films.nc --split time:2026-01-31",
      "the same by time: what each user saw before that day is input, what came later is held out");
  line.example(
      "importer --input flowers --format images --size 64x64x3 --output flowers.nc "
      "--split ratio:0.8/0.2",
      "flowers.train.nc and flowers.test.nc from a folder with a folder of images for "
      "each class");
  line.example("importer -d gl_input -i ratings.txt -o gl_input.nc -f features -s samples -c",
               "as generateNetCDF");
  return line;
}

std::string image_report_text(const ImportReport& report, double seconds) {
  std::string text;
  for (const ImportReport::File& file : report.files)
    text += fmt::format("{}: {}\n", printable(file.path.string()),
                        file.examples == 1 ? "1 image" : with_thousands(file.examples) + " images");
  const auto& [width, height, channels] = report.input_extent;
  text += fmt::format(
      "size: {} x {}, {}; {}\n", width, height, channels == 1 ? "grey" : "colour",
      report.target_width == 1 ? "1 class" : fmt::format("{} classes", report.target_width));
  if (report.malformed > 0)
    text += fmt::format("{} passed over\n", counted(report.malformed, "image"));
  return text + fmt::format("written in {}\n", human_seconds(seconds));
}

std::string report_text(const ImportReport& report, bool pair, double seconds) {
  std::string text;
  const auto say = [&text]<typename... T>(fmt::format_string<T...> words, T&&... values) {
    text += fmt::format(words, std::forward<T>(values)...) + '\n';
  };
  Index entries = 0;
  for (const ImportReport::File& file : report.files) {
    entries += file.input_entries + file.target_entries;
    if (pair) {
      say("{}: {} examples, {} input and {} target entries", printable(file.path.string()),
          with_thousands(file.examples), with_thousands(file.input_entries),
          with_thousands(file.target_entries));
    } else {
      say("{}: {} examples, {} entries", printable(file.path.string()),
          with_thousands(file.examples), with_thousands(file.input_entries));
    }
  }
  for (const std::filesystem::path& path : report.index_files) say("{}", printable(path.string()));
  if (pair) {
    say("width: {} inputs, {} targets", with_thousands(report.input_width),
        with_thousands(report.target_width));
    if (report.known_width > 0)
      say("items of the training part: {}, numbered before the others",
          with_thousands(report.known_width));
    say("examples: {} kept; {} only in the input, {} only in the target",
        with_thousands(report.joined), with_thousands(report.only_input),
        with_thousands(report.only_target));
  } else {
    say("width: {}", with_thousands(report.input_width));
    if (report.only_input + report.only_target > 0) {
      say("examples: {} of the index are not in this text, {} are new",
          with_thousands(report.only_input), with_thousands(report.only_target));
    }
  }
  const auto note = [&say](Index count, const char* what) {
    if (count > 0) say("{} {}", with_thousands(count), what);
  };
  note(report.unknown_features, "entries dropped: their features are not in the given index");
  note(report.empty_rows, "examples without features");
  note(report.unlabelled_rows, "examples without labels");
  note(report.only_later, "examples left out: all their entries are later than the training part");
  note(report.only_new, "examples left out: they have none of the items of the training part");
  note(report.before_newest,
       "entries held out that are older than the newest of training: it knows what came later; "
       "--split time:DATE holds out what comes after a date");
  note(report.duplicates, "entries merged: their example named the feature before");
  note(report.repeated_examples, "lines of examples that had been on an earlier line");
  note(report.malformed, "malformed lines passed over");
  say("{} entries written in {}", with_thousands(entries), human_seconds(seconds));
  return text;
}

int run_importer(ImporterOptions& options) {
  Console console("importer", 0, options.quiet ? LogLevel::warning : LogLevel::info);
  const StopSignals signals;
  const Progress clock(console, 0, "");
  std::optional<Progress> progress;
  std::string_view stage;
  options.log = console.log();
  const char* const counted_as = options.format == "images" ? "images" : "entries";
  options.on_progress = [&](const ImportProgress& at) {
    signals.throw_if_requested();
    if (stage != at.stage) {
      stage = at.stage;
      progress.emplace(console, at.bytes_total, at.bytes_total > 0 ? "bytes" : counted_as);
    }
    progress->update(at.bytes_total > 0 ? at.bytes_done : at.entries,
                     fmt::format("{} {} {}", at.stage, with_thousands(at.entries), counted_as));
  };
  const ImportReport report = run::import_files(options);
  progress.reset();
  if (options.quiet) return 0;
  print_results(report.input_extent[0] > 0
                    ? image_report_text(report, clock.seconds())
                    : report_text(report, options.samples.empty(), clock.seconds()));
  return 0;
}

}  // namespace
}  // namespace norn::tools

int main(int argc, char** argv) {
  using namespace norn::tools;
  return run_program(argc, argv, "importer", [&](norn::MpiSession&) {
    ImporterOptions options;
    const CommandLine line = importer_command_line(options);
    if (line.parse(argc, argv) == CommandLine::Outcome::answered) return 0;
    return run_importer(options);
  });
}
