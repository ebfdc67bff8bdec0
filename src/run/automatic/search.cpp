// SPDX-License-Identifier: Apache-2.0
// The search of the recipe "auto": candidates are trained and measured one after the other.
#include "src/run/automatic/search.h"

#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/data/contents_checksum.h"
#include "src/engine/data/data_names.h"
#include "src/engine/train/ease.h"
#include "src/engine/train/validating.h"
#include "src/nn/descriptor_json.h"
#include "src/run/automatic/conclusion.h"
#include "src/run/automatic/data_facts.h"
#include "src/run/automatic/ease_part.h"
#include "src/run/automatic/prediction.h"
#include "src/run/automatic/settings.h"
#include "src/run/model_session.h"
#include "src/run/preparation.h"
#include "src/run/ranks.h"
#include "src/run/resumed_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCandidates = 32;
constexpr double kEaseWeight = 128.0;  // beside a network that sees rows of length 1: it fits many
constexpr double kMostSums = 32.0;     // times as many, or as few, are tried
constexpr std::size_t kLargestJournal = std::size_t(1) << 32;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Search {
 public:
  Search(const TrainOptions& options, const TrainObserver& observer, Communicator& communicator,
         const Log& log, const MakePart& make)
      : options_(options),
        observer_(observer),
        communicator_(communicator),
        log_(log),
        make_(make),
        metric_(search_metric(options)),
        facts_(facts_of(options)),
        sources_(data_sources(options, "`recipe` auto")) {
    story_.metric = metric_.name;
    story_.budget = options.budget.value_or(kSearchBudget);
    story_.held_back = options.validation.has_data()                        ? "the validation data"
                       : equal_ignoring_case(options.validation.by, "user") ? "held-back examples"
                                                                            : "held-back entries";
  }

  std::optional<Choice> run() {
    facts_.data = recipe_facts(kAutoDataset, sources_);
    if (!prepare())
      return choose_plain(
          "too little data to hold anything back: no example has two entries, one to train on and "
          "one to find");
    open_journal();
    while (true) {
      story_.end = next_candidate(facts_, tried(journal_.findings.size()), story_.budget);
      if (!story_.end.candidate) break;
      if (!try_out(*story_.end.candidate)) return {};
    }
    if (journal_.findings.empty())
      return choose_plain(fmt::format("`budget` {:g} has no room for a search", story_.budget));
    return choose();
  }

 private:
  NetworkDescriptor described(const Candidate& candidate) const {
    return run::described(candidate, facts_, sources_);
  }

  std::vector<Tried> tried(std::size_t count) const {
    return {journal_.findings.begin(), journal_.findings.begin() + std::ptrdiff_t(count)};
  }

  // Opens the data once, for what the search has to know of them and to say before it begins.
  // False: nothing can be held back.
  bool prepare() {
    const TrainOptions part = candidate_options(options_, described({}), 1);
    TrainingStart start;
    start.where = sources_.where;
    start.network = described({});
    put_settings(part, start.network, {});
    PreparedRun run;
    run.data = bind_data(start, part, log_);
    note_origin(start.network, *run.data);
    const auto& layers = start.network.layers;
    const int target =
        int(std::ranges::find(layers, LayerKind::output, &LayerDescriptor::kind) - layers.begin());
    run.validation = open_validation(part, start.network, *run.data, log_);
    const bool by_entry = start.network.training.validation.by == ValidationBy::entry;
    if (!part.validation.has_data() && !rank_0_finds(communicator_, [&] {
          return hides_anything(*run.data, *run.validation.data.data, target, by_entry);
        }))
      return false;
    make_run_graph(start, part, communicator_, {}, run);
    plan_on_device(part, communicator_, run);
    require_memory(run.memory, run.settings, run.available_bytes);
    tell_budget(start.network.training, run,
                plan_ease(options_, sources_, run, story_.budget, facts_));
    return true;
  }

  // What another search of the same files would have in common with this one.
  void note_origin(const NetworkDescriptor& network, const DataBinding& data) {
    JsonValue origin = JsonValue::object();
    origin.set("network", to_json(network)).set("metric", metric_.name);
    origin.set("budget", story_.budget);
    JsonValue sets = JsonValue::array();
    rank_0_alone(communicator_, [&] {
      for (const TrainedSet& set : trained_sets(data)) sets.push(set.name).push(set.checksum);
    });
    for (const LayerDescriptor& layer : network.layers)
      if (layer.feature_table)
        sets.push(layer.features).push(checksum_text(layer.feature_table->checksum()));
    const std::string line = text_of_rank_0(communicator_, origin.set("sets", sets).line());
    journal_.origin = parse_json(line, "origin");
  }

  // By entry from training, by user from the inputs of the examples that are held back.
  static bool hides_anything(const DataBinding& trained, const DataBinding& held_back, int target,
                             bool by_entry) {
    Dataset& all = held_back.set_of(target);
    Dataset& known = by_entry ? trained.set_of(target) : held_back.set_of(0);
    return !known.info().shares_units_with(all.info()) || hides_entries(known, all);
  }

  void tell_budget(const TrainingDescriptor& training, const PreparedRun& run,
                   const std::optional<EasePlan>& ease) const {
    const double step = predict_step_seconds(run, communicator_);
    const Index examples = run.data->examples();
    const Index steps = training.epochs * ((examples + training.batch - 1) / training.batch);
    const double seconds = step * double(steps);
    const double with_ease = ease ? ease->most_seconds() : 0.0;
    log_.info(fmt::format(
        "recipe auto: budget {:g}, at most about {} in all ({} for a training of the recipe "
        "sigmoid as it is); candidates are compared by {} on {}",
        story_.budget, human_seconds(story_.budget * seconds + with_ease), human_seconds(seconds),
        metric_.name, story_.held_back));
  }

  // The journal of a search that goes on, the same on all ranks, or a new one.
  void open_journal() {
    if (options_.model.empty()) return;
    const fs::path file = journal_of(options_.model);
    std::string text;
    rank_0_alone(communicator_, [&] {
      if (path_exists(file)) text = read_text_file(file, kLargestJournal).value_or("");
    });
    text = text_of_rank_0(communicator_, text);
    if (text.empty()) return write_journal();
    Journal found = parse_journal(text, file);
    for (const char* what : {"network", "metric", "budget", "sets"})
      if (found.origin[what].line() != journal_.origin[what].line())
        throw UsageError(fmt::format(
            "{}: the search that it records had another {}; give what it was begun with, or begin "
            "anew with `force`",
            file.string(),
            what == std::string_view("network") ? "network, by its data or its settings"
            : what == std::string_view("sets")  ? "content of the data"
                                                : what));
    journal_ = std::move(found);
    for (std::size_t i = 0; i < journal_.findings.size(); ++i)
      if (next_candidate(facts_, tried(i), story_.budget).candidate !=
          journal_.findings[i].candidate)
        throw DataError(fmt::format(
            "{}: this program would have tried another candidate {}: the search was begun by "
            "another version; begin it anew with `force`",
            file.string(), i + 1));
    log_.info(fmt::format("going on with the search of {}: {} tried", file.string(),
                          counted(std::int64_t(journal_.findings.size()), "candidate")));
  }

  void write_journal() const {
    if (options_.model.empty() || communicator_.rank() != 0) return;
    write_file(journal_of(options_.model), journal_text(journal_));
  }

  // False: it was stopped.
  bool try_out(const Candidate& candidate) {
    NetworkDescriptor network = described(candidate);
    if (facts_.has_sums && candidate.is_network()) network.training.ease_lambda = lambda_beside();
    const std::size_t number = journal_.findings.size() + 1;
    const TrainOptions part = candidate_options(options_, network, number);
    log_.info(fmt::format("candidate {}: {} ({}), cost {:.2f} of {:g}", number, name_of(candidate),
                          settings_of(network, candidate), cost_of(candidate, facts_).in_search(),
                          story_.budget));
    Finding finding;
    finding.candidate = candidate;
    finding.value = kNone;
    const auto measure = [&](Network& trained, const Validation& validation, EaseBeside& ease) {
      finding.value = this->measure(trained, validation, finding.values);
      if (ease.is_on()) measure_sums(trained, validation, ease, finding);
    };
    try {
      const TrainResult result = make_(part, observer_of(network), measure);
      if (result.end == TrainingEnd::stopped) return false;
    } catch (const DivergenceError& error) {
      fail(error, finding);
    } catch (const DeviceError& error) {
      fail(error, finding);
    }
    finding.earlier = journal_.earlier.value_or(kNone);
    take(std::move(finding), part.model);
    return true;
  }

  // Progress within a candidate is told, its epochs are not. What is found before its end is kept
  // at once: a run that goes on does not see it again.
  TrainObserver observer_of(const NetworkDescriptor& network) {
    TrainObserver observer;
    observer.on_begin = observer_.on_begin;
    observer.on_step = observer_.on_step;
    observer.on_end = observer_.on_end;
    observer.on_rate = observer_.on_rate;
    observer.on_validation = [this,
                              last = network.training.epochs](const ValidationReport& report) {
      if (report.epoch >= last) return;
      const double value = metric_.value_of(report.metrics, report.cost);
      journal_.earlier = std::max(value, journal_.earlier.value_or(value));
      write_journal();
    };
    return observer;
  }

  double measure(Network& network, const Validation& validation, ExampleColumn& values) const {
    const ValidationCriterion criterion{{metric_.k}, metric_};
    EvaluationSettings settings = evaluation_settings(validation, criterion);
    const DataBinding& data = *validation.data->data;
    values.assign(std::size_t(data.examples()), kNone);
    settings.on_example = [&](Index example, const MetricsAtK& at) {
      values[std::size_t(example)] = metric_.value_of({at}, 0.0);
    };
    const Evaluation evaluation = evaluate(network, data, settings);
    return metric_.value_of(evaluation.metrics, evaluation.cost);
  }

  // Of the best EASE so far; before there is one, its rule's.
  float lambda_beside() const {
    Candidate best;
    best.recipe = RecipeKind::ease;
    double value = 0.0;
    for (const Finding& finding : journal_.findings)
      if (!finding.candidate.is_network() && !finding.failed && finding.value > value) {
        value = finding.value;
        best = finding.candidate;
      }
    return network_of(best, facts_).training.lambda;
  }

  // EASE beside it, twice or half as often while that is better.
  void measure_sums(Network& trained, const Validation& validation, EaseBeside& ease,
                    Finding& finding) const {
    const std::unique_ptr<Network> joined = ease.join(trained);
    const auto is_better = [&](double weight) {
      ExampleColumn values;
      ease.weigh(*joined, weight);
      const double value = measure(*joined, validation, values);
      if (finding.ease_weight > 0.0 && !(value > finding.ease_value)) return false;
      finding.ease_weight = weight;
      finding.ease_lambda = trained.descriptor().training.ease_lambda;
      finding.ease_value = value;
      finding.ease_values = std::move(values);
      return true;
    };
    is_better(kEaseWeight);
    for (const double factor : {2.0, 0.5}) {
      double weight = kEaseWeight * factor;
      while (weight <= kEaseWeight * kMostSums && weight * kMostSums >= kEaseWeight &&
             is_better(weight))
        weight *= factor;
      if (finding.ease_weight > kEaseWeight) break;
    }
  }

  // There is no search without the recipe as it is.
  void fail(const Error& error, Finding& finding) const {
    if (journal_.findings.empty()) throw;
    finding.failed = true;
    finding.failure = error.what();
    log_.warning(
        fmt::format("candidate {} is left out: {}", journal_.findings.size() + 1, error.what()));
  }

  void take(Finding finding, const fs::path& model) {
    if (!finding.failed)
      log_.info(fmt::format("candidate {}: {} {:.4f}", journal_.findings.size() + 1, metric_.name,
                            finding.value));
    journal_.findings.push_back(std::move(finding));
    journal_.earlier.reset();
    const Pick best = best_pick(journal_.findings);
    for (std::size_t i = 0; i < journal_.findings.size(); ++i) {
      if (i != 0 && best != Pick{i, false}) journal_.findings[i].values.clear();
      if (best != Pick{i, true}) journal_.findings[i].ease_values.clear();
    }
    write_journal();
    if (communicator_.rank() == 0 && !model.empty()) remove_checkpoints(model);
  }

  Choice made_of(const Candidate& candidate, const Conclusion& conclusion) {
    story_.spent = cost_of(candidate, facts_).training;
    for (const Finding& finding : journal_.findings)
      story_.spent += cost_of(finding.candidate, facts_).in_search();
    for (const std::string& line : lines_of(story_, journal_.findings, facts_, conclusion))
      journal_.findings.empty() ? log_.warning(line) : log_.info(line);
    return {to_json(described(candidate)), record_of(story_, journal_.findings, facts_, conclusion),
            !candidate.is_network()};
  }

  Choice choose_plain(std::string why) {
    story_.not_searched = std::move(why);
    return made_of({}, {});
  }

  // Rank 0 has the values of the examples, and so the word.
  Choice choose() {
    Conclusion conclusion;
    if (communicator_.rank() == 0) conclusion = conclude(journal_.findings);
    const std::string number = std::to_string(conclusion.chosen.number);
    const std::string chosen =
        text_of_rank_0(communicator_, number + (conclusion.chosen.with_ease ? "+" : ""));
    const Pick pick{std::size_t(std::stoul(chosen)), chosen.back() == '+'};
    Choice choice = made_of(candidate_of(pick, journal_.findings), conclusion);
    choice.record = text_of_rank_0(communicator_, choice.record);
    return choice;
  }

  const TrainOptions& options_;
  const TrainObserver& observer_;
  Communicator& communicator_;
  const Log& log_;
  const MakePart& make_;
  WatchedMetric metric_;
  SearchFacts facts_;
  DataSources sources_;
  SearchStory story_;
  Journal journal_;
};

Choice choice_of(const ModelInfo& info) {
  return {to_json(without_ease_beside(info.network)), info.chosen,
          info.network.training.method != TrainingMethod::steps};
}

// What the model or the checkpoint says of a search that has ended.
std::optional<Choice> choice_of(const TrainOptions& options, Communicator& communicator,
                                const Log& log) {
  if (options.resume == "auto" && path_exists(options.model)) {
    const ModelInfo model = open_model_info(options.model, communicator);
    if (!model.has_training_state && !model.chosen.empty()) return choice_of(model);
  }
  const std::string file =
      options.resume == "auto" ? choose_checkpoint(options, communicator, log) : options.resume;
  if (file.empty()) return {};
  return choice_of(read_model_info(TensorFileReader(file)));
}

}  // namespace

std::optional<Choice> choose_recipe(const TrainOptions& options, const TrainObserver& observer,
                                    Communicator& communicator, const Log& log,
                                    const MakePart& make) {
  bool begun = false;
  if (!options.model.empty()) {
    rank_0_alone(communicator, [&] { begun = path_exists(journal_of(options.model)); });
    begun = communicator.any(begun);
  }
  if (begun && options.force) remove_search(options, communicator);
  if (begun && !options.force && options.resume.empty())
    throw UsageError(fmt::format(
        "{}: a search of an earlier run exists; give `resume` to go on with it, `force` to begin "
        "anew, or another `model`",
        journal_of(options.model).string()));
  if (!begun && !options.resume.empty())
    if (std::optional<Choice> ended = choice_of(options, communicator, log)) return ended;
  return Search(options, observer, communicator, log, make).run();
}

void remove_search(const TrainOptions& options, const Communicator& communicator) {
  if (options.model.empty() || communicator.rank() != 0) return;
  // Only one candidate has any, and more than these the rules do not name.
  for (std::size_t number = 1; number <= kMostCandidates; ++number)
    remove_checkpoints(candidate_model(options.model, number));
  std::error_code problem;
  remove_abandoned(journal_of(options.model));
  fs::remove(journal_of(options.model), problem);
  if (problem)
    throw DataError(
        fmt::format("{}: the journal of a search could not be removed: {}; remove it first",
                    journal_of(options.model).string(), problem.message()));
}

}  // namespace norn::run
