// SPDX-License-Identifier: Apache-2.0
// The predictor's options.
#include "tools/prediction/predictor_options.h"

#include "norn/data/text_format.h"
#include "src/base/text.h"
#include "tools/cdl/command_file_options.h"
#include "tools/prediction/prediction_writer.h"

#include <fmt/format.h>

namespace norn::tools {
namespace {

std::string columns_names() {
  return join(text_format_names(&TextFormatInfo::entry_a_line), " and ");
}

std::vector<Word<HeaderLine>> header_words() {
  return {
      {"auto", HeaderLine::automatic}, {"yes", HeaderLine::present}, {"no", HeaderLine::absent}};
}

void add_request_options(PredictorOptions& options, CommandLine& line) {
  line.section("Model and requests");
  // First of all, so that the others are set after it and win.
  Option& cdl =
      line.option("--cdl", "", "FILE", options.cdl,
                  "do what a command file of DSSTNE says: print `k,precision,recall,nDCG` "
                  "for k = 1 ... 10 on stdout (docs/user/dsstne_compatibility.md)");
  cdl.stands_alone = true;
  cdl.set = [&options](const std::string& file) { read_commands(file, options); };
  line.option("--model", "-n", "FILE", options.model, "trained model (NetCDF), ours or DSSTNE's")
      .required = true;
  line.option("--dataset", "-d", "NAME", options.dataset,
              "--requests are what the data set NAME_input (or NAME) held in training, which is "
              "checked; without it they feed the model's one input layer, and a model with several "
              "takes --data");
  line.option("--requests", "-r", "FILE", options.requests,
              "examples to predict for, as text: example<TAB>feature:feature:... or another "
              "--request-format; a file, a folder or .gz");
  line.choice("--request-format", "", TextFormat::words(), options.request_format,
              "format of --requests; " + text_formats_help());
  line.choice(
      "--request-header", "", header_words(), options.request_header,
      fmt::format("whether --requests of {} begin with a line of column names; auto: when the "
                  "first value is no number, and a first line such as user,item, which names no "
                  "feature of the model, is passed over with a warning",
                  columns_names()));
  line.choice(
          "--values", "",
          {{"auto", RequestValues::automatic},
           {"yes", RequestValues::yes},
           {"no", RequestValues::no}},
          options.values,
          fmt::format("whether the features of --requests have values (feature,value); without a "
                      "word: yes; auto: those of {} text",
                      join(text_format_names(&TextFormatInfo::valued))))
      .bare_value = "yes";
  line.option("--skip-malformed", "", "N", options.skip_malformed,
              "pass over up to N malformed lines of --requests, and as many of --filter");
  Option& data =
      line.option("--data", "", "FILE", options.data,
                  "data sets (NetCDF) instead of --requests, for any number of input layers");
  data.set = files_of_line(options.data);
  line.option("--input-features", "-i", "FILE", options.input_features,
              "feature index of the input: label<TAB>number; needed only by models that have no "
              "labels, and for --data without labels");
  line.option("--output-features", "-o", "FILE", options.output_features,
              "feature index of the output; without it units have the labels of the model, or are "
              "written as numbers if it has none; units beyond the index are no candidates");
  add_trust_index(line, options.trust_index);
  line.size("--data-memory", options.memory_bytes, "--data that takes more is read batch by batch");
}

void add_choice_options(PredictorOptions& options, CommandLine& line) {
  line.section("What is predicted");
  line.option("--layer", "-l", "NAME", options.layer,
              "layer to read: an output layer gives the best units, a hidden layer its activations "
              "(embeddings)")
      .default_text = "the output layer";
  line.option("--top", "-k", "K", options.k, "units for each example; any number");
  line.option("--filter", "-f", "FILE", options.filter,
              "units to leave out for each example: example<TAB>feature:feature:... or another "
              "--filter-format");
  line.choice("--filter-format", "", TextFormat::words(), options.filter_format,
              "format of --filter");
  line.choice("--filter-header", "", header_words(), options.filter_header,
              fmt::format("whether --filter of {} begins with a line of column names, as "
                          "--request-header",
                          columns_names()));
  line.choice("--filter-mode", "", {{"exclude", FilterMode::exclude}, {"scale", FilterMode::scale}},
              options.filter_mode,
              "exclude: listed units are never chosen, whatever value stands beside them; scale: "
              "their scores are multiplied by the value, 0 without one");
  line.toggle("--exclude-seen", "", options.exclude_seen,
              "leave out the features that a request holds itself");
  line.option("--allow", "", "FILE", options.allow,
              "only these units may be chosen: a label a line");
  line.option("--explanations", "", "N", options.explanations,
              "beside each unit the N entries of the example that its score depends on most, the "
              "largest sizes first: the network's score, less that of the example without the "
              "entry, before --filter-mode scale; for --format tsv and jsonl. --allow chooses "
              "the units that are asked about");
}

void add_output_options(PredictorOptions& options, CommandLine& line) {
  line.section("Output");
  line.option("--output", "-s", "FILE", options.output,
              "where the predictions go; replaced when all are made; - is stdout (not netcdf)")
      .required = true;
  line.choice("--format", "", {"text", "tsv", "jsonl", "netcdf"}, options.format,
              "text: a line an example, example<TAB>feature,score:feature,score: with a colon at "
              "the end, as DSSTNE; tsv: a line a recommendation, example, rank, feature and score "
              "with tabs between; jsonl: the same as JSON; netcdf: one data set");
  line.option("--score-format", "-p", "FORMAT", options.score_format,
              "printf format of a number, with or without its percent sign")
      .default_text = "4.3f; tsv and activations .9g";
  line.option("--batch", "-b", "N", options.batch,
              "most examples of one step: fewer where memory has no room");
}

}  // namespace

void PredictorOptions::add_to(CommandLine& line) {
  add_request_options(*this, line);
  add_choice_options(*this, line);
  add_output_options(*this, line);
  run.add_to(line);
}

void PredictorOptions::check(OptionFaults& faults) const {
  faults.require_at_least<Index>(1, "--batch", batch);
  run.check(faults);
  if (!cdl.empty()) return;
  if (requests.empty() == data.empty())
    faults.fail(requests.empty() ? "--requests (-r) is missing: give text, or data sets with --data"
                                 : "--requests and --data exclude each other: give one of the two");
  faults.require_at_least<Index>(1, "--top", k);
  faults.require_at_least<Index>(0, "--skip-malformed", skip_malformed);
  if (explanations) faults.require_at_least<Index>(1, "--explanations", *explanations);
  if (explanations && format != "tsv" && format != "jsonl")
    faults.fail(
        fmt::format("--explanations writes entries beside each unit, for which --format {} has no "
                    "place; take tsv "
                    "or jsonl",
                    format));
  if (values != RequestValues::automatic && requests.empty())
    faults.fail("--values is for --requests; --data has its own");
  if (request_header != HeaderLine::automatic && requests.empty())
    faults.fail("--request-header is for --requests; --data has no header line");
  if (filter_header != HeaderLine::automatic && filter.empty())
    faults.fail("--filter-header is for --filter; give that too, or leave it out");
  if (!score_format.empty()) faults.attempt("--score-format", [&] { ScoreFormat{score_format}; });
  if (!score_format.empty() && (format == "jsonl" || format == "netcdf"))
    faults.fail(fmt::format("--score-format is for --format text and tsv; {} holds scores in full",
                            format));
  if (format == "netcdf" && output == "-")
    faults.fail("--output -: NetCDF needs a file; give a name, or --format text");
}

CommandLine predictor_command_line(PredictorOptions& options) {
  CommandLine line("predictor", "recommends the best output units for examples",
                   "predictor -n model.nc -r requests.txt -s recommendations.txt [options]");
  options.add_to(line);
  line.checks([&options](OptionFaults& faults) { options.check(faults); });
  line.example(
      "predictor -b 256 -d gl -i features_input -o features_output -k 10 -n gl.nc -f ratings.txt "
      "-s recs.txt -r ratings.txt",
      "As DSSTNE's predict; units listed by -f are left out");
  line.example("predictor --model model.nc --requests new.txt --exclude-seen -k 20 -s recs.txt",
               "Twenty units that the request does not hold already");
  line.example("predictor --model model.nc --data test.nc --layer Hidden1 --output vectors.txt",
               "Embeddings: the activations of a hidden layer");
  line.example(
      "predictor --model model.nc --data test.nc --top 500 --format netcdf --output recs.nc",
      "Into a data set, best first");
  line.example(
      "predictor --model model.nc --requests new.txt --exclude-seen -k 5 --explanations 3 --format "
      "tsv "
      "-s recs.tsv",
      "Each unit with the three entries that it is recommended for: feature and effect in columns");
  line.remark(
      "Features go by the labels that the model keeps; an index file that numbers them otherwise "
      "is refused. Without --filter and --exclude-seen nothing is left out: what an example holds "
      "already is "
      "recommended too. Units beyond the output feature index are never recommended. Ties go to "
      "the "
      "lower unit. Unknown features are left out and counted in one warning.");
  return line;
}

}  // namespace norn::tools
