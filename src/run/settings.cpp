// SPDX-License-Identifier: Apache-2.0
// Settings of a run: what none can have, and how they change a descriptor.
#include "src/run/automatic/settings.h"

#include "norn/base/error.h"
#include "norn/run/train.h"
#include "src/base/option_faults.h"
#include "src/base/text.h"
#include "src/engine/train/watched_metric.h"
#include "src/nn/recipe.h"
#include "src/run/train_settings.h"

#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

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
  if (!options.recipe.empty() && !recipe_named(options.recipe) && !is_automatic(options))
    faults.fail(fmt::format("`recipe` {}: there is no such recipe; choose of: {}", options.recipe,
                            join(run_recipe_names())));
  if (!options.recipe.empty() && !options.config.empty())
    faults.fail(fmt::format(
        "`recipe` {} makes the descriptor that `config` names: give one of the two; a descriptor "
        "with \"Recipe\": \"{}\" gives what it does not say itself",
        options.recipe, options.recipe));
  if (!options.network.empty() && !(options.recipe.empty() && options.config.empty()))
    faults.fail("`network` is a descriptor as `config` and `recipe` name one: give one of them");
}

// What contradicts in the settings of validation, and metrics that there are not.
void check_validation(const ValidationSettings& given, OptionFaults& faults) {
  if (given.has_data() && given.split && *given.split > 0.0f)
    faults.fail(
        "`validation_split` holds back a part of the training data and `validation_input` names "
        "data of their own: give one of the two");
  if (given.inputs.empty() && !given.outputs.empty())
    faults.fail("`validation_output` needs `validation_input`; give that too");
  if (given.refit && given.has_data())
    faults.fail(
        "`refit` adds what was held back of the training data, and `validation_input` names data "
        "that are none of them: the best model is trained on everything already; leave `refit` "
        "out");
  check_with(faults, "`metrics_at`", given.metrics_at, parse_metrics_at);
  check_with(faults, "`early_stop`", given.early_stop, parse_watched_metric);
  if (given.keep_best != "auto")
    check_with(faults, "`keep_best`", given.keep_best, parse_watched_metric);
}

// What the table cannot say of the settings of validation. A run that trains on everything later
// keeps its best model, by whatever metric.
void settle_validation(const ValidationSettings& given, bool refits_later,
                       ValidationDescriptor& validation) {
  if (given.has_data()) validation.split = 0.0f;
  if (given.early_stop == kNone) validation.early_stop.clear();
  const std::string& keep = given.keep_best;
  if (keep == kNone) validation.keep_best.clear();
  const bool implied = refits_later && keep.empty() && validation.keep_best.empty();
  if ((keep.empty() && !implied) || keep == kNone) return;
  validation.keep_best =
      keep != "auto" && !implied ? keep
      : !validation.early_stop.empty()
          ? validation.early_stop
          : fmt::format("ndcg@{}", parse_metrics_at(validation.metrics_at).front());
}

}  // namespace

void TrainOptions::check() const {
  OptionFaults faults;
  check(faults);
  faults.throw_any();
}

void TrainOptions::check(OptionFaults& faults) const {
  check_settings(*this, faults);
  check_validation(validation, faults);
  check_network_source(*this, faults);
  check_automatic(*this, faults);
  if (validation.refit && last_epoch)
    faults.fail(
        "`refit` ends after the epoch that validation chooses and `last_epoch` after one that is "
        "given: give one of the two");
  check_repeat(*this, faults);
  check_checkpoint_name(checkpoint_name, faults);
  if (validation_values && run_dir.empty())
    faults.fail("`validation_values` go to a file of `run_dir`; give that too");
  if (force && !resume.empty())
    faults.fail("`force` starts anew and `resume` goes on: give one of the two");
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
  apply_settings(*this, training, notes);
  if (validation.refit) training.refit = true;
  settle_validation(validation, training.refits_later(), training.validation);
}

}  // namespace norn::run
