// SPDX-License-Identifier: Apache-2.0
// The table of settings of a run.
#include "src/run/train_settings.h"

#include "kernels/named_variant.h"
#include "norn/engine/metric.h"
#include "src/base/text.h"
#include "src/nn/rate_kind_names.h"

#include <cctype>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

// By RateKind.
const std::vector<std::string>& rate_schedules() {
  static const std::vector<std::string> words = rate_kind_words();
  return words;
}

template <typename T>
std::string text_of(const T& value) {
  if constexpr (std::is_convertible_v<T, std::string>)
    return value;
  else if constexpr (std::is_integral_v<T>)
    return fmt::format("{}", value);
  else
    return fmt::format("{:g}", double(value));
}

ParameterLimits at_least(double low) {
  return {.low = low};
}
ParameterLimits from_to(double low, double high) {
  return {.low = low, .high = high};
}
ParameterLimits from_to_below(double low, double high) {
  return {.low = low, .high = high, .below_high = true};
}

// "ClipGradient" of "clip_gradient".
std::string key_name(std::string_view name) {
  std::string key;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') key += begins ? char(std::toupper((unsigned char)c)) : c;
    begins = c == '_';
  }
  return key;
}

// A setting of the run itself.
template <typename Get>
TrainSetting own(std::string name, std::string value, Get get, ParameterLimits limits,
                 std::string help) {
  const auto member = [get](TrainOptions& options) -> SettingMember { return &get(options); };
  return {std::move(name), std::move(value), std::move(help), member, limits};
}

// One that wins over the descriptor's, with whose default it is shown.
template <typename Get, typename Into>
TrainSetting over(std::string name, std::string value, Get get, Into into, ParameterLimits limits,
                  std::string help) {
  TrainSetting setting = own(std::move(name), std::move(value), get, limits, std::move(help));
  setting.key = "Training." + key_name(setting.name);
  TrainingDescriptor defaults;
  if constexpr (!requires { into(defaults).has_value(); })
    setting.default_text = text_of(into(defaults));
  setting.apply = [get, into](const TrainOptions& options, TrainingDescriptor& training,
                              const Log&) {
    const auto& given = get(options);
    if constexpr (requires { *given; }) {
      if (given) into(training) = *given;
    } else if (!given.empty()) {
      into(training) = given;
    }
  };
  return setting;
}

// One of some words, for the enumeration that stands in their order in the descriptor.
template <typename Get, typename Into>
TrainSetting choice(std::string name, Get get, Into into, std::vector<std::string> words,
                    std::string help) {
  TrainSetting setting = own(std::move(name), {}, get, {}, std::move(help));
  setting.key = "Training." + key_name(setting.name);
  TrainingDescriptor defaults;
  setting.default_text = words[std::size_t(into(defaults))];
  setting.apply = [get, into, words](const TrainOptions& options, TrainingDescriptor& training,
                                     const Log&) {
    using E = std::remove_cvref_t<decltype(into(training))>;
    for (std::size_t i = 0; i < words.size(); ++i)
      if (equal_ignoring_case(get(options), words[i])) into(training) = E(i);
  };
  setting.words = std::move(words);
  return setting;
}

TrainSetting with_schedules(std::vector<RateKind> schedules, TrainSetting setting) {
  setting.schedules = std::move(schedules);
  return setting;
}
TrainSetting with_default(std::string text, TrainSetting setting) {
  setting.default_text = std::move(text);
  return setting;
}
TrainSetting with_key(std::string key, TrainSetting setting) {
  setting.key = "Training." + std::move(key);
  return setting;
}
TrainSetting changes(Change change, TrainSetting setting) {
  setting.change = change;
  return setting;
}

TrainSetting optimizer_setting() {
  TrainSetting setting = own(
      "optimizer", {}, [](auto& o) -> auto& { return o.optimizer; }, {}, "update rule");
  setting.key = "Training.Optimizer";
  setting.change = Change::never;
  setting.words = names_of<UpdateRule>();
  setting.default_text = name_of(TrainingDescriptor().optimizer);
  // The same rule again leaves the descriptor's parameters as they are.
  setting.apply = [](const TrainOptions& options, TrainingDescriptor& training, const Log&) {
    const std::string& name = options.optimizer;
    if (!name.empty() && !equal_ignoring_case(name, name_of(training.optimizer)))
      training.optimizer = find_named<UpdateRule>(name).value();
  };
  return setting;
}

// "mu1" of "Mu1", "weight_decay" of "WeightDecay".
std::string setting_name(std::string_view key) {
  std::string name;
  for (const char c : key) {
    if (std::isupper((unsigned char)c) && !name.empty()) name += '_';
    name += char(std::tolower((unsigned char)c));
  }
  return name;
}

// After the rule itself.
TrainSetting rule_setting(const SharedParameter& parameter) {
  const ParameterKey& key = *parameter.key;
  const std::string in_json(key.name), name = setting_name(key.name);
  std::string help(key.help);
  if (help.ends_with('.')) help.pop_back();
  if (help.size() > 1 && std::islower((unsigned char)help[1]))
    help[0] = char(std::tolower((unsigned char)help[0]));
  TrainSetting setting = own(
      name, "X", [in_json](auto& o) -> auto& { return o.rule[in_json]; }, key.limits, help);
  setting.default_text = "the rule's, " + parameter.default_text();
  setting.key = "Training." + in_json;
  setting.apply = [in_json, name](const TrainOptions& options, TrainingDescriptor& training,
                                  const Log& notes) {
    const auto given = options.rule.find(in_json);
    if (given == options.rule.end() || !given->second) return;
    if (!set_parameter(training.optimizer, in_json, *given->second))
      notes.warning(fmt::format("`{}` has no effect with {}; `optimizer` chooses another rule",
                                name, name_of(training.optimizer)));
  };
  return setting;
}

TrainSetting item_features_setting() {
  TrainSetting setting = own(
      "item_features", "NAME", [](auto& o) -> auto& { return o.item_features; }, {},
      "the data set with the features of the units of Output layers, a row a unit, as "
      "\"Features\" of a descriptor: items without interactions score by them");
  setting.change = Change::never;
  setting.default_text = "what the descriptor says in Features";
  return setting;
}

// Of the layers that learn targets, and no part of "Training": put_settings() puts them there.
std::vector<TrainSetting> entry_weight_settings() {
  TrainSetting scheme = own(
      "entry_weights", {}, [](auto& o) -> auto& { return o.entry_weights; }, {},
      "read values of sparse targets as weights of their entries instead of as targets: value: v, "
      "linear: 1 + `entry_alpha` v, log: 1 + `entry_alpha` ln(1 + v / `entry_epsilon`)");
  scheme.words = {"none", "value", "linear", "log"};
  std::vector<TrainSetting> all = {
      scheme,
      own(
          "entry_alpha", "X", [](auto& o) -> auto& { return o.entry_alpha; }, at_least(0),
          "of `entry_weights` linear and log: how much values count"),
      own(
          "entry_epsilon", "X", [](auto& o) -> auto& { return o.entry_epsilon; },
          {.low = 0, .above_low = true},
          "of `entry_weights` log: the value from which on more counts less")};
  for (TrainSetting& setting : all) {
    setting.change = Change::never;
    setting.default_text = "what the descriptor says in EntryWeights";
  }
  all.push_back(item_features_setting());
  return all;
}

TrainSettings training_settings() {
  using enum Change;
  std::vector<TrainSetting> all = {
      changes(never,
              over(
                  "batch", "N", [](auto& o) -> auto& { return o.batch; },
                  [](auto& t) -> auto& { return t.batch; }, at_least(1), "examples of one step")),
      changes(any_time, over(
                            "epochs", "N", [](auto& o) -> auto& { return o.epochs; },
                            [](auto& t) -> auto& { return t.epochs; }, at_least(0),
                            "passes over the data; 0: writes the initial model")),
      changes(any_time,
              with_default("the last of `epochs`",
                           over(
                               "last_epoch", "N", [](auto& o) -> auto& { return o.last_epoch; },
                               [](auto& t) -> auto& { return t.last_epoch; }, at_least(1),
                               "end after epoch N, with the rates of a run of `epochs`"))),
      with_key("Alpha", over(
                            "rate", "X", [](auto& o) -> auto& { return o.rate; },
                            [](auto& t) -> auto& { return t.rate; }, at_least(0), "learning rate")),
      over(
          "lambda", "X", [](auto& o) -> auto& { return o.lambda; },
          [](auto& t) -> auto& { return t.lambda; }, at_least(0), "L2 regularisation"),
      over(
          "lambda1", "X", [](auto& o) -> auto& { return o.lambda1; },
          [](auto& t) -> auto& { return t.lambda1; }, at_least(0), "L1 regularisation"),
      optimizer_setting()};
  for (const SharedParameter& parameter : parameters_of<UpdateRule>())
    all.push_back(rule_setting(parameter));
  TrainSetting shuffle = own(
      "shuffle", {}, [](auto& o) -> auto& { return o.shuffle; }, {},
      "visit the examples in a new random order in every epoch");
  shuffle.words = {"yes", "no"};
  shuffle.key = "ShuffleIndices";  // it is no part of "Training"
  shuffle.change = Change::never;
  shuffle.default_text = "what the descriptor says in ShuffleIndices";
  all.push_back(std::move(shuffle));
  for (TrainSetting& setting : entry_weight_settings()) all.push_back(std::move(setting));
  all.push_back(changes(never, over(
                                   "seed", "N", [](auto& o) -> auto& { return o.seed; },
                                   [](auto& t) -> auto& { return t.seed; }, at_least(0),
                                   "of initial weights, shuffling, dropout, denoising")));
  return {"Training (these win over the descriptor's \"Training\" block)", std::move(all)};
}

TrainSettings rate_settings() {
  using enum RateKind;
  return {
      "Learning rate schedule and clipping (docs/user/numerics.md)",
      {choice(
           "rate_schedule", [](auto& o) -> auto& { return o.schedule.kind; },
           [](auto& t) -> auto& { return t.schedule.kind; }, rate_schedules(),
           "how the rate changes from epoch to epoch: step multiplies it every `rate_interval` "
           "epochs, cosine lets it fall to `rate_minimum` over all epochs, plateau multiplies "
           "it when validations (without any, the cost of training) get no better"),
       over(
           "warm_up", "X", [](auto& o) -> auto& { return o.schedule.warm_up; },
           [](auto& t) -> auto& { return t.schedule.warm_up; }, at_least(0),
           "epochs, such as 0.5, in which the rate rises from step to step before"),
       with_schedules({step}, with_key("AlphaInterval",
                                       over(
                                           "rate_interval", "N",
                                           [](auto& o) -> auto& { return o.schedule.interval; },
                                           [](auto& t) -> auto& { return t.schedule.interval; },
                                           at_least(1), "step: epochs between changes"))),
       with_schedules(
           {step, plateau},
           with_key(
               "AlphaMultiplier",
               over(
                   "rate_multiplier", "X", [](auto& o) -> auto& { return o.schedule.multiplier; },
                   [](auto& t) -> auto& { return t.schedule.multiplier; },
                   {.low = 0, .above_low = true}, "step and plateau: of every change"))),
       with_schedules(
           {plateau},
           over(
               "rate_patience", "N", [](auto& o) -> auto& { return o.schedule.patience; },
               [](auto& t) -> auto& { return t.schedule.patience; }, at_least(1),
               "plateau: validations, or epochs, without a better value before a change")),
       with_schedules({cosine, plateau},
                      over(
                          "rate_minimum", "X", [](auto& o) -> auto& { return o.schedule.minimum; },
                          [](auto& t) -> auto& { return t.schedule.minimum; }, from_to(0, 1),
                          "cosine and plateau: the share of `rate` below which it never falls")),
       over(
           "clip_gradient", "X", [](auto& o) -> auto& { return o.schedule.clip_gradient; },
           [](auto& t) -> auto& { return t.clip_gradient; }, at_least(0),
           "hold every element of a gradient between -X and X; 0: as it is")}};
}

TrainSettings automatic_settings() {
  return {"Recipe auto (docs/user/recipes.md)",
          {with_default(
              "6", own(
                       "budget", "X", [](auto& o) -> auto& { return o.budget; }, at_least(1),
                       "what `recipe` auto may spend on its search and on training what it chose "
                       "together: so many trainings of the recipe sigmoid, counted in "
                       "multiplications, not in seconds"))}};
}

TrainSetting keep_best_setting() {
  TrainSetting setting = own(
      "keep_best", "METRIC", [](auto& o) -> auto& { return o.validation.keep_best; }, {},
      "make all epochs, but keep the best model instead of the last one; without a metric "
      "by ndcg at the first K");
  setting.bare_value = "auto";  // TrainOptions::apply_to() knows which that is
  setting.key = "Training.KeepBest";
  return setting;
}

// Files of data, which no descriptor has.
template <typename Get>
TrainSetting files(std::string name, Get get, std::string help) {
  TrainSetting setting = own(std::move(name), "FILE", get, {}, std::move(help));
  setting.may_differ = true;
  return setting;
}

TrainSetting split_setting() {
  return with_default(
      {}, over(
              "validation_split", "X", [](auto& o) -> auto& { return o.validation.split; },
              [](auto& t) -> auto& { return t.validation.split; }, from_to_below(0, 1),
              "hold back this share of the training data instead, 0.1 for example; "
              "drawn with the seed, the same on any number of ranks"));
}

TrainSetting for_trials(TrainSetting setting) {
  setting.for_trials = true;
  return setting;
}

// What a run is validated with.
std::vector<TrainSetting> held_out_settings() {
  using enum Change;
  std::vector<TrainSetting> all = {
      files(
          "validation_input", [](auto& o) -> auto& { return o.validation.inputs; },
          "data sets to validate with, named as those of `input`: what is known of examples "
          "that are not trained on"),
      files(
          "validation_output", [](auto& o) -> auto& { return o.validation.outputs; },
          "the held-out part of the same examples; without it those of `validation_input`"),
      changes(never, split_setting()),
      changes(never, choice(
                         "validation_by", [](auto& o) -> auto& { return o.validation.by; },
                         [](auto& t) -> auto& { return t.validation.by; }, {"user", "entry"},
                         "what is held back: whole examples, or entries of every example")),
      changes(never,
              with_default(
                  "that of the training",
                  over(
                      "validation_seed", "N", [](auto& o) -> auto& { return o.validation.seed; },
                      [](auto& t) -> auto& { return t.validation.seed; }, at_least(0),
                      "of what `validation_split` holds back: the same part for trainings with "
                      "other seeds")))};
  for (TrainSetting& setting : all) setting.for_trials = true;
  return all;
}

TrainSetting refit_setting() {
  TrainSetting setting = own(
      "refit", {}, [](auto& o) -> auto& { return o.validation.refit; }, {},
      "with `validation_split`: after the run train on everything from the beginning, up to "
      "the epoch whose model was the best, with the rates that it had; implies "
      "`keep_best`");
  setting.key = "Training.Refit";
  return setting;
}

// When a run is validated, and what follows from it.
std::vector<TrainSetting> search_settings() {
  std::vector<TrainSetting> all = {
      for_trials(over(
          "validate_every", "N", [](auto& o) -> auto& { return o.validation.every; },
          [](auto& t) -> auto& { return t.validation.every; }, at_least(1),
          "epochs between validations")),
      for_trials(over(
          "metrics_at", "K,K,...", [](auto& o) -> auto& { return o.validation.metrics_at; },
          [](auto& t) -> auto& { return t.validation.metrics_at; }, {},
          "lengths of the lists that are evaluated")),
      over(
          "early_stop", "METRIC", [](auto& o) -> auto& { return o.validation.early_stop; },
          [](auto& t) -> auto& { return t.validation.early_stop; }, {},
          fmt::format("end the run when this metric has not become better, and keep the best "
                      "model: loss, or one of {} with its K, such as ndcg@20; none: not by the "
                      "descriptor's",
                      join(metric_names()))),
      over(
          "patience", "N", [](auto& o) -> auto& { return o.validation.patience; },
          [](auto& t) -> auto& { return t.validation.patience; }, at_least(1),
          "validations without a better value before that"),
      with_default(
          "0.25; with the rate schedule Cosine 0.75",
          over(
              "early_stop_from", "X", [](auto& o) -> auto& { return o.validation.stop_from; },
              [](auto& t) -> auto& { return t.validation.stop_from; }, from_to(0, 1),
              "share of the epochs before which the run is not ended early, nor in the warm-up")),
      over(
          "min_delta", "X", [](auto& o) -> auto& { return o.validation.min_delta; },
          [](auto& t) -> auto& { return t.validation.min_delta; }, at_least(0),
          "a better value is better by more than this"),
      keep_best_setting(),
      refit_setting()};
  for (TrainSetting& setting : all) setting.change = Change::any_time;
  return all;
}

TrainSettings validation_settings() {
  TrainSettings group = {"Validation while training (docs/user/validation.md)",
                         held_out_settings()};
  for (TrainSetting& setting : search_settings()) group.settings.push_back(std::move(setting));
  return group;
}

TrainSettings checkpoint_settings() {
  TrainSettings group = {
      "Checkpoints and resuming",
      {own(
           "force", {}, [](auto& o) -> auto& { return o.force; }, {},
           "replace `model` and its checkpoints if they exist"),
       own(
           "checkpoint_epochs", "N", [](auto& o) -> auto& { return o.checkpoint_epochs; },
           at_least(0), "write a checkpoint every N epochs; 0: none"),
       own(
           "checkpoint_minutes", "X", [](auto& o) -> auto& { return o.checkpoint_minutes; },
           at_least(0), "one every X minutes; 0: none; without both 1/20 of the time at most"),
       with_default(
           "beside `model`, with its name",
           own(
               "checkpoint_name", "NAME", [](auto& o) -> auto& { return o.checkpoint_name; }, {},
               "checkpoints are NAME.epochN.nc")),
       own(
           "keep", "N", [](auto& o) -> auto& { return o.keep; }, at_least(0),
           "checkpoints that stay, the newest; 0: all"),
       for_trials(own(
           "verify", "N", [](auto& o) -> auto& { return o.verify; }, at_least(0),
           "compute every Nth step twice and end the run when the hardware gave two results; "
           "doubles the memory of weights and state; the model is the same; 0: none"))}};
  for (TrainSetting& setting : group.settings) setting.may_differ = true;
  return group;
}

}  // namespace

const std::vector<TrainSettings>& train_settings() {
  static const std::vector<TrainSettings> all = {training_settings(), automatic_settings(),
                                                 rate_settings(), validation_settings(),
                                                 checkpoint_settings()};
  return all;
}

const TrainSetting* setting_of_key(const std::string& key) {
  for (const TrainSettings& group : train_settings())
    for (const TrainSetting& setting : group.settings)
      if (!key.empty() && setting.key == key) return &setting;
  return nullptr;
}

}  // namespace norn::run
