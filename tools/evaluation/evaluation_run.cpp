// SPDX-License-Identifier: Apache-2.0
// The evaluator: from options to metrics on stdout.
#include "tools/evaluation/evaluation_run.h"

#include "norn/base/error.h"
#include "norn/base/text.h"
#include "norn/data/label_index.h"
#include "tools/common/model_session.h"
#include "tools/common/progress.h"
#include "tools/common/stop_signals.h"
#include "tools/training/trainer_options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;

class EvaluationRun {
 public:
  EvaluationRun(const EvaluatorOptions& options, MpiSession& session)
      : options_(options),
        session_(session),
        console_("evaluator", session.rank(), options.run.level()) {}

  int run() {
    settings_.ks = parse_ks(options_.top);
    settings_.seen = options_.keep_seen ? SeenUnits::keep : SeenUnits::leave_out;
    const std::unique_ptr<Communicator> communicator =
        session_.world(options_.run.collective_timeout);
    const ModelInfo info = open_model_info(options_.model, *communicator);
    settings_.output_layer = choose_layer(info.network, options_.layer);
    const LayerDescriptor& layer = info.network.layers[std::size_t(settings_.output_layer)];
    if (layer.kind != LayerKind::output)
      throw UsageError(
          fmt::format("--layer: \"{}\" is no output layer; metrics need one", layer.name));
    const ModelUnits units = units_of(info, options_.trust_index);
    const DataBinding data(
        info.network,
        {options_.data, options_.data, parse_bytes("--data-memory", options_.data_memory),
         options_.model.string(), &units, shared_log(console_)},
        DataBinding::Layers::inputs_and_outputs);
    UnitMatcher more(info.network, &units);
    open_excluded(more, layer.units(), data);
    if (!options_.features.empty()) count_candidates(info);
    const std::unique_ptr<Runtime> runtime = options_.run.make_runtime(*communicator);
    const std::unique_ptr<Network> network = load_network(
        options_.model, info, data.shapes(), *runtime,
        runtime->context(*communicator, console_.log()), std::min(options_.batch, data.examples()));

    std::unique_ptr<Dataset> training;
    if (!options_.popularity.empty()) training = open_training(more, layer.dataset);
    more.report(shared_log(console_));
    if (!options_.propensity.empty()) weigh_units(*training, data, layer);
    std::vector<std::string> names = {"model"};
    std::vector<Evaluation> evaluations = {evaluate_model(*network, data)};
    if (training) {
      settings_.on_batch = {};
      names.emplace_back("popularity");
      evaluations.push_back(evaluate_popularity(*network, data, *training, settings_));
    }
    if (session_.rank() != 0) return 0;
    warn_of_hidden(evaluations.front());
    const std::string text = options_.format == "json" ? evaluation_json(names, evaluations)
                                                       : evaluation_table(names, evaluations);
    print_results(text);
    return 0;
  }

 private:
  Evaluation evaluate_model(Network& network, const DataBinding& data) {
    const StopSignals signals;
    Progress progress(console_, data.examples(), "examples");
    Communicator& communicator = network.context().communicator;
    communicator.set_place({"evaluating", 0, 1});
    settings_.on_batch = [&](Index done) {
      signals.throw_if_requested();
      progress.update(done);
      communicator.set_place({"evaluating", 0, communicator.place().batch + 1});
    };
    return evaluate(network, data, settings_);
  }

  void weigh_units(Dataset& training, const DataBinding& data, const LayerDescriptor& layer) {
    Index units = settings_.units;
    for (const Dataset* set : data.sets())
      if (units == 0 && set->info().name == layer.dataset) units = set->info().width();
    const auto [a, b] = parse_propensity(options_.propensity);
    settings_.gains =
        inverse_propensities(count_units(training, units), training.info().examples, a, b);
  }

  void count_candidates(const ModelInfo& info) {
    const LabelIndex index = read_label_index(options_.features);
    if (!options_.trust_index)
      check_index_file(options_.features, index, info, settings_.output_layer);
    settings_.units = index.size();
  }

  // Every sparse set of the files that fits the layer.
  void open_excluded(UnitMatcher& matcher, Index units, const DataBinding& data) {
    const Index examples = data.examples();
    std::vector<const DatasetInfo*> paired;
    for (const Dataset* set : data.sets()) paired.push_back(&set->info());
    for (const fs::path& file : options_.exclude) {
      const std::size_t before = excluded_.size();
      for (const DatasetInfo& info : list_datasets(file))
        if (info.gives_sparse_batches() && info.examples == examples &&
            matcher.may_fit(info, settings_.output_layer))
          excluded_.push_back(
              matcher.open(info, Residency::memory, Role::input, settings_.output_layer));
      if (excluded_.size() == before)
        throw DataError(fmt::format(
            "{}: --exclude: no sparse data set with {} examples and at most {} units in it",
            file.string(), examples, units));
    }
    for (const auto& set : excluded_) {
      settings_.also_seen.push_back(set.get());
      paired.push_back(&set->info());
    }
    require_same_examples(paired);
  }

  std::unique_ptr<Dataset> open_training(UnitMatcher& matcher, const std::string& name) const {
    std::vector<std::string> names;
    for (const DatasetInfo& info : list_datasets(options_.popularity)) {
      names.push_back(info.name);
      if (info.name == name)
        return matcher.open(info, Residency::memory, Role::input, settings_.output_layer);
    }
    const std::string hint = did_you_mean(name, names);
    throw DataError(
        fmt::format("{}: --popularity: there is no data set \"{}\" in it{} It holds: {}",
                    options_.popularity.string(), name, hint.empty() ? "." : hint, join(names)));
  }

  void warn_of_hidden(const Evaluation& evaluation) {
    if (evaluation.hidden > 0)
      console_.warning(fmt::format(
          "{} held-out units are among the seen ones that are left out, so nothing can find them; "
          "use data whose held-out part is not in its input, or --keep-seen",
          with_thousands(evaluation.hidden)));
  }

  const EvaluatorOptions& options_;
  MpiSession& session_;
  Console console_;
  EvaluationSettings settings_;
  std::vector<std::unique_ptr<Dataset>> excluded_;
};

}  // namespace

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
  line.option("--data-memory", "", "SIZE", data_memory,
              "data that takes more is read batch by batch");
  line.section("Ranking");
  line.option("--top", "-k", "K,K,...", top, "lengths of the lists");
  line.toggle("--keep-seen", "", keep_seen,
              "do not leave out the units that an example's input holds");
  line.option("--exclude", "", "FILE", exclude,
              "units of these data sets are left out too; examples pair by position");
  line.option("--popularity", "", "FILE", popularity,
              "training data: also print the metrics of ranking by its popularity");
  line.option(
      "--propensity", "", "A,B", propensity,
      "with --popularity: also PSP, precision that counts rare units more, by propensities of "
      "these two numbers; usual are 0.55,1.5 (docs/user/metrics.md)");
  line.option("--batch", "-b", "N", batch, "examples of one step");
  line.section("Output");
  line.choice("--format", "", {"table", "json"}, format, "of the metrics on stdout");
  run.add_to(line);
}

void EvaluatorOptions::check(OptionFaults& faults) const {
  run.check(faults);
  faults.attempt("--top", [&] { parse_ks(top); });
  if (!propensity.empty()) faults.attempt("--propensity", [&] { parse_propensity(propensity); });
  if (!propensity.empty() && popularity.empty())
    faults.fail("--propensity counts units in the training data: give them with --popularity");
  faults.require_at_least<Index>(1, "--batch", batch);
  faults.attempt("--data-memory", [&] { parse_bytes("--data-memory", data_memory); });
}

CommandLine evaluator_command_line(EvaluatorOptions& options) {
  CommandLine line("evaluator", "measures how well a model ranks held-out units",
                   "evaluator --model model.nc --data test.nc [options]");
  options.add_to(line);
  line.checks([&options](OptionFaults& faults) { options.check(faults); });
  line.example("evaluator --model model.nc --data test.nc --top 10,20,100",
               "Recall, Precision, NDCG, MAP, MRR, HitRate and coverage");
  line.example("evaluator --model model.nc --data test.nc --popularity train.nc",
               "Beside what plain popularity reaches");
  line.example("evaluator --model model.nc --data test.nc --format json", "For scripts");
  line.remark(
      "All units are ranked; units that an example's input holds are left out when the input is as "
      "wide as the output. Means are over the examples with held-out units. docs/user/metrics.md "
      "defines "
      "the metrics.");
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
  std::vector<Index> ks;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto value = parse_integer(text.substr(at, end - at));
    if (!value || *value < 1)
      throw UsageError(
          fmt::format("--top: \"{}\" is no list of numbers from 1 on; write for "
                      "example 10,20,100",
                      text));
    ks.push_back(*value);
    at = end + 1;
  }
  return ks;
}

int run_evaluation(const EvaluatorOptions& options, MpiSession& session) {
  return EvaluationRun(options, session).run();
}

}  // namespace norn::tools
