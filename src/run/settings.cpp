// SPDX-License-Identifier: Apache-2.0
// Settings of a run: what none can have, and how they change a descriptor.
#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "norn/run/train.h"
#include "src/base/option_faults.h"
#include "src/base/text.h"
#include "src/engine/watched_metric.h"
#include "src/nn/recipe.h"

#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

void require_below(float limit, const char* setting, const std::optional<float>& value,
                   OptionFaults& faults) {
  if (value)
    faults.require_range(*value >= 0.0f && *value < limit, setting, *value,
                         fmt::format("at least 0 and below {:g}", limit));
}

// A metric that the descriptor names and the run shall not go by.
constexpr const char* kNone = "none";

// Runs a parser and puts the setting's name before what it has to say.
template <typename Parse>
void check_with(OptionFaults& faults, const char* setting, const std::string& text, Parse parse) {
  if (text.empty() || text == kNone) return;
  faults.attempt(setting, [&] {
    try {
      parse(text);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", setting, error.what()));
    }
  });
}

const std::string& name_of_kind(RateKind kind) {
  return rate_schedule_names()[std::size_t(kind)];
}

// What a run that is made again takes from its record; start_repeated() looks at the rest.
void check_repeat(const TrainOptions& options, OptionFaults& faults) {
  if (options.repeat.empty()) return;
  for (const auto& [setting, given] : {std::pair{"`config`", !options.config.empty()},
                                       {"`recipe`", !options.recipe.empty()},
                                       {"`network`", !options.network.empty()},
                                       {"`resume`", !options.resume.empty()}})
    if (given)
      faults.fail(fmt::format(
          "{} cannot be given with `repeat`, which makes the run again as it was; leave one of "
          "them out",
          setting));
}

void check_checkpoint_name(const std::filesystem::path& checkpoint_name, OptionFaults& faults) {
  const std::string name = checkpoint_name.string();
  if (name.empty() || (!name.ends_with('/') && !std::filesystem::is_directory(checkpoint_name)))
    return;
  faults.fail(
      fmt::format("`checkpoint_name` {} is a folder; checkpoints are NAME.epochN.nc: give a name "
                  "in it, such as "
                  "{}",
                  name, (checkpoint_name / "model").string()));
}

void check_network_source(const TrainOptions& options, OptionFaults& faults) {
  if (!options.recipe.empty() && !recipe_named(options.recipe))
    faults.fail(fmt::format("`recipe` {}: there is no such recipe; choose of: {}", options.recipe,
                            join(recipe_names())));
  if (!options.recipe.empty() && !options.config.empty())
    faults.fail(fmt::format(
        "`recipe` {} makes the descriptor that `config` names: give one of the two; a descriptor "
        "with \"Recipe\": \"{}\" gives what it does not say itself",
        options.recipe, options.recipe));
  if (!options.network.empty() && !(options.recipe.empty() && options.config.empty()))
    faults.fail("`network` is a descriptor as `config` and `recipe` name one: give one of them");
}

}  // namespace

const std::vector<std::string>& rate_schedule_names() {
  static const std::vector<std::string> names = {"constant", "step", "cosine", "plateau"};
  return names;
}

void RateSettings::check(OptionFaults& faults) const {
  faults.require_at_least(0.0f, "`warm_up`", warm_up);
  faults.require_at_least<Index>(1, "`rate_interval`", interval);
  if (multiplier)
    faults.require_range(*multiplier > 0.0f, "`rate_multiplier`", *multiplier, "above 0");
  faults.require_at_least<Index>(1, "`rate_patience`", patience);
  if (minimum)
    faults.require_range(*minimum >= 0.0f && *minimum <= 1.0f, "`rate_minimum`", *minimum,
                         "from 0 to 1");
  faults.require_at_least(0.0f, "`clip_gradient`", clip_gradient);
}

void RateSettings::apply_to(TrainingDescriptor& training, const Log& log) const {
  RateSchedule& schedule = training.schedule;
  for (std::size_t i = 0; i < rate_schedule_names().size(); ++i)
    if (kind == rate_schedule_names()[i]) schedule.kind = RateKind(i);
  if (warm_up) schedule.warm_up = *warm_up;
  if (interval) schedule.interval = *interval;
  if (multiplier) schedule.multiplier = *multiplier;
  if (patience) schedule.patience = *patience;
  if (minimum) schedule.minimum = *minimum;
  if (clip_gradient) training.clip_gradient = *clip_gradient;
  const auto warn = [&](bool given, const char* setting, bool has_effect) {
    if (given && !has_effect)
      log.warning(
          fmt::format("{} has no effect with the rate schedule {}; `rate_schedule` "
                      "chooses another",
                      setting, name_of_kind(schedule.kind)));
  };
  const bool step = schedule.kind == RateKind::step, cosine = schedule.kind == RateKind::cosine,
             plateau = schedule.kind == RateKind::plateau;
  warn(interval.has_value(), "`rate_interval`", step);
  warn(multiplier.has_value(), "`rate_multiplier`", step || plateau);
  warn(patience.has_value(), "`rate_patience`", plateau);
  warn(minimum.has_value(), "`rate_minimum`", cosine || plateau);
}

void ValidationSettings::check(OptionFaults& faults) const {
  if (split)
    faults.require_range(*split >= 0.0f && *split < 1.0f, "`validation_split`", *split,
                         "at least 0 and below 1");
  if (has_data() && split && *split > 0.0f)
    faults.fail(
        "`validation_split` holds back a part of the training data and `validation_input` names "
        "data of their own: give one of the two");
  if (inputs.empty() && !outputs.empty())
    faults.fail("`validation_output` needs `validation_input`; give that too");
  faults.require_at_least<Index>(1, "`validate_every`", every);
  faults.require_at_least<Index>(1, "`patience`", patience);
  faults.require_at_least(0.0f, "`min_delta`", min_delta);
  if (stop_from)
    faults.require_range(*stop_from >= 0.0f && *stop_from <= 1.0f, "`early_stop_from`", *stop_from,
                         "from 0 to 1");
  if (refit && has_data())
    faults.fail(
        "`refit` adds what was held back of the training data, and `validation_input` names data "
        "that are none of them: the best model is trained on everything already; leave `refit` "
        "out");
  check_with(faults, "`metrics_at`", metrics_at, parse_metrics_at);
  check_with(faults, "`early_stop`", early_stop, parse_watched_metric);
  if (keep_best != "auto") check_with(faults, "`keep_best`", keep_best, parse_watched_metric);
}

void ValidationSettings::apply_to(ValidationDescriptor& validation, bool refits_later) const {
  if (split) validation.split = *split;
  if (has_data()) validation.split = 0.0f;
  if (!by.empty()) validation.by = by == "user" ? ValidationBy::user : ValidationBy::entry;
  if (every) validation.every = *every;
  if (!metrics_at.empty()) validation.metrics_at = metrics_at;
  if (!early_stop.empty()) validation.early_stop = early_stop == kNone ? "" : early_stop;
  if (patience) validation.patience = *patience;
  if (min_delta) validation.min_delta = *min_delta;
  if (stop_from) validation.stop_from = *stop_from;
  if (keep_best == kNone) validation.keep_best.clear();
  const bool implied = refits_later && keep_best.empty() && validation.keep_best.empty();
  if ((keep_best.empty() && !implied) || keep_best == kNone) return;
  validation.keep_best =
      keep_best != "auto" && !implied ? keep_best
      : !validation.early_stop.empty()
          ? validation.early_stop
          : fmt::format("ndcg@{}", parse_metrics_at(validation.metrics_at).front());
}

void TrainOptions::check() const {
  OptionFaults faults;
  check(faults);
  faults.throw_any();
}

void TrainOptions::check(OptionFaults& faults) const {
  faults.require_at_least<Index>(1, "`batch`", batch);
  faults.require_at_least<Index>(1, "`last_epoch`", last_epoch);
  faults.require_at_least<Index>(0, "`epochs`", epochs);
  faults.require_at_least(0.0f, "`rate`", rate);
  faults.require_at_least(0.0f, "`lambda`", lambda);
  faults.require_at_least(0.0f, "`lambda1`", lambda1);
  require_below(1.0f, "`mu`", mu, faults);
  require_below(1.0f, "`mu1`", mu1, faults);
  faults.require_at_least<Index>(0, "`checkpoint_epochs`", checkpoint_epochs);
  faults.require_at_least<double>(0.0, "`checkpoint_minutes`", checkpoint_minutes);
  faults.require_at_least<int>(0, "`keep`", keep);
  faults.require_at_least<Index>(0, "`verify`", verify);
  schedule.check(faults);
  validation.check(faults);
  check_network_source(*this, faults);
  if (validation.refit && last_epoch)
    faults.fail(
        "`refit` ends after the epoch that validation chooses and `last_epoch` after one that is "
        "given: give one of the two");
  check_repeat(*this, faults);
  check_checkpoint_name(checkpoint_name, faults);
  if (force && !resume.empty())
    faults.fail("`force` starts anew and `resume` goes on: give one of the two");
  if (!optimizer.empty() && !find_named<UpdateRule>(optimizer))
    faults.fail(fmt::format("`optimizer` {}: there is no such update rule; choose of: {}",
                            optimizer, join(names_of<UpdateRule>())));
}

std::filesystem::path TrainOptions::checkpoint_base() const {
  if (checkpoint_name.empty()) return model;
  return checkpoint_name.string() + ".nc";
}

std::filesystem::path TrainOptions::refit_base() const {
  std::filesystem::path base = checkpoint_base();
  base.replace_filename(base.stem().string() + ".refit" + base.extension().string());
  return base;
}

void TrainOptions::apply_to(TrainingDescriptor& training, const Log& notes) const {
  if (batch) training.batch = *batch;
  if (epochs) training.epochs = *epochs;
  if (last_epoch) training.last_epoch = *last_epoch;
  if (validation.refit) training.refit = true;
  if (rate) training.rate = *rate;
  if (lambda) training.lambda = *lambda;
  if (lambda1) training.lambda1 = *lambda1;
  if (seed) training.seed = *seed;
  schedule.apply_to(training, notes);
  validation.apply_to(training.validation, training.refits_later());
  if (!optimizer.empty() && !equal_ignoring_case(optimizer, name_of(training.optimizer)))
    training.optimizer = find_named<UpdateRule>(optimizer).value();
  const auto set = [&](const char* setting, const ParameterKey& key,
                       const std::optional<float>& value) {
    if (value && !set_parameter(training.optimizer, key.name, *value))
      notes.warning(fmt::format("{} has no effect with {}; `optimizer` chooses another rule",
                                setting, name_of(training.optimizer)));
  };
  set("`mu`", kMu, mu);
  set("`mu1`", kMu1, mu1);
}

}  // namespace norn::run
