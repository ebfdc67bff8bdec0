// SPDX-License-Identifier: Apache-2.0
// Where the trainer starts from: a descriptor, a model, or a checkpoint.
#include "src/run/training_start.h"

#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/engine/data/data_names.h"
#include "src/engine/train/ease_beside.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"
#include "src/run/model_session.h"
#include "src/run/ranks.h"
#include "src/run/resumed_run.h"

#include <array>
#include <fstream>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;

bool is_refit_model(const fs::path& path) {
  return is_refit(read_model_info(TensorFileReader(path)).network.training);
}

// The newest of the model's and, where they have a name of their own, of the checkpoints'. What was
// trained on everything comes after what chose the length.
std::optional<fs::path> newest_checkpoint(const TrainOptions& options, const Log& log) {
  const auto by_model = find_checkpoint(options.model, log);
  if (by_model == options.model && is_refit_model(*by_model)) return by_model;
  if (const auto refit = find_checkpoint(options.refit_base(), log)) return refit;
  if (options.checkpoint_base() == options.model) return by_model;
  const auto by_name = find_checkpoint(options.checkpoint_base(), log);
  if (!by_model || !by_name) return by_model ? by_model : by_name;
  const auto state_of = [](const fs::path& path) {
    return read_model_info(TensorFileReader(path)).state;
  };
  const TrainingState model = state_of(*by_model);
  // The best model of a run that has ended stands for its end, whenever it was the best.
  if (*by_model == options.model && model.search.ended_epoch > 0) return by_model;
  return model.step >= state_of(*by_name).step ? by_model : by_name;
}

bool same_schedule(const RateSchedule& a, const RateSchedule& b) {
  const auto all = [](const RateSchedule& s) {
    return std::tie(s.kind, s.warm_up, s.interval, s.multiplier, s.patience, s.minimum);
  };
  return all(a) == all(b);
}

// Weights, update state and the count of epochs go on with other data; all else was of those
// before.
void leave_data(TrainingStart& start) {
  TrainingDescriptor& training = start.network.training;
  training.validation = {};
  training.refit = false;
  training.last_epoch = 0;
  TrainingState& state = start.state;
  state.batch = state.epoch_examples = 0;
  state.epoch_cost = {};
  state.watched.clear();
  state.search = {};
  state.sets.clear();
  start.chosen.clear();
}

// From a file that has been verified.
// Where nothing is given, the layer's.
EntryWeights asked_weights(const TrainOptions& options, EntryWeights weights) {
  using enum EntryWeightScheme;
  for (const EntryWeightScheme scheme : {none, value, linear, log})
    if (equal_ignoring_case(options.entry_weights, name_of(scheme)) && scheme != weights.scheme)
      weights = {.scheme = scheme};
  if (options.entry_alpha) weights.alpha = *options.entry_alpha;
  if (options.entry_epsilon) weights.epsilon = *options.entry_epsilon;
  return weights;
}

void put_entry_weights(const TrainOptions& options, NetworkDescriptor& network, const Log& log) {
  bool any = false;
  for (LayerDescriptor& layer : network.layers) {
    if (layer.kind != LayerKind::output) continue;
    layer.entry_weights = asked_weights(options, layer.entry_weights);
    any = any || layer.entry_weights.is_on();
    if (!layer.entry_weights.is_on()) layer.entry_weights = {};
  }
  if (!any && (options.entry_alpha || options.entry_epsilon))
    log.warning(
        fmt::format("`{}` has no effect without weights of entries; `entry_weights` chooses some",
                    options.entry_alpha ? "entry_alpha" : "entry_epsilon"));
}

// As options say it.
std::string setting_text(const EntryWeights& weights) {
  std::string text = fmt::format("`entry_weights` {}", lower_case(name_of(weights.scheme)));
  if (weights.alpha != EntryWeights{}.alpha)
    text += fmt::format(", `entry_alpha` {:g}", weights.alpha);
  if (weights.epsilon != EntryWeights{}.epsilon)
    text += fmt::format(", `entry_epsilon` {:g}", weights.epsilon);
  return text;
}

ModelInfo resumable_info(const TensorFileReader& file, const std::string& where) {
  ModelInfo info = read_model_info(file);
  require_no_ease_beside(info.network, where);
  if (!info.has_training_state)
    throw DataError(
        fmt::format("{}: holds no training state to resume from; give it as `config` "
                    "to start a new run with its weights",
                    where));
  return info;
}

TrainingStart resume_from(const fs::path& path, const TrainOptions& options,
                          Communicator& communicator, const Log& log) {
  const TensorFileReader file(path);
  TrainingStart start;
  start.where = path.string();
  start.weights = path;
  start.info = resumable_info(file, start.where);
  start.network = start.info->network;
  start.state = start.info->state;
  start.resumed = true;
  start.chosen = start.info->chosen;
  if (options.other_data) leave_data(start);
  if (options.same_run) require_same_run(start, options, communicator);
  const TrainingDescriptor before = start.network.training;
  TrainingDescriptor& now = start.network.training;
  options.apply_to(now, log);
  if (is_refit(before)) {  // validation has chosen its length; by what cannot change below
    const ValidationDescriptor given = std::exchange(now.validation, before.validation);
    if (!options.validation.has_data()) now.validation.split = given.split;
    now.validation.by = given.by;
    now.validation.seed = given.seed;
    now.last_epoch = before.last_epoch;
  }
  const auto require_same = [&](bool same, const char* option, const std::string& value) {
    if (!same)
      throw UsageError(
          fmt::format("{} cannot change when a run is resumed: {} was trained with "
                      "{}; leave the option out",
                      option, path.string(), value));
  };
  if (start.is_refit()) {  // its rates are those that were validated
    require_same(now.epochs == before.epochs, "`epochs`", fmt::format("{}", before.epochs));
    require_same(now.rate == before.rate, "`rate`", fmt::format("{:g}", before.rate));
    require_same(same_schedule(now.schedule, before.schedule), "`rate_schedule`, or its settings,",
                 "others");
  }
  require_same(now.batch == before.batch, "`batch`", fmt::format("{}", before.batch));
  require_same(now.seed == before.seed, "`seed`", fmt::format("{}", before.seed));
  require_same(now.validation.split == before.validation.split, "`validation_split`",
               fmt::format("{:g}", before.validation.split));
  require_same(now.validation.split == 0.0f || now.validation.by == before.validation.by,
               "`validation_by`", before.validation.by == ValidationBy::user ? "user" : "entry");
  require_same(now.validation.split == 0.0f || now.validation_seed() == before.validation_seed(),
               "`validation_seed`", fmt::format("{}", before.validation_seed()));
  require_same(options.shuffle.empty() || start.network.shuffle == (options.shuffle == "yes"),
               "`shuffle`", start.network.shuffle ? "yes" : "no");
  for (const LayerDescriptor& layer : start.network.layers)
    require_same(layer.kind != LayerKind::output ||
                     asked_weights(options, layer.entry_weights) == layer.entry_weights,
                 "`entry_weights`", setting_text(layer.entry_weights));
  require_same(now.optimizer.index() == before.optimizer.index(), "`optimizer`",
               std::string(name_of(before.optimizer)));
  log.info(fmt::format("resuming from {}: {} of {} epochs done", path.string(), start.state.epoch,
                       now.epochs_made()));
  return start;
}

}  // namespace

// Such a model has no training state: where no checkpoint is left, it is trained once more.
bool has_ended_with_ease(const fs::path& model) {
  try {
    return path_exists(model) && has_ease_beside(read_model_info(TensorFileReader(model)).network);
  } catch (const Error&) {  // damaged, which is told elsewhere
    return false;
  }
}

std::string choose_checkpoint(const TrainOptions& options, Communicator& communicator,
                              const Log& log) {
  std::string chosen;
  rank_0_alone(communicator, [&] {
    if (const auto found = newest_checkpoint(options, log))
      chosen = found->string();
    else if (!has_ended_with_ease(options.model) &&
             (has_checkpoints(options.model) || has_checkpoints(options.checkpoint_base()) ||
              has_checkpoints(options.refit_base())))
      throw DataError(
          fmt::format("{}: neither the model nor a checkpoint of it is whole and can be resumed "
                      "from; restore one of them, or start anew with `force` instead of `resume`",
                      options.model.string()));
  });
  return text_of_rank_0(communicator, chosen);
}

bool begins_as_netcdf(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 4> head{};
  in.read(head.data(), head.size());
  const std::string_view start(head.data(), std::size_t(in.gcount()));
  return start.substr(0, 3) == "CDF" || start == "\x89HDF";
}

std::vector<RunLock> take_model_path(const TrainOptions& options, const Log& log) {
  if (options.model.empty()) return {};
  std::vector<fs::path> read = options.inputs;
  for (const auto* files :
       {&options.outputs, &options.validation.inputs, &options.validation.outputs})
    read.insert(read.end(), files->begin(), files->end());
  // A model that training goes on from may be replaced: it is read whole before.
  if (!options.config.empty() && !begins_as_netcdf(options.config)) read.push_back(options.config);
  require_apart(read, options.model);
  // A job that goes on may be started again before the processes of its predecessor have ended.
  const double patience = options.resume.empty() ? 0.0 : 10.0;
  std::vector<fs::path> bases = {options.model};
  if (options.checkpoint_base() != options.model) bases.push_back(options.checkpoint_base());
  for (const fs::path& base : bases) const AtomicFile writable(base);
  std::vector<RunLock> locks;
  for (const fs::path& base : bases) locks.emplace_back(base, patience, log);
  bases.push_back(options.refit_base());
  for (const fs::path& base : bases) {
    for (const fs::path& path : remove_abandoned_files(base))
      log.info(fmt::format("removed {}, which a run that was killed left", path.string()));
  }
  if (options.force || !options.resume.empty()) return locks;
  if (path_exists(options.model))
    throw UsageError(
        fmt::format("{}: the network file exists already; give another `model`, `force` to "
                    "replace it, or `resume` to go on with its training",
                    options.model.string()));
  if (const auto checkpoint = newest_checkpoint(options, {}))
    throw UsageError(fmt::format(
        "{}: a checkpoint of an earlier run exists; give `resume` to go on from it, `force` to "
        "start anew, or another `model`",
        checkpoint->string()));
  return locks;
}

namespace {

// Names the descriptor in messages.
std::string place_of(const TrainOptions& options) {
  return !options.network.empty() ? "network"
         : options.recipe.empty() ? options.config.string()
                                  : "`recipe` " + options.recipe;
}

void require_network(const TrainOptions& options) {
  if (!names_network(options))
    throw UsageError("`config` is missing: give a descriptor, a `recipe`, or a `network`");
  if (!options.config.empty() && !path_exists(options.config))
    throw UsageError(
        fmt::format("`config`: the file {} does not exist; name a network "
                    "descriptor (JSON) or a model",
                    options.config.string()));
}

bool begins_with_model(const TrainOptions& options) {
  return !options.config.empty() && begins_as_netcdf(options.config);
}

void tell_recipe(const TrainOptions& options, const NetworkDescriptor& network, const Log& log) {
  const TrainingDescriptor& training = network.training;
  const LayerDescriptor* hidden = network.find("Hidden");
  log.info(fmt::format(
      "recipe {}: {}; `print_recipe` shows all of it", options.recipe,
      hidden ? fmt::format("{} hidden units, batch {}, rate {:g}, {}", hidden->units(),
                           training.batch, training.rate, counted(training.epochs, "epoch"))
             : fmt::format("lambda {:g}", options.lambda.value_or(training.lambda))));
}

NetworkDescriptor read_descriptor(const TrainOptions& options, const std::string& where,
                                  std::optional<Index> epochs, const Log& log) {
  const DataSources sources = data_sources(options, where);
  const auto facts_of = [&](const std::string& dataset, const std::vector<std::string>& features) {
    DataSources known = sources;
    known.features.insert(known.features.end(), features.begin(), features.end());
    return recipe_facts(dataset, known);
  };
  const RecipeSource data{facts_of, {options.batch, epochs, {}}};
  NetworkDescriptor network;
  const auto note = [&log](const std::string& text) { log.warning(text); };
  if (!options.network.empty()) {
    network = parse_network_json(options.network, where, note, &data);
    check_network(network, where);
  } else if (options.recipe.empty()) {
    network = read_network_json(options.config, note, &data);
    check_network(network, options.config.string());
  } else {
    const std::optional<RecipeKind> recipe = recipe_named(options.recipe);
    if (!recipe)
      throw UsageError(
          "`recipe` auto trains several networks to choose one, so that there is no descriptor "
          "before; it begins with `recipe` sigmoid, and run.json and the model hold what it chose");
    network = make_recipe(*recipe, facts_of(kAutoDataset, {}), data.wishes);
    tell_recipe(options, network, log);
  }
  name_data_sets(network, sources);
  return network;
}

// Of a model whose weights a run begins with. What validation has chosen for it was for its run.
NetworkDescriptor begun_again(NetworkDescriptor network, const DataSources& sources) {
  TrainingDescriptor& training = network.training;
  if (training.method == TrainingMethod::ease)
    throw UsageError(fmt::format(
        "{}: the model is EASE, whose weights are computed at once, so that there is nothing to go "
        "on with; compute it for these data by `recipe` ease",
        sources.where));
  if (is_refit(training)) training.validation = {};
  training.refit = false;
  training.last_epoch = 0;
  name_data_sets(network, sources);
  return network;
}

}  // namespace

bool names_network(const TrainOptions& options) {
  return !(options.config.empty() && options.recipe.empty() && options.network.empty());
}

void put_settings(const TrainOptions& options, NetworkDescriptor& network, const Log& log) {
  options.apply_to(network.training, log);
  if (!options.shuffle.empty()) network.shuffle = options.shuffle == "yes";
  put_entry_weights(options, network, log);
  if (options.item_features.empty()) return;
  for (LayerDescriptor& layer : network.layers)
    if (layer.kind == LayerKind::output && !layer.feature_table)
      layer.features = options.item_features;
}

NetworkDescriptor asked_network(const TrainOptions& options, std::optional<Index> epochs,
                                const Log& log) {
  require_network(options);
  const std::string where = place_of(options);
  NetworkDescriptor network =
      begins_with_model(options)
          ? begun_again(read_model_info(TensorFileReader(options.config)).network,
                        data_sources(options, where))
          : read_descriptor(options, where, epochs, log);
  put_settings(options, network, log);
  return network;
}

TrainingStart start_training(const TrainOptions& options, Communicator& communicator,
                             const Log& log) {
  if (!options.resume.empty()) {
    if (options.resume != "auto") {
      verify_model(options.resume, communicator);
      return resume_from(options.resume, options, communicator, log);
    }
    const std::string checkpoint = choose_checkpoint(options, communicator, log);
    if (!checkpoint.empty()) return resume_from(checkpoint, options, communicator, log);
    log.info(fmt::format("no checkpoint of {} yet: starting from the beginning",
                         options.model.string()));
  }
  require_network(options);
  TrainingStart start;
  start.where = place_of(options);
  if (begins_with_model(options)) {
    if (options.validation.refit)
      throw UsageError(
          fmt::format("`refit` begins anew, and {} is a model with weights of its own; give the "
                      "descriptor that "
                      "it was made of, or a recipe",
                      options.config.string()));
    start.weights = options.config;
    start.info = open_model_info(options.config, communicator);
    require_no_ease_beside(start.info->network, start.where);
    start.info->has_training_state = false;  // its weights alone
    start.network = begun_again(start.info->network, data_sources(options, start.where));
    put_settings(options, start.network, log);
  } else {
    start.network = asked_network(options, options.epochs, log);
  }
  return start;
}

DataSources data_sources(const TrainOptions& options, const std::string& where) {
  DataSources sources{options.inputs, options.outputs.empty() ? options.inputs : options.outputs,
                      options.memory_bytes, where};
  sources.sets = options.sets;
  if (!options.item_features.empty()) sources.features.push_back(options.item_features);
  return sources;
}

TrainingStart start_refit(NetworkDescriptor network, std::int64_t epoch, const std::string& where) {
  TrainingStart start;
  start.where = where;
  start.network = std::move(network);
  TrainingDescriptor& training = start.network.training;
  training.last_epoch = epoch;
  ValidationDescriptor held_back;
  held_back.split = training.validation.split;
  held_back.by = training.validation.by;
  held_back.seed = training.validation.seed;
  training.validation = held_back;
  return start;
}

void fit_batch(TrainingStart& start, const TrainOptions& options, Index examples, const Log& log) {
  Index& batch = start.network.training.batch;
  if (batch <= examples) return;
  if (options.batch && !options.batch_may_shrink)
    throw UsageError(fmt::format(
        "`batch` {} is larger than the {} examples of the data; give `batch` {} or less", batch,
        examples, examples));
  log.warning(fmt::format("batch {} is lowered to the {} examples of the data", batch, examples));
  batch = examples;
}

}  // namespace norn::run
