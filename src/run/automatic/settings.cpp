// SPDX-License-Identifier: Apache-2.0
// Settings with the recipe "auto": what is refused, and what its trainings are given.
#include "src/run/automatic/settings.h"

#include "src/base/option_faults.h"
#include "src/base/text.h"
#include "src/nn/descriptor_json.h"

#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

constexpr const char* kMetric = "ndcg@20";
constexpr float kHeldBack = 0.2f;          // of each example's entries
constexpr double kEarlyValidation = 0.75;  // of the epochs
constexpr double kOfPlain = 0.25;          // which says whether shorter trainings are tried

// Metrics that have a value for each example.
template <typename Metric>
concept Mean = requires(const RankedExample& example) {
  Metric::of_example(example);
};
template <typename... Metrics>
constexpr std::array<bool, sizeof...(Metrics)> means_of(MetricList<Metrics...>) {
  return {Mean<Metrics>...};
}

// Of a metric that is no mean nothing says how sure a difference is.
bool is_mean(const WatchedMetric& watched) {
  constexpr auto kMeans = means_of(RankingMetricsList());
  return !watched.is_loss() && kMeans[std::size_t(watched.metric - kMetrics.data())];
}

void refuse(OptionFaults& faults, bool given, const char* setting, const char* why) {
  if (given) faults.fail(fmt::format("`{}` does not go with `recipe` auto, {}", setting, why));
}

bool is_word(const std::string& text) {
  return !text.empty() && text != "none" && text != "auto";
}

void check_metric(const std::string& text, OptionFaults& faults) {
  if (!is_word(text)) return;
  try {
    if (!is_mean(parse_watched_metric(text)))
      faults.fail(fmt::format(
          "`keep_best` {} is no mean over examples of one scale for all recipes, by which `recipe` "
          "auto could choose; give another metric, such as {}",
          text, kMetric));
  } catch (const UsageError&) {  // told of already
  }
}

// EASE knows of lambda alone.
void leave_out_steps(TrainOptions& options) {
  options.item_features.clear();
  options.batch.reset();
  options.epochs.reset();
  options.rate.reset();
  options.lambda1.reset();
  options.optimizer.clear();
  options.rule.clear();
  options.seed.reset();
  options.shuffle.clear();
  options.schedule = {};
  options.verify = 0;
}

}  // namespace

bool is_automatic(const TrainOptions& options) {
  return equal_ignoring_case(options.recipe, kAutomaticRecipe);
}

void check_automatic(const TrainOptions& options, OptionFaults& faults) {
  if (!is_automatic(options)) {
    if (options.budget)
      faults.fail("`budget` is what `recipe` auto may spend; give that too, or leave it out");
    return;
  }
  const ValidationSettings& validation = options.validation;
  refuse(faults, is_word(validation.early_stop), "early_stop",
         "which trains each candidate to its end; name the metric with `keep_best`");
  refuse(faults, validation.patience.has_value(), "patience",
         "which trains each candidate to its end; leave it out");
  refuse(faults, options.last_epoch.has_value(), "last_epoch",
         "which trains each candidate to its end; give `epochs`, or leave it out");
  refuse(faults, options.lambda.has_value(), "lambda",
         "whose candidates mean different things by it: leave it out, or choose `recipe` ease or "
         "sigmoid");
  refuse(faults, validation.split && *validation.split == 0.0f && !validation.has_data(),
         "validation_split",
         "which chooses by what is held back, where it is 0; give 0.2, or leave it out");
  check_metric(validation.keep_best, faults);
}

WatchedMetric search_metric(const TrainOptions& options) {
  const std::string& wish = options.validation.keep_best;
  return parse_watched_metric(is_word(wish) ? wish : kMetric);
}

SearchFacts facts_of(const TrainOptions& options) {
  SearchFacts facts;
  facts.wishes.batch = options.batch;
  facts.wishes.epochs = options.epochs;
  facts.rate_is_given = options.rate.has_value();
  facts.length_is_given = options.epochs.has_value();
  return facts;
}

std::filesystem::path candidate_model(const std::filesystem::path& model, std::size_t number) {
  if (model.empty()) return {};
  std::filesystem::path path = model;
  path.replace_filename(
      fmt::format("{}.candidate{}{}", model.stem().string(), number, model.extension().string()));
  return path;
}

TrainOptions candidate_options(const TrainOptions& options, const NetworkDescriptor& network,
                               std::size_t number) {
  TrainOptions part = options;
  part.recipe.clear();
  part.budget.reset();
  part.network = to_json(network);
  part.model = candidate_model(options.model, number);
  part.resume = part.model.empty() ? "" : "auto";
  part.same_run = part.other_data = part.force = false;
  part.checkpoint_name.clear();
  part.run_dir.clear();
  part.validation_values = false;
  part.recorder = nullptr;
  // What is of no use to whoever waits for the whole.
  part.log = Log([all = options.log](LogLevel level, const std::string& message) {
    if (level == LogLevel::warning) all.warning(message);
  });
  ValidationSettings& validation = part.validation;
  validation.early_stop = validation.keep_best = "none";
  validation.refit = false;
  validation.metrics_at = fmt::format("{}", search_metric(options).k);
  const double share = number == 1 ? kOfPlain : kEarlyValidation;
  if (!validation.every)
    validation.every =
        std::max<Index>(1, Index(std::ceil(share * double(network.training.epochs))));
  if (!validation.has_data()) {
    if (!validation.split) validation.split = kHeldBack;
    if (validation.by.empty()) validation.by = "entry";
    // The same entries from all candidates, whether or not they draw anything else.
    if (!validation.seed) validation.seed = options.seed;
  }
  if (network.training.method != TrainingMethod::steps) leave_out_steps(part);
  return part;
}

void take_choice(const Choice& choice, TrainOptions& options) {
  options.network = choice.network;
  ValidationSettings& validation = options.validation;
  if (!validation.has_data()) validation = {};
  validation.keep_best.clear();
  validation.early_stop.clear();
  validation.refit = false;
  if (!choice.is_closed_form) return;
  leave_out_steps(options);
  options.resume.clear();  // it is computed at once, again
}

}  // namespace norn::run
