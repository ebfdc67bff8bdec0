// SPDX-License-Identifier: Apache-2.0
// The evaluator: from options to metrics on stdout.
#include "tools/evaluation/evaluation_run.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/engine/train/watched_metric.h"
#include "src/run/validation_values.h"
#include "tools/common/progress.h"
#include "tools/common/stop_signals.h"

#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace norn::tools {
void EvaluatorOptions::add_to(CommandLine& line) {
  line.section("Model and data");
  line.option("--model", "-n", "FILE", model, "trained model (NetCDF), ours or DSSTNE's").required =
      true;
  line.option("--data", "-i", "FILE", data,
              "data sets that the model's layers name: inputs, and the held-out units as outputs")
      .required = true;
  line.option("--layer", "-l", "NAME", layer, "output layer to evaluate").default_text =
      "the output layer";
  line.option("--features", "-o", "FILE", features,
              "feature index of the output: units beyond it are no candidates (padded data)");
  add_trust_index(line, trust_index);
  line.size("--data-memory", memory_bytes, "data that takes more is read batch by batch");
  line.section("Ranking");
  line.option("--top", "-k", "K,K,...", lengths, "lengths of the lists").set =
      [this](const std::string& text) { top = parse_ks(text); };
  line.toggle("--keep-seen", "", keep_seen,
              "do not leave out the units that an example's input holds");
  line.option("--exclude", "", "FILE", exclude,
              "units of these data sets are left out too; examples pair by position");
  line.option("--allow", "", "FILE", allow,
              "only these units are ranked, and of the held-out ones only these count: a label a "
              "line");
  line.option("--popularity", "", "FILE", popularity,
              "training data: also print the metrics of ranking by its popularity");
  Option& propensities =
      line.option("--propensity", "", "A,B", rarity,
                  "with --popularity: also PSP, precision that counts rare units more, by "
                  "propensities of these two numbers; usual are 0.55,1.5 (docs/user/metrics.md)");
  propensities.set = [this](const std::string& text) { propensity = parse_propensity(text); };
  line.option("--also", "", "METRIC", also,
              "also this metric: auc, and with --popularity novelty and diversity "
              "(docs/user/metrics.md)");
  line.option("--batch", "-b", "N", batch,
              "most examples of one step: fewer where memory has no room");
  line.section("Certainty");
  line.option("--interval", "", "LEVEL", interval,
              "also print in which interval each mean lies, by a bootstrap over the examples; "
              "without a number: 0.95")
      .bare_value = "0.95";
  line.option("--compare", "", "FILE", compare,
              "evaluate this model, too, and print how much more it has of each metric, with the "
              "interval and the p value of that");
  line.option("--compare-runs", "", "FOLDER", runs,
              "instead of evaluating: two folders of runs with --validation-values, and how much "
              "more the second has of what both watched")
      .stands_alone = true;
  line.option("--resamples", "", "N", resampling.resamples,
              "how often examples are drawn for --interval, --compare and --compare-runs");
  line.option("--seed", "", "N", resampling.seed, "of these draws");
  line.section("Output");
  line.choice("--format", "", {"table", "json"}, format, "of the metrics on stdout");
  line.option("--per-example", "", "FILE", per_example,
              "also write the metrics of each example: a line for each K, with tabs between");
  line.option(
      "--confusion", "", "FILE", confusion_file,
      "of examples of one class each: also write which class was taken for which, a row for "
      "each true class and a column for each that was ranked first, with tabs between");
  run.add_to(line);
}

void EvaluatorOptions::check(OptionFaults& faults) const {
  run.check(faults);
  if (propensity && popularity.empty())
    faults.fail("--propensity counts units in the training data: give them with --popularity");
  if (!per_example.empty() && per_example.lexically_normal() == confusion_file.lexically_normal())
    faults.fail(
        fmt::format("--per-example and --confusion are both {}; give each a file of its own",
                    confusion_file.string()));
  if (!runs.empty() && runs.size() != 2)
    faults.fail(fmt::format("--compare-runs is given {}; name two folders, each behind it",
                            runs.size() == 1 ? "once" : fmt::format("{} times", runs.size())));
  if (!runs.empty() && !(model.empty() && data.empty() && compare.empty()))
    faults.fail("--compare-runs evaluates no model: give it without --model, --data and --compare");
  faults.require_at_least<Index>(1, "--batch", batch);
  if (interval)
    faults.require_range(*interval > 0.0 && *interval < 1.0, "--interval", *interval,
                         "above 0 and below 1");
  faults.require_range(resampling.resamples >= 1 && resampling.resamples <= kMostResamples,
                       "--resamples", resampling.resamples,
                       fmt::format("from 1 to {}", kMostResamples));
}

CommandLine evaluator_command_line(EvaluatorOptions& options) {
  CommandLine line("evaluator", "measures how well a model ranks held-out units",
                   "evaluator --model model.nc --data test.nc [options]");
  options.add_to(line);
  line.checks([&options](OptionFaults& faults) { options.check(faults); });
  line.example("evaluator --model model.nc --data test.nc --top 10,20,100",
               "The metrics at three lengths of the lists");
  line.example("evaluator --model model.nc --data test.nc --popularity train.nc",
               "Beside what plain popularity reaches");
  line.example("evaluator --model model.nc --data test.nc --format json", "For scripts");
  line.example("evaluator --model model.nc --data test.nc --top 1,5 --confusion classes.tsv",
               "A classifier: the share that is right, and what is taken for what");
  line.example("evaluator --model model.nc --data test.nc --compare other.nc",
               "Whether another model is better, or chance may have brought the difference");
  line.example("evaluator --compare-runs runs/first --compare-runs runs/second",
               "Two trainings on the examples that both held back");
  line.remark(
      "All units are ranked; units that an example's input holds are left out when the input is as "
      "wide as the output. Means are over the examples with held-out units. docs/user/metrics.md "
      "defines the metrics.");
  std::vector<std::string> metrics;
  for (const MetricInfo& metric : kMetrics)
    if (metric.use != MetricUse::dsstne)
      metrics.push_back(fmt::format("{}: {}", metric.title, metric.help));
  line.remark(join(metrics, "; ") + ".");
  return line;
}

std::pair<double, double> parse_propensity(const std::string& text) {
  const std::size_t comma = text.find(',');
  const double a = parse_double(text.substr(0, comma)).value_or(0.0);
  const double b =
      comma == std::string::npos ? 0.0 : parse_double(text.substr(comma + 1)).value_or(0.0);
  if (!(a > 0.0 && b > 0.0 && std::isfinite(a) && std::isfinite(b)))
    throw UsageError(fmt::format(
        "--propensity: \"{}\" is no pair of numbers above 0; write for example 0.55,1.5", text));
  return {a, b};
}

std::vector<Index> parse_ks(const std::string& text) {
  try {
    return parse_metrics_at(text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--top: {}", error.what()));
  }
}

namespace {

// One model after the other, on the same data: one of them is in memory at a time.
class Evaluations {
 public:
  Evaluations(const EvaluatorOptions& options, MpiSession& session)
      : options_(options),
        session_(session),
        console_("evaluator", session.rank(), options.run.level()),
        keeps_(session.rank() == 0 && (options.interval || !options.compare.empty())) {
    if (session.rank() == 0 && !options.per_example.empty()) table_.emplace(options.per_example);
  }

  // `name`: what the model's ranking is called.
  run::EvaluationReport evaluate(const std::filesystem::path& file, const std::string& name,
                                 run::EvaluateOptions settings) {
    run::Model model(file,
                     {options_.run.device_choice(), session_.world(options_.run.collective_timeout),
                      console_.log(), options_.batch, options_.trust_index});
    const StopSignals signals;
    std::optional<Progress> progress;
    settings.on_batch = [&](Index done, Index examples) {
      signals.throw_if_requested();
      if (!progress) progress.emplace(console_, examples, "examples");
      progress->update(done);
    };
    if (table_ || keeps_)
      settings.on_example = [&](std::string_view ranking, Index example, const MetricsAtK& values) {
        const std::string called = ranking == "model" ? name : std::string(ranking);
        if (ranking != "model" && name != "model") return;  // popularity was told of before
        if (table_) table_->add(called, example, values);
        if (keeps_) examples_[called].add(example, values);
      };
    run::EvaluationReport report = run::evaluate(model, settings);
    add(name, report.model);
    if (report.popularity && name == "model") add("popularity", *report.popularity);
    return report;
  }

  void commit_table() {
    if (table_) table_->commit();
  }

  EvaluationResult result() {
    Resampling resampling = options_.resampling;
    resampling.level = options_.interval.value_or(resampling.level);
    EvaluationResult all{std::move(rankings_), {}, resampling};
    if (options_.interval)
      for (Ranking& ranking : all.rankings)
        ranking.intervals = mean_intervals(ranking.examples.values, resampling);
    if (!options_.compare.empty()) {
      const ExampleValues::Columns& model = all.rankings.front().examples;
      all.comparison = {
          model.names,
          paired_differences(model.values, all.rankings.back().examples.values, resampling)};
    }
    return all;
  }

 private:
  void add(const std::string& name, const Evaluation& evaluation) {
    rankings_.push_back({name, evaluation});
    if (keeps_)
      rankings_.back().examples = examples_[name].take(evaluation.examples + evaluation.skipped);
  }

  const EvaluatorOptions& options_;
  MpiSession& session_;
  Console console_;
  bool keeps_;  // the values of examples
  std::optional<ExampleTable> table_;
  std::map<std::string, ExampleValues> examples_;
  std::vector<Ranking> rankings_;
};

void require_files_apart(const EvaluatorOptions& options) {
  std::vector<std::filesystem::path> read = options.data;
  read.insert(read.end(), options.exclude.begin(), options.exclude.end());
  read.insert(read.end(), {options.model, options.compare, options.popularity, options.features,
                           options.allow});
  require_apart(read, options.per_example);
  require_apart(read, options.confusion_file);
}

// What two runs that held back the same examples had of them.
int compare_runs(const EvaluatorOptions& options) {
  const run::ValidationValues first = run::read_validation_values(options.runs[0]);
  const run::ValidationValues second = run::read_validation_values(options.runs[1]);
  if (first.metric.name != second.metric.name)
    throw UsageError(fmt::format(
        "--compare-runs: {} watched {} and {} watched {}; compare runs "
        "that watched the same",
        options.runs[0].string(), first.metric.name, options.runs[1].string(), second.metric.name));
  if (first.examples != second.examples)
    throw UsageError(
        fmt::format("--compare-runs: {} and {} held back other examples; give both "
                    "the same --validation-seed, or the same --validation-input",
                    options.runs[0].string(), options.runs[1].string()));
  const WatchedMetric& metric = first.metric;
  Resampling resampling = options.resampling;
  resampling.level = options.interval.value_or(resampling.level);
  EvaluationResult result{{}, {}, resampling};
  result.comparison = {
      {{metric.metric->name, metric.metric->title, metric.k}},
      paired_differences(std::span(&first.values, 1), std::span(&second.values, 1), resampling)};
  const auto examples = Index(first.values.size());
  print_results(options.format == "json" ? comparison_json(result, examples)
                                         : comparison_table(result, examples));
  return 0;
}

}  // namespace

int run_evaluation(const EvaluatorOptions& options, MpiSession& session) {
  if (!options.runs.empty()) return session.rank() == 0 ? compare_runs(options) : 0;
  require_files_apart(options);
  run::EvaluateOptions settings = static_cast<const run::EvaluateOptions&>(options);
  settings.confusion = !options.confusion_file.empty();
  if (options.keep_seen) settings.seen = SeenUnits::keep;
  std::optional<AtomicFile> confusion;
  if (session.rank() == 0 && settings.confusion) confusion.emplace(options.confusion_file);
  Evaluations evaluations(options, session);
  const run::EvaluationReport report = evaluations.evaluate(options.model, "model", settings);
  if (!options.compare.empty()) {
    settings.confusion = false;
    if (!settings.propensity) settings.popularity.clear();
    evaluations.evaluate(options.compare, "other", settings);
  }
  if (session.rank() != 0) return 0;
  evaluations.commit_table();
  if (confusion) {
    confusion->write(confusion_table(report.confusion.value()));
    confusion->commit();
  }
  const EvaluationResult result = evaluations.result();
  print_results(options.format == "json" ? evaluation_json(result) : evaluation_table(result));
  return 0;
}

}  // namespace norn::tools
