// SPDX-License-Identifier: Apache-2.0
// The trainer: from options to a trained model.
#include "tools/training/training_run.h"

#include "norn/base/error.h"
#include "norn/base/files.h"
#include "norn/base/host.h"
#include "norn/base/text.h"
#include "norn/data/contents_checksum.h"
#include "norn/engine/feature_weights.h"
#include "norn/engine/memory_plan.h"
#include "norn/engine/trainer.h"
#include "norn/kernels/named_variant.h"
#include "norn/nn/descriptor_json.h"
#include "tools/common/model_session.h"
#include "tools/common/ranks.h"
#include "tools/common/stop_signals.h"
#include "tools/training/machine_plan.h"
#include "tools/training/plan_text.h"
#include "tools/training/repeated_run.h"
#include "tools/training/resumed_run.h"
#include "tools/training/training_record.h"
#include "tools/training/training_reports.h"
#include "tools/training/training_start.h"
#include "tools/training/validation_data.h"

#include <csignal>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;

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

class TrainingRun {
 public:
  TrainingRun(const TrainerOptions& options, MpiSession& session, RunFolder& folder)
      : options_(options),
        session_(session),
        console_("trainer", session.rank(), options.run.level()),
        folder_(folder) {}

  // The next step after a divergence: there may be nothing to go on from.
  std::string way_on() const {
    const bool can_resume = has_checkpoint_ || path_exists(best_model(options_.model));
    return can_resume ? "; --resume goes on from the last checkpoint" : "";
  }

  int run() {
    if (!options_.repeat.empty()) {
      repeated_ = read_run_record(options_.repeat);
      options_.take(*repeated_);
    }
    options_.check();
    for (const std::string& note : options_.cdl_notes) console_.warning(note);
    if (options_.plan_ranks && session_.size() > 1)
      throw UsageError(
          "--ranks plans for ranks that are not there: leave it out to plan for the ranks of this "
          "run, or start the trainer without mpirun");
    if (options_.plan_format == "json" && session_.size() > 1)
      throw UsageError(
          "--plan-format json is for plans of ranks that are not there: start the trainer without "
          "mpirun, and give --ranks");
    data_memory_ = parse_bytes("--data-memory", options_.data_memory);
    const std::unique_ptr<Communicator> communicator =
        session_.world(options_.run.collective_timeout);
    std::vector<RunLock> locks;  // until all is written
    if (!options_.only_shows()) {
      rank_0_alone(*communicator, [&] { locks = take_model_path(options_, console_); });
      folder_.open(options_.run_dir, earlier_run(), console_);
    }
    const OutputGuard guard(options_.model);
    TrainingStart start = repeated_ ? start_repeated(*repeated_, options_, *communicator, console_)
                                    : start_training(options_, *communicator, console_);
    if (options_.print_recipe) {
      if (session_.rank() == 0) std::fputs(to_json(start.network).c_str(), stdout);
      return 0;
    }
    const int code = run_from(start, *communicator);
    if (code != 0 || !validated_) return code;
    // The validated model stands in the model's place, and says that its run has ended.
    if (session_.rank() == 0) remove_checkpoints(options_.checkpoint_base());
    console_.info(fmt::format("training on everything for {}, as many as validation chose",
                              counted(best_epoch_, "epoch")));
    TrainingStart refit = start_refit(std::move(*validated_), best_epoch_, start.where);
    return run_from(refit, *communicator);
  }

 private:
  // Opens the data and trains; or plans, and does no more.
  int run_from(TrainingStart& start, Communicator& communicator) {
    // Data sets may come to stand in its memory, so it outlives them.
    std::unique_ptr<Runtime> runtime;
    DataBinding data = bind_data(start);
    read_record(start, data, communicator);
    take_sets(start, data, communicator);
    const RunValidation validation =
        open_validation(options_, start.network, data, shared_log(console_));
    read_validation_record(validation, communicator);
    settle_batch(start, data.examples());
    Graph graph = make_graph(start.network, data.shapes(), start.where);
    require_runnable(graph, Use::training, start.where);
    check_validation(validation, graph.network, data);
    if (start.weights) check_model_sizes(*start.weights, graph, communicator);

    if (options_.plans_machine() && session_.size() == 1) {
      plan_machine(plan_settings(graph, data, validation.view()), graph);
      return 0;
    }
    runtime = options_.run.make_runtime(communicator);
    const Context context = runtime->context(communicator, console_.log());
    if (plan(plan_settings(graph, data, validation.view()), graph, data, *runtime, context))
      return 0;
    Network network(std::move(graph), data.shapes(), context, start.network.training.batch,
                    Pass::training);
    network.set_unit_labels(data.unit_labels());
    load(start, data, network);
    if (options_.force && !start.is_refit() && session_.rank() == 0)
      for (const fs::path& base :
           {options_.model, options_.checkpoint_base(), options_.refit_base()})
        remove_checkpoints(base);
    return train_and_save(network, data, start, {options_.verify, runtime->description()},
                          validation.view());
  }

  // With a model's units where the run begins with its weights.
  DataBinding bind_data(const TrainingStart& start) {
    const ModelUnits units =
        start.info ? units_of(*start.info, options_.trust_index) : ModelUnits();
    DataSources sources = data_sources(options_, start.where);
    sources.units = start.info ? &units : nullptr;
    sources.log = shared_log(console_);
    return {start.network, sources, DataBinding::Layers::inputs_and_outputs};
  }

  // What a plan depends on wherever it is for.
  PlanSettings plan_settings(const Graph& graph, const DataBinding& data,
                             const Validation& validation) const {
    PlanSettings settings;
    settings.batch = graph.network.training.batch;
    settings.ranks = session_.size();
    settings.keeps_state = options_.verify > 0;
    for (const Dataset* set : data.sets()) settings.sets.push_back(set->info());
    settings.data_memory_bytes = data_memory_;
    settings.validation = plan_validation(graph.network, validation);
    return settings;
  }

  MachineDescription machine() {
    if (options_.machine.empty()) return h200_machine();
    return read_machine_json(options_.machine,
                             [this](const std::string& note) { console_.warning(note); });
  }

  // A plan for a machine that is described: nothing is measured, and nothing large is allocated.
  void plan_machine(PlanSettings settings, const Graph& graph) {
    settings.ranks = options_.plan_ranks.value_or(1);
    const MachineDescription described = machine();
    const MachinePlan plan = plan_on_machine(
        graph, settings, described, precision_named(options_.run.precision).value(),
        choose_nodes(options_.plan_nodes, settings.ranks, described), options_.data_place());
    const std::string text =
        options_.plan_format == "json" ? machine_plan_json(plan) : machine_plan_text(plan);
    print_results(text);
    require_memory(plan.memory, plan.settings, plan.available_bytes);
  }

  // True when the plan was all that was asked for.
  bool plan(PlanSettings settings, const Graph& graph, DataBinding& data, const Runtime& runtime,
            const Context& context) {
    set_device(settings, context.compute);
    const std::int64_t free = runtime.available_bytes();
    settings.data_on_gpu = choose_data_on_gpu(graph, settings, options_.data_place(), free);
    const MemoryPlan plan = plan_memory(graph, settings);
    // The data sets are open: what they hold of main memory is taken already.
    const std::int64_t available =
        settings.on_gpu ? free : free / ranks_on_this_host() + plan.data_bytes;
    if (options_.plan) print_plan(graph, plan, settings, available, context);
    require_memory(plan, settings, available);
    if (options_.plan) return true;
    weights_ = plan.weights;
    if (!options_.run_dir.empty() && session_.rank() == 0)
      record_.plan =
          plan_record(graph, settings, plan, context.compute, available - plan.total_bytes());
    console_.info(fmt::format("{} weights, {} of memory{}, {}, {}", with_thousands(plan.weights),
                              human_bytes(double(plan.total_bytes())),
                              settings.data_on_gpu ? ", data on the GPU" : "",
                              runtime.description(), joined_by(context)));
    if (settings.data_on_gpu) data.move_to(context.compute.memory);
    return false;
  }

  // Ranks measure together how fast they exchange data; rank 0 alone what it computes.
  void print_plan(const Graph& graph, const MemoryPlan& plan, const PlanSettings& settings,
                  std::int64_t available, const Context& context) {
    MachineDescription links;
    const bool asks = settings.ranks > 1 && options_.machine.empty();
    if (asks) {
      context.communicator.set_place({"measuring"});
      const LinkWay way = measure_link(context);
      links.name = fmt::format("measured: {:.3g} us a collective, {:.3g} GB/s",
                               way.start_microseconds, way.gigabytes);
      links.inside_node = links.between_nodes = {way};
    } else if (settings.ranks > 1) {
      links = machine();
    }
    if (session_.rank() != 0) return;
    print_results(plan_text(plan, settings, available));
    if (plan.total_bytes() > available && settings.on_gpu) return;
    const TimedStep step = time_step(graph, settings, context);
    print_results(step.text);
    if (settings.ranks == 1) return;
    const int nodes = asks ? 1
                      : options_.plan_nodes
                          ? choose_nodes(options_.plan_nodes, settings.ranks, links)
                          : hosts();
    std::fputs(communication_text(plan_communication(graph, settings, links, nodes, step.seconds),
                                  links.name)
                   .c_str(),
               stdout);
  }

  int hosts() const {
    const int each = ranks_on_this_host();
    return (session_.size() + each - 1) / each;
  }

  struct TimedStep {
    double seconds = 0.0;
    std::string text;
  };
  static TimedStep time_step(const Graph& graph, const PlanSettings& settings,
                             const Context& context) {
    const WorkPlan work = plan_work(graph, settings);
    if (settings.on_gpu) {
      const StepTime time = measure_step(graph, settings, context);
      return {time.seconds, step_text(settings, work, time)};
    }
    const WorkRates rates = measure_rates(context.compute, graph, settings.batch);
    return {predicted_seconds(work, rates), step_text(settings, work, rates)};
  }

  void load(const TrainingStart& start, const DataBinding& data, Network& network) {
    if (!start.weights) {
      network.initialise(start.network.training.seed);
      weigh_features(network, data);
      return;
    }
    std::unique_ptr<TensorFileReader> file;
    if (session_.rank() == 0) file = std::make_unique<TensorFileReader>(*start.weights);
    load_weights(file.get(), *start.info, network);
  }

  RunFolder::Earlier earlier_run() const {
    if (!options_.resume.empty()) return RunFolder::Earlier::continued;
    return options_.force ? RunFolder::Earlier::replaced : RunFolder::Earlier::refused;
  }

  // What must be read of data and origin, which may take long: rank 0 does it for all.
  void read_record(const TrainingStart& start, const DataBinding& data,
                   Communicator& communicator) {
    if (!options_.records()) return;
    rank_0_alone(communicator, [&] {
      record_.sets = record_sets(data);
      if (repeated_)
        require_same_data(repeated_->sets, options_.repeat, record_.sets,
                          "--input and --output-data");
      record_.origin = repeated_ ? repeated_->origin : training_origin(options_, start);
    });
  }

  void settle_batch(TrainingStart& start, Index examples) {
    if (!start.resumed) return fit_batch(start, options_, examples, console_);
    require_place(start, examples);
    compare_descriptor(start, options_, examples, console_);
  }

  // What checkpoints are to say of the data; rank 0 writes them, so no other rank needs it.
  void take_sets(TrainingStart& start, const DataBinding& data, Communicator& communicator) {
    if (options_.plan) return;
    rank_0_alone(communicator, [&] {
      std::vector<TrainedSet> now = trained_sets(data);
      if (start.resumed) compare_data(start, now, console_);
      start.state.sets = std::move(now);
    });
  }

  void read_validation_record(const RunValidation& validation, Communicator& communicator) {
    if (!options_.records() || options_.validation.inputs.empty()) return;
    rank_0_alone(communicator, [&] {
      record_.validation_sets = record_sets(*validation.data.data);
      if (repeated_)
        require_same_data(repeated_->validation_sets, options_.repeat, record_.validation_sets,
                          "--validation-input and --validation-output");
    });
  }

  void begin_record(Network& network, const DataBinding& data, const TrainingStart& start,
                    const std::string& device_name) {
    if (!options_.records() || session_.rank() != 0) return;
    record_.facts = training_facts(options_, network, data, start, device_name, weights_);
    record_.binary = binary_checksum();
    record_.command = options_.called_as;
    record_.checkpoints = fs::absolute(options_.checkpoint_base());
    record_.folder = fs::current_path();
    record_.host = host_name();
    record_.inputs = absolute(options_.inputs);
    record_.outputs = absolute(options_.outputs);
    record_.validation_inputs = absolute(options_.validation.inputs);
    record_.validation_outputs = absolute(options_.validation.outputs);
    record_.trust_index = options_.trust_index;
    record_.versions = versions_record();
    record_.network = to_json(network.descriptor());
    if (!repeated_) return;
    for (const std::string& difference : differences(*repeated_, record_))
      console_.warning(
          fmt::format("{}: bits are the same for one kind of device, build and precision only: {}",
                      options_.repeat.string(), difference));
  }

  // Known to rank 0; empty where nobody wants to know.
  std::string model_checksum(Communicator& communicator) {
    std::string checksum;
    if (options_.records())
      rank_0_alone(communicator, [&] { checksum = checksum_text(file_checksum(options_.model)); });
    return checksum;
  }
  void remove_best_model() {
    if (session_.rank() != 0) return;
    const fs::path best = best_model(options_.model);
    std::error_code error;
    fs::remove(best, error);
    if (error)
      console_.warning(fmt::format("{} is no longer needed and cannot be removed: {}",
                                   best.string(), error.message()));
  }

  void compare_with_repeated(const std::string& checksum) {
    if (!repeated_ || session_.rank() != 0) return;
    const std::string recorded = repeated_->result["checksum"].text_or("");
    if (recorded.empty())
      console_.info("the run that was repeated had not ended: there is no model to compare with");
    else if (recorded == checksum)
      console_.info("the model has the same bytes as that of the run that was repeated");
    else
      console_.warning(fmt::format(
          "the model is not that of the run that was repeated: its checksum is {}, recorded {}",
          checksum, recorded));
  }

  int train_and_save(Network& network, const DataBinding& data, const TrainingStart& start,
                     const Verification& verification, const Validation& validation) {
    const std::int64_t epochs = network.descriptor().training.epochs_made();
    TrainingState state = start.state;
    if (start.resumed && state.epoch >= epochs)
      console_.warning(fmt::format("all {} epochs are done already{}", epochs,
                                   start.is_refit()
                                       ? ", as many as validation chose: the run is complete"
                                   : network.descriptor().training.last_epoch > 0
                                       ? "; give a later --last-epoch, or --epochs, for more"
                                       : "; give --epochs for more"));
    const Index first = state.epoch * data.examples() + state.epoch_examples;
    const CheckpointPolicy policy{
        options_.model, options_.checkpoint_epochs, options_.checkpoint_minutes, options_.keep,
        start.is_refit() ? options_.refit_base() : options_.checkpoint_base()};
    // A reader that goes (`| head`) ends programs that print; a run would lose hours of work.
    std::signal(SIGPIPE, SIG_IGN);
    begin_record(network, data, start, verification.device);
    folder_.begin(record_, state);
    has_checkpoint_ = start.resumed;
    TrainingObserver noting;
    noting.on_checkpoint = [this](const fs::path&) { has_checkpoint_ = true; };
    TrainingEnd end;
    double seconds = 0.0;
    {
      TrainingReports reports(console_, {epochs, data.examples(), first});
      end = train(network, data, policy, signals_.requested(),
                  both(noting, both(reports.observer(), folder_.observer())), state, verification,
                  validation);
      seconds = reports.seconds();
    }
    // The best model may be of an earlier epoch than the last.
    const bool ended = state.search.ended_epoch != start.state.search.ended_epoch;
    const Index last = ended ? state.search.ended_epoch : state.epoch;
    const Index trained = last * data.examples() + state.epoch_examples - first;
    const std::string speed = fmt::format(
        "{} examples in {}, {} examples/s", with_thousands(trained), human_seconds(seconds),
        with_thousands((long long)(seconds > 0.0 ? double(trained) / seconds : 0.0)));
    if (end == TrainingEnd::stopped) {
      folder_.end("stopped", state.epoch, {}, {});
      console_.warning(fmt::format(
          "stopped by a signal after {}; run the same command with --resume to go on", speed));
      return int(ExitCode::stopped);
    }
    network.context().communicator.set_place({"writing the model"});
    save_model(options_.model, network, state);
    remove_best_model();
    if (validation.data->data) tell_best(end, state, network.descriptor().training.validation);
    if (network.descriptor().training.refits_later()) {
      validated_ = network.descriptor();
      best_epoch_ = state.search.best_epoch;
      return 0;
    }
    const std::string checksum = model_checksum(network.context().communicator);
    folder_.end(end == TrainingEnd::early_stopped ? "early_stop" : "completed", last,
                options_.model, checksum);
    compare_with_repeated(checksum);
    console_.info(fmt::format("{}; model {}", speed, options_.model.string()));
    return 0;
  }

  void tell_best(TrainingEnd end, const TrainingState& state, const ValidationDescriptor& asked) {
    const SearchState& search = state.search;
    if (search.best_epoch == 0) return;
    if (end == TrainingEnd::early_stopped)
      console_.info(fmt::format("stopped early: {} without a better {}",
                                counted(search.ended_since_best, "validation"), state.watched));
    const bool kept = !asked.early_stop.empty() || !asked.keep_best.empty();
    console_.info(fmt::format("best {} {:.6g} after epoch {}; the model is {}", state.watched,
                              search.best, search.best_epoch,
                              kept ? "of that epoch"
                              : search.best_epoch == state.epoch
                                  ? "of that epoch, the last"
                                  : "of the last epoch: --keep-best would keep the best"));
  }

  TrainerOptions options_;
  MpiSession& session_;
  Console console_;
  StopSignals signals_;  // from the beginning: a signal while data are read stops at the first step
  RunFolder& folder_;
  std::int64_t data_memory_ = 0;
  Index weights_ = 0;
  bool has_checkpoint_ = false;                 // that the run could be resumed from
  std::optional<NetworkDescriptor> validated_;  // of a run that chose the length of the next
  std::int64_t best_epoch_ = 0;
  std::optional<RunRecord> repeated_;  // the run that is made again
  RunRecord record_;                   // rank 0's, of this one
};

}  // namespace

int run_training(const TrainerOptions& options, MpiSession& session, RunFolder& folder) {
  TrainingRun run(options, session, folder);
  try {
    return run.run();
  } catch (const DivergenceError& error) {
    throw DivergenceError(error.what() + run.way_on());
  }
}

}  // namespace norn::tools
