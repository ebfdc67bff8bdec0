// SPDX-License-Identifier: Apache-2.0
// Training: from options to a trained model.
#include "norn/run/train.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/host.h"
#include "src/base/text.h"
#include "src/data/contents_checksum.h"
#include "src/engine/data/feature_weights.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/shapes.h"
#include "src/run/automatic/search.h"
#include "src/run/automatic/settings.h"
#include "src/run/closed_form.h"
#include "src/run/model_access.h"
#include "src/run/observers.h"
#include "src/run/preparation.h"
#include "src/run/ranks.h"
#include "src/run/repeated_run.h"
#include "src/run/resumed_run.h"
#include "src/run/run_folder.h"
#include "src/run/scratch_folder.h"
#include "src/run/training_record.h"
#include "src/run/validation_curve.h"
#include "src/run/validation_values.h"

#include <chrono>
#include <system_error>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::vector<fs::path> absolute(std::vector<fs::path> files) {
  for (fs::path& file : files) file = fs::absolute(file);
  return files;
}

// "one process", "MPI, 2 ranks", "MPI, 2 ranks, NCCL 2.28.9".
std::string joined_by(const Context& context) {
  std::string text = context.communicator.describe();
  if (context.communicator.size() > 1 && !context.compute.memory.is_host())
    text += ", " + context.collectives->describe();
  return text;
}

// Tells that a run of epochs is over, however it ends.
class EndTold {
 public:
  explicit EndTold(const TrainObserver& observer) : observer_(observer) {}
  ~EndTold() {
    if (observer_.on_end) observer_.on_end();
  }
  EndTold(const EndTold&) = delete;
  EndTold& operator=(const EndTold&) = delete;

 private:
  const TrainObserver& observer_;
};

// Candidates of a search get their options of the run's.
TrainOptions telling_once(TrainOptions options) {
  options.log = warning_once(options.log);
  return options;
}

class TrainingRun {
 public:
  /// `on_trained`: the run is a part of a search, and its network is for that.
  TrainingRun(TrainOptions options, const TrainObserver& observer, RunFolder& folder,
              OnTrained on_trained = {})
      : options_(telling_once(std::move(options))),
        observer_(observer),
        on_trained_(std::move(on_trained)),
        folder_(folder),
        recorder_(recorder_of(options_)),
        ranks_(ranks_of(options_)),
        communicator_(*ranks_),
        log_(shared_log(options_.log, communicator_)) {}

  /// The next step after a divergence: there may be nothing to go on from.
  std::string way_on() const {
    const bool can_resume =
        !options_.model.empty() && (has_checkpoint_ || path_exists(best_model(options_.model)));
    return can_resume ? "; `resume` goes on from the last checkpoint" : "";
  }

  TrainResult run() {
    repeated_ = settle(options_);
    if (options_.resume == "auto" && options_.model.empty())
      throw UsageError("`resume` goes on from the checkpoints of a `model`: name that, too");
    std::vector<RunLock> locks;  // until all is written
    rank_0_alone(communicator_, [&] { locks = take_model_path(options_, log_); });
    folder_.open(options_.run_dir, earlier_run(), communicator_.rank(), recorder_, log_);
    const std::optional<Choice> choice = search();
    if (stopped_) return stopped_in_search();
    TrainingStart start = start_run(options_, repeated_, communicator_, log_);
    if (choice) start.chosen = choice->record;
    TrainResult result = run_from(start);
    if (choice && result.end != TrainingEnd::stopped) remove_search(options_, communicator_);
    if (result.end == TrainingEnd::stopped || !validated_) return result;
    result.model.reset();
    // The validated model stands in the model's place, and says that its run has ended.
    if (communicator_.rank() == 0 && !options_.model.empty())
      remove_checkpoints(options_.checkpoint_base());
    log_.info(fmt::format("training on everything for {}, as many as validation chose",
                          counted(best_epoch_, "epoch")));
    TrainingStart refit = start_refit(std::move(*validated_), best_epoch_, start.where);
    return run_from(refit);
  }

 private:
  // With the recipe "auto": what is to be trained, which the options name from here on.
  std::optional<Choice> search() {
    if (!is_automatic(options_) || repeated_) return {};
    const MakePart make = [](const TrainOptions& options, const TrainObserver& observer,
                             const OnTrained& on_trained) {
      RunFolder nowhere;
      return TrainingRun(options, observer, nowhere, on_trained).run();
    };
    std::optional<Choice> choice = choose_recipe(options_, observer_, communicator_, log_, make);
    stopped_ = !choice;
    if (choice) take_choice(*choice, options_);
    return choice;
  }

  TrainResult stopped_in_search() const {
    log_.warning("stopped while candidates are compared: there is no model yet; `resume` goes on");
    TrainResult result;
    result.end = TrainingEnd::stopped;
    result.speed = "a part of the search";
    return result;
  }

  // Opens the data and trains.
  TrainResult run_from(TrainingStart& start) {
    PreparedRun run;
    if (has_closed_form(start)) require_closed_form(options_, start, log_);
    run.data = bind_data(start, options_, log_);
    read_record(start, *run.data);
    if (!has_closed_form(start)) take_sets(start, *run.data);
    run.validation = open_validation(options_, start.network, *run.data, log_);
    read_validation_record(run.validation);
    if (has_closed_form(start)) return compute(start, run);
    make_run_graph(start, options_, communicator_, log_, run);
    plan_on_device(options_, communicator_, run);
    require_memory(run.memory, run.settings, run.available_bytes);
    tell_plan(run);
    EaseBeside ease(start, options_, run, bool(on_trained_));
    if (run.settings.data_on_gpu) run.data->move_to(run.context->compute.memory, run.graph.network);
    auto network = std::make_unique<Network>(std::move(run.graph), run.data->shapes(), *run.context,
                                             start.network.training.batch, Pass::training);
    network->set_unit_labels(run.data->unit_labels());
    network->set_chosen(start.chosen);
    load(start, *run.data, *network);
    if (recorder_.on_ops) network->measure_ops();
    if (!start.is_refit()) remove_earlier();
    TrainResult result = train_and_save(network, run, start, ease);
    result.step = state_.step;
    result.epoch = state_.epoch;
    result.watched = state_.watched;
    result.best = state_.search.best;
    ModelOptions options;
    options.log = network->context().log;
    const bool is_joined = has_ease_beside(network->descriptor());
    result.model =
        ModelAccess::of({ranks_, std::move(run.runtime), run.data->shapes(), std::move(network)},
                        is_joined ? std::nullopt : std::optional(state_), options);
    return result;
  }

  void remove_earlier() {
    if (!options_.force || options_.model.empty() || communicator_.rank() != 0) return;
    for (const fs::path& base : {options_.model, options_.checkpoint_base(), options_.refit_base()})
      remove_checkpoints(base);
  }

  // Weights that no steps are made for. There is nothing in it to resume.
  TrainResult compute(TrainingStart& start, PreparedRun& run) {
    auto network = make_closed_form(start, options_, communicator_, log_, run);
    network->set_unit_labels(run.data->unit_labels());
    network->set_chosen(start.chosen);
    weights_ = matrix_of(network->graph(), 0).size();
    remove_earlier();
    begin_record(*network, *run.data, start, run.runtime->description());
    folder_.begin(record_, {});
    const Clock::time_point began = Clock::now();
    compute_closed_form(options_, run, log_, *network);
    TrainResult result;
    result.speed =
        fmt::format("{} examples in {}", with_thousands(run.data->examples()),
                    human_seconds(std::chrono::duration<double>(Clock::now() - began).count()));
    if (on_trained_) {
      EaseBeside none;
      on_trained_(*network, run.validation.view(), none);
      return result;
    }
    validate_closed_form(*network, run, log_, result);
    write_values(*network, run.validation.view());
    if (!options_.model.empty()) save_model(options_.model, *network, std::nullopt);
    finish("completed", 0, result);
    ModelOptions options;
    options.log = network->context().log;
    result.model =
        ModelAccess::of({ranks_, std::move(run.runtime), run.data->shapes(), std::move(network)},
                        std::nullopt, options);
    return result;
  }

  static std::string data_on_gpu_text(const MemoryPlan& plan) {
    return plan.outside.empty()
               ? ", data on the GPU"
               : fmt::format(", data on the GPU without {}, which {} augmented",
                             join(plan.outside, " and "), plan.outside.size() == 1 ? "is" : "are");
  }

  void tell_plan(const PreparedRun& run) {
    weights_ = run.memory.weights;
    if (!options_.run_dir.empty() && communicator_.rank() == 0)
      record_.plan = plan_record(run.graph, run.settings, run.memory, run.context->compute,
                                 run.available_bytes - run.memory.total_bytes());
    log_.info(fmt::format("{} weights, {} of memory{}, {}, {}", with_thousands(run.memory.weights),
                          human_bytes(double(run.memory.total_bytes())),
                          run.settings.data_on_gpu ? data_on_gpu_text(run.memory) : "",
                          run.runtime->description(), joined_by(*run.context)));
  }

  static void load(const TrainingStart& start, const DataBinding& data, Network& network) {
    if (start.weights) return load_weights(*start.weights, *start.info, network);
    network.initialise(start.network.training.seed);
    weigh_features(network, data);
  }

  RunFolder::Earlier earlier_run() const {
    if (!options_.resume.empty()) return RunFolder::Earlier::continued;
    return options_.force ? RunFolder::Earlier::replaced : RunFolder::Earlier::refused;
  }

  // What must be read of data and origin, which may take long: rank 0 does it for all.
  void read_record(const TrainingStart& start, const DataBinding& data) {
    if (!options_.records()) return;
    rank_0_alone(communicator_, [&] {
      record_.sets = record_sets(data);
      if (repeated_)
        require_same_data(repeated_->sets, options_.repeat, record_.sets,
                          "`input` and `output_data`");
      record_.origin = repeated_ ? repeated_->origin : training_origin(options_, start);
    });
  }

  // What checkpoints are to say of the data; rank 0 writes them, so no other rank needs it.
  void take_sets(TrainingStart& start, const DataBinding& data) {
    refuse_together(communicator_, [&] {
      std::vector<TrainedSet> now = trained_sets(data);
      Fault fault;
      if (start.resumed) fault = compare_data(start, now, options_, log_);
      start.state.sets = std::move(now);
      return fault;
    });
  }

  void read_validation_record(const RunValidation& validation) {
    if (!options_.records() || !options_.validation.has_data()) return;
    rank_0_alone(communicator_, [&] {
      record_.validation_sets = record_sets(*validation.data.data);
      if (repeated_)
        require_same_data(repeated_->validation_sets, options_.repeat, record_.validation_sets,
                          "`validation_input` and `validation_output`");
    });
  }

  void begin_record(Network& network, const DataBinding& data, const TrainingStart& start,
                    const std::string& device_name) {
    if (!options_.records() || communicator_.rank() != 0) return;
    record_.facts = training_facts(options_, network, data, start, device_name, weights_);
    record_.binary = binary_checksum();
    record_.command = recorder_.called_as;
    if (!options_.model.empty()) record_.checkpoints = fs::absolute(options_.checkpoint_base());
    record_.folder = fs::current_path();
    record_.host = host_name();
    record_.inputs = absolute(options_.inputs);
    record_.outputs = absolute(options_.outputs);
    record_.validation_inputs = absolute(options_.validation.inputs);
    record_.validation_outputs = absolute(options_.validation.outputs);
    record_.trust_index = options_.trust_index;
    record_.versions = recorder_.versions;
    record_.network = to_json(network.descriptor());
    if (!start.chosen.empty()) record_.chosen = parse_json(start.chosen, "record");
    if (!repeated_) return;
    for (const std::string& difference : differences(*repeated_, record_))
      log_.warning(
          fmt::format("{}: bits are the same for one kind of device, build and precision only: {}",
                      options_.repeat.string(), difference));
  }

  // Known to rank 0; empty where nobody wants to know.
  std::string model_checksum() {
    std::string checksum;
    if (options_.records() && !options_.model.empty())
      rank_0_alone(communicator_, [&] { checksum = checksum_text(file_checksum(options_.model)); });
    return checksum;
  }

  void remove_best_model() {
    if (communicator_.rank() != 0) return;
    const fs::path best = best_model(options_.model);
    std::error_code error;
    fs::remove(best, error);
    if (error)
      log_.warning(fmt::format("{} is no longer needed and cannot be removed: {}", best.string(),
                               error.message()));
  }

  void compare_with_repeated(const std::string& checksum) {
    if (!repeated_ || communicator_.rank() != 0) return;
    const std::string recorded = repeated_->result["checksum"].text_or("");
    if (recorded.empty())
      log_.info("the run that was repeated had not ended: there is no model to compare with");
    else if (recorded == checksum)
      log_.info("the model has the same bytes as that of the run that was repeated");
    else
      log_.warning(fmt::format(
          "the model is not that of the run that was repeated: its checksum is {}, recorded {}",
          checksum, recorded));
  }

  void warn_of_nothing_to_do(const TrainingStart& start, std::int64_t epochs) const {
    if (!start.resumed || start.state.epoch < epochs) return;
    log_.warning(fmt::format("all {} epochs are done already{}", epochs,
                             start.is_refit() ? ", as many as validation chose: the run is complete"
                             : start.network.training.last_epoch > 0
                                 ? "; give a later `last_epoch`, or `epochs`, for more"
                                 : "; give `epochs` for more"));
  }

  // A run that keeps its best model and leaves none behind has it in a folder that goes away.
  CheckpointPolicy policy_of(const TrainingStart& start, ScratchFolder& scratch) {
    CheckpointPolicy policy{options_.model, options_.checkpoint_epochs.value_or(0),
                            options_.checkpoint_minutes.value_or(0.0), options_.keep,
                            start.is_refit() ? options_.refit_base() : options_.checkpoint_base()};
    policy.as_time_allows = !options_.checkpoint_epochs && !options_.checkpoint_minutes;
    const ValidationDescriptor& asked = start.network.training.validation;
    if (!options_.model.empty() || (asked.early_stop.empty() && asked.keep_best.empty()))
      return policy;
    return {scratch.path(communicator_) / "model.nc"};
  }

  TrainResult train_and_save(std::unique_ptr<Network>& held, const PreparedRun& run,
                             const TrainingStart& start, EaseBeside& ease) {
    Network& network = *held;
    const Validation validation = run.validation.view();
    const DataBinding& data = *run.data;
    const std::int64_t epochs = network.descriptor().training.epochs_made();
    TrainResult result;
    state_ = start.state;
    warn_of_nothing_to_do(start, epochs);
    const Index first = start.state.epoch * data.examples() + start.state.epoch_examples;
    ScratchFolder scratch;
    const CheckpointPolicy policy = policy_of(start, scratch);
    const Verification verification{options_.verify, run.runtime->description()};
    begin_record(network, data, start, verification.device);
    folder_.begin(record_, state_);
    has_checkpoint_ = start.resumed;
    TrainingObserver noting = curve_.observer();
    noting.on_checkpoint = [this](const CheckpointReport&) { has_checkpoint_ = true; };
    const Clock::time_point began = Clock::now();
    {
      const EndTold told(observer_);
      if (observer_.on_begin) observer_.on_begin({epochs, data.examples(), first});
      static const std::atomic<bool> never{false};
      result.end = norn::train(network, data, policy, options_.stop ? *options_.stop : never,
                               both(noting, both(observer_, folder_.observer())), state_,
                               verification, validation);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    if (recorder_.on_ops) folder_.set_ops(recorder_.on_ops(network, run.settings));
    // The best model may be of an earlier epoch than the last.
    const SearchState& search = state_.search;
    const bool ended = search.ended_epoch != start.state.search.ended_epoch;
    const Index last = ended ? search.ended_epoch : state_.epoch;
    const Index trained = last * data.examples() + state_.epoch_examples - first;
    result.speed = fmt::format(
        "{} examples in {}, {} examples/s", with_thousands(trained), human_seconds(seconds),
        with_thousands((long long)(seconds > 0.0 ? double(trained) / seconds : 0.0)));
    if (result.end == TrainingEnd::stopped)
      folder_.end("stopped", state_.epoch, {}, {});
    else if (on_trained_)
      on_trained_(network, validation, ease);
    else
      save(held, result, last, validation, ease);
    return result;
  }

  // As validations count them: without EASE beside it.
  void write_values(Network& network, const Validation& validation) {
    if (!options_.validation_values || !validation.data->data) return;
    communicator_.set_place({"validating", state_.epoch, 0});
    write_validation_values(network, validation, options_.run_dir);
  }

  // With EASE beside it the network becomes another one, for which there are no more steps.
  void save(std::unique_ptr<Network>& held, const TrainResult& result, Index last,
            const Validation& validation, EaseBeside& ease) {
    write_values(*held, validation);
    const float weight = held->descriptor().training.ease_weight;
    const bool is_joined = weight > 0.0f && !held->descriptor().training.refits_later();
    if (is_joined) {
      held = ease.join(*held);
      ease.weigh(*held, weight);
    }
    const Network& network = *held;
    if (!options_.model.empty()) {
      communicator_.set_place({"writing the model"});
      save_model(options_.model, *held, is_joined ? std::nullopt : std::optional(state_));
      remove_best_model();
    }
    const TrainingDescriptor& training = network.descriptor().training;
    if (validation.data->data)
      curve_.tell(log_, result.end, state_, training, !options_.recipe.empty());
    if (training.refits_later()) {
      validated_ = network.descriptor();
      best_epoch_ = state_.search.best_epoch;
      return;
    }
    validated_.reset();
    finish(result.end == TrainingEnd::early_stopped ? "early_stop" : "completed", last, result);
  }

  // The model stands in its file.
  void finish(const std::string& reason, Index last, const TrainResult& result) {
    const std::string checksum = model_checksum();
    folder_.end(reason, last, options_.model, checksum);
    compare_with_repeated(checksum);
    log_.info(options_.model.empty()
                  ? result.speed
                  : fmt::format("{}; model {}", result.speed, options_.model.string()));
  }

  TrainOptions options_;
  const TrainObserver& observer_;
  OnTrained on_trained_;  // or none
  RunFolder& folder_;
  const Recorder& recorder_;
  std::shared_ptr<Communicator> ranks_;
  Communicator& communicator_;
  Log log_;  // rank 0's, for all
  Index weights_ = 0;
  TrainingState state_;  // where the run stands
  ValidationCurve curve_;
  bool stopped_ = false;                        // while it searched
  bool has_checkpoint_ = false;                 // that the run could be resumed from
  std::optional<NetworkDescriptor> validated_;  // of a run that chose the length of the next
  std::int64_t best_epoch_ = 0;
  std::optional<RunRecord> repeated_;  // the run that is made again
  RunRecord record_;                   // rank 0's, of this one
};

TrainResult run_told(TrainingRun& run) {
  try {
    return run.run();
  } catch (const DivergenceError& error) {
    throw DivergenceError(error.what() + run.way_on());
  }
}

}  // namespace

TrainResult train(const TrainOptions& options, const TrainObserver& observer) {
  const auto folder = std::make_shared<RunFolder>();
  std::function<void(const std::string&, int)>* const told = recorder_of(options).record_failure;
  if (told)
    *told = [folder](const std::string& message, int exit_code) {
      folder->failed(message, exit_code);
    };
  try {
    TrainingRun run(options, observer, *folder);
    return run_told(run);
  } catch (const RunEnded&) {
    throw;  // another rank tells
  } catch (const Error& error) {
    if (!told) folder->failed(error.what(), error.exit_code());
    throw;
  }
}

std::string effective_descriptor(const TrainOptions& given) {
  TrainOptions options = given;
  const std::optional<RunRecord> repeated = settle(options);
  const std::shared_ptr<Communicator> ranks = ranks_of(options);
  return to_json(start_run(options, repeated, *ranks, shared_log(options.log, *ranks)).network);
}

}  // namespace norn::run
