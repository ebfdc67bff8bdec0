// SPDX-License-Identifier: Apache-2.0
// The table of keys: "Training".
#include "src/nn/key_builders.h"
#include "src/nn/rate_kind_names.h"

namespace norn::keys {
namespace {

void add_rule_parameters(std::vector<Key>& members) {
  for (const SharedParameter& parameter : parameters_of<UpdateRule>())
    members.push_back(by_default(parameter_key(
                                     *parameter.key, [](Draft & d) -> auto& { return d.rule; },
                                     [](const Draft& d, const std::string& name) {
                                       return changed_parameter(d.network.training.optimizer, name);
                                     }),
                                 parameter.default_text()));
}

void add_rate_keys(std::vector<Key>& members) {
  std::vector<EnumWord<RateKind>> kinds;
  for (const char* name : kRateKindNames) kinds.push_back({name, RateKind(kinds.size())});
  members.push_back(enum_key<RateKind>(
      "RateSchedule", std::move(kinds),
      [](auto& d) -> auto& { return d.network.training.schedule.kind; },
      "How the rate changes from epoch to epoch; docs/user/numerics.md has the formulas. Decay "
      "counts "
      "besides."));
  members.push_back(number_key(
      "WarmUp", [](auto& d) -> auto& { return d.network.training.schedule.warm_up; }, at_least(0),
      "Epochs, in fractions too, in which the rate rises from step to step until it is whole."));
  members.push_back(integer_key(
      "AlphaInterval", [](auto& d) -> auto& { return d.network.training.schedule.interval; },
      from_to(1, kMostUnits), "Step: epochs after which the rate is multiplied, every time."));
  members.push_back(number_key(
      "AlphaMultiplier", [](auto& d) -> auto& { return d.network.training.schedule.multiplier; },
      above(0), "Step and Plateau: what the rate is multiplied by."));
  members.push_back(integer_key(
      "RatePatience", [](auto& d) -> auto& { return d.network.training.schedule.patience; },
      from_to(1, kMostUnits),
      "Plateau: validations without a better value (epochs without a lower cost, where nothing is "
      "validated) after which the rate is multiplied."));
  members.push_back(number_key(
      "RateMinimum", [](auto& d) -> auto& { return d.network.training.schedule.minimum; },
      from_to(0, 1), "Cosine and Plateau: the share of Alpha below which the rate never falls."));
  members.push_back(number_key(
      "ClipGradient", [](auto& d) -> auto& { return d.network.training.clip_gradient; },
      at_least(0),
      "Every element of a gradient, the batch's mean, is held between -X and X; 0: as it is."));
}

void add_validation_keys(std::vector<Key>& members) {
  members.push_back(number_key(
      "ValidationSplit", [](auto& d) -> auto& { return d.network.training.validation.split; },
      from_to_below(0, 1),
      "Share of the data that is held back to validate with; 0: none. docs/user/validation.md."));
  members.push_back(enum_key<ValidationBy>(
      "ValidationBy", {{"User", ValidationBy::user}, {"Entry", ValidationBy::entry}},
      [](auto& d) -> auto& { return d.network.training.validation.by; },
      "What is held back: whole examples, or entries of every example."));
  members.push_back(by_default(
      integer_key(
          "ValidationSeed", [](auto& d) -> auto& { return d.network.training.validation.seed; },
          from_to_below(0, 0x1p64),
          "Seed that ValidationSplit draws with: runs with the same one and other Seeds hold back "
          "the same part."),
      "Seed"));
  members.push_back(integer_key(
      "ValidateEvery", [](auto& d) -> auto& { return d.network.training.validation.every; },
      from_to(1, kMostUnits), "Epochs between validations."));
  members.push_back(text_key(
      "MetricsAt", [](auto& d) -> auto& { return d.network.training.validation.metrics_at; },
      "Lengths of the lists that are evaluated: \"10,20\"."));
  members.push_back(text_key(
      "EarlyStop", [](auto& d) -> auto& { return d.network.training.validation.early_stop; },
      "Metric that ends the run when it has not become better, such as \"ndcg@20\" or \"loss\"; "
      "the best model is kept. Empty: none."));
  members.push_back(integer_key(
      "Patience", [](auto& d) -> auto& { return d.network.training.validation.patience; },
      from_to(1, kMostUnits), "Validations without a better value before EarlyStop ends the run."));
  members.push_back(by_default(
      number_key(
          "EarlyStopFrom", [](auto& d) -> auto& { return d.network.training.validation.stop_from; },
          from_to(0, 1),
          "Share of Epochs before which EarlyStop does not end the run, nor in the warm-up."),
      "0.25; with Cosine 0.75, because most is gained while the rate falls"));
  members.push_back(number_key(
      "MinDelta", [](auto& d) -> auto& { return d.network.training.validation.min_delta; },
      at_least(0), "A better value is better by more than this."));
  members.push_back(text_key(
      "KeepBest", [](auto& d) -> auto& { return d.network.training.validation.keep_best; },
      "Metric by which the best model is kept instead of the last one. Empty: none."));
}

}  // namespace

Key training_key() {
  std::vector<Key> members;
  members.push_back(enum_key<TrainingMethod>(
      "Method", {{"Steps", TrainingMethod::steps}, {"Ease", TrainingMethod::ease}},
      [](auto& d) -> auto& { return d.network.training.method; },
      "Steps: along gradients. Ease: the weights of the linear autoencoder EASE, computed at once "
      "from "
      "the data and Lambda; of the other keys of Training none has an effect. "
      "docs/user/recipes.md."));
  members.push_back(variant_key<UpdateRule>(
      "Optimizer", [](auto& d) -> auto& { return d.network.training.optimizer; },
      "Update rule of all weights."));
  members.push_back(
      with_aliases(number_key(
                       "Alpha", [](auto& d) -> auto& { return d.network.training.rate; }, above(0),
                       "Learning rate."),
                   {{"Rate", {}}}));
  members.push_back(
      with_aliases(integer_key(
                       "Batch", [](auto& d) -> auto& { return d.network.training.batch; },
                       from_to(1, kMostUnits), "Examples of a step."),
                   {{"MiniBatch", {}}}));
  members.push_back(integer_key(
      "Epochs", [](auto& d) -> auto& { return d.network.training.epochs; }, from_to(0, kMostUnits),
      "Passes over the data; with 0 the model is the initial one."));
  members.push_back(integer_key(
      "LastEpoch", [](auto& d) -> auto& { return d.network.training.last_epoch; },
      from_to(0, kMostUnits),
      "The run ends after this epoch, with the rates of a run of Epochs; 0: after all."));
  members.push_back(boolean_key(
      "Refit", [](auto& d) -> auto& { return d.network.training.refit; },
      "After a run with ValidationSplit, train on everything from the beginning, up to the epoch "
      "whose model was the best; implies KeepBest; where LastEpoch is given, that has been done, "
      "and nothing is held back. "
      "docs/user/validation.md."));
  members.push_back(number_key(
      "Lambda", [](auto& d) -> auto& { return d.network.training.lambda; }, at_least(0),
      "L2 regularisation of weights, not of biases."));
  members.push_back(number_key(
      "Lambda1", [](auto& d) -> auto& { return d.network.training.lambda1; }, at_least(0),
      "L1 regularisation of weights, not of biases."));
  members.push_back(number_key(
      "EaseWeight", [](auto& d) -> auto& { return d.network.training.ease_weight; }, at_least(0),
      "Where it is above 0, EASE is computed from the data when the training has ended, and its "
      "scores, so many times, are added to the Output layer's sums, by weights from the Input "
      "layer that are not trained. docs/user/recipes.md."));
  members.push_back(number_key(
      "EaseLambda", [](auto& d) -> auto& { return d.network.training.ease_lambda; }, at_least(0),
      "L2 regularisation of that EASE; above 0 where EaseWeight is."));
  add_rule_parameters(members);
  members.push_back(integer_key(
      "Seed", [](auto& d) -> auto& { return d.network.training.seed; }, from_to_below(0, 0x1p64),
      "Seed of all random numbers."));
  add_rate_keys(members);
  add_validation_keys(members);
  return object_key("Training", std::move(members),
                    "How to train; command line options win over it. Norn's own.");
}

}  // namespace norn::keys
