// SPDX-License-Identifier: Apache-2.0
// The trainer: from options to a trained model.
#include "tools/common/training_run.h"

#include "norn/base/atomic_file.h"
#include "norn/base/error.h"
#include "norn/base/text.h"
#include "norn/engine/memory_plan.h"
#include "norn/engine/trainer.h"
#include "norn/kernels/named_variant.h"
#include "norn/nn/descriptor_json.h"
#include "tools/common/machine_plan.h"
#include "tools/common/model_session.h"
#include "tools/common/plan_text.h"
#include "tools/common/progress.h"
#include "tools/common/ranks.h"
#include "tools/common/stop_signals.h"

#include <array>
#include <cstdio>
#include <fstream>

#include <fmt/format.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;

// Whether a file begins as NetCDF files do: classic "CDF", or HDF5.
bool looks_like_netcdf(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 4> head{};
  in.read(head.data(), head.size());
  const std::string_view start(head.data(), std::size_t(in.gcount()));
  return start.substr(0, 3) == "CDF" || start == "\x89HDF";
}

// Where the run begins: a descriptor alone, weights to go on from, or a checkpoint.
struct Beginning {
  NetworkDescriptor network;
  std::string where;                // names the descriptor in messages
  std::optional<fs::path> weights;  // file to load weights from
  std::optional<ModelInfo> info;    // of that file
  TrainingState state;              // all zero unless resumed
  bool resumed = false;
};

// "one process", "MPI, 2 ranks", "MPI, 2 ranks, NCCL 2.28.9".
std::string joined_by(const Context& context) {
  std::string text = context.communicator.describe();
  if (context.communicator.size() > 1 && !context.compute.memory.is_host())
    text += ", " + context.collectives->describe();
  return text;
}

class TrainingRun {
 public:
  TrainingRun(const TrainerOptions& options, MpiSession& session)
      : options_(options),
        session_(session),
        console_("trainer", session.rank(), options.run.level()) {}

  int run() {
    options_.check();
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
    if (!options_.plan && session_.rank() == 0) check_model_path();
    const OutputGuard guard(options_.model);
    Beginning beginning = begin(*communicator);
    // Data sets may come to stand in its memory, so it outlives them.
    std::unique_ptr<Runtime> runtime;
    DataSources sources{options_.inputs,
                        options_.outputs.empty() ? options_.inputs : options_.outputs,
                        data_memory_};
    DataBinding data(beginning.network, sources, DataBinding::Layers::inputs_and_outputs);
    fit_batch(beginning, data);
    Graph graph = make_graph(beginning.network, data.shapes(), beginning.where);
    if (const auto reason = why_not_runnable(graph)) throw UsageError(*reason);

    if (options_.plans_machine() && session_.size() == 1) {
      plan_machine(graph, data);
      return 0;
    }
    runtime = options_.run.make_runtime(*communicator);
    const Context context = runtime->context(*communicator, console_.log());
    if (plan(graph, data, *runtime, context)) return 0;
    Network network(std::move(graph), data.shapes(), context, beginning.network.training.batch,
                    Pass::training);
    load(beginning, network);
    if (options_.force && session_.rank() == 0) remove_checkpoints(options_.model);
    return train_and_save(network, data, beginning, {options_.verify, runtime->description()});
  }

 private:
  // Before hours are spent: the model can be written, and nothing of another run is in the way.
  void check_model_path() {
    { const AtomicFile writable(options_.model); }
    for (const fs::path& path : remove_abandoned_files(options_.model))
      console_.info(fmt::format("removed {}, which a run that was killed left", path.string()));
    if (options_.force || !options_.resume.empty()) return;
    if (fs::exists(options_.model))
      throw UsageError(
          fmt::format("{}: the network file exists already; give another --model (-n), --force to "
                      "replace it, or --resume to go on with its training",
                      options_.model.string()));
    if (const auto checkpoint = find_checkpoint(options_.model))
      throw UsageError(fmt::format(
          "{}: a checkpoint of an earlier run exists; give --resume to go on from it, --force to "
          "start anew, or another --model (-n)",
          checkpoint->string()));
  }

  // Rank 0 looks for the newest checkpoint that is whole, for all: on another host a file system
  // may not show the same files yet, and it is read but once. Empty: there is none.
  std::string choose_checkpoint(Communicator& communicator) {
    std::string chosen;
    rank_0_alone(communicator, [&] {
      if (const auto found = find_checkpoint(options_.model, console_.log()))
        chosen = found->string();
      else if (has_checkpoints(options_.model))
        throw DataError(
            fmt::format("{}: neither the model nor a checkpoint of it is whole and can be resumed "
                        "from; restore one of them, or start anew with --force instead of --resume",
                        options_.model.string()));
    });
    const std::vector<std::byte> first =
        communicator.gather_to_all(std::as_bytes(std::span(chosen))).front();
    return {reinterpret_cast<const char*>(first.data()), first.size()};
  }

  Beginning begin(Communicator& communicator) {
    if (!options_.resume.empty()) {
      if (options_.resume != "auto") {
        verify_model(options_.resume, communicator);
        return resume_from(options_.resume);
      }
      const std::string checkpoint = choose_checkpoint(communicator);
      if (!checkpoint.empty()) return resume_from(checkpoint);
      console_.info(fmt::format("no checkpoint of {} yet: starting from the beginning",
                                options_.model.string()));
    }
    if (!fs::exists(options_.config))
      throw UsageError(
          fmt::format("--config: the file {} does not exist; name a network "
                      "descriptor (JSON) or a model",
                      options_.config.string()));
    Beginning beginning;
    beginning.where = options_.config.string();
    if (looks_like_netcdf(options_.config)) {
      beginning.weights = options_.config;
      beginning.info = open_model_info(options_.config, communicator);
      beginning.info->has_training_state = false;  // its weights alone
      beginning.network = beginning.info->network;
    } else {
      beginning.network = read_network_json(
          options_.config, [this](const std::string& note) { console_.warning(note); });
    }
    options_.apply_to(beginning.network.training, console_);
    return beginning;
  }

  // From a file that has been verified.
  Beginning resume_from(const fs::path& path) {
    const TensorFileReader file(path);
    Beginning beginning;
    beginning.where = path.string();
    beginning.weights = path;
    beginning.info = read_model_info(file);
    if (!beginning.info->has_training_state)
      throw DataError(
          fmt::format("{}: holds no training state to resume from; give it as --config "
                      "to start a new run with its weights",
                      path.string()));
    beginning.network = beginning.info->network;
    beginning.state = beginning.info->state;
    beginning.resumed = true;
    const TrainingDescriptor before = beginning.network.training;
    TrainingDescriptor& now = beginning.network.training;
    options_.apply_to(now, console_);
    const auto require_same = [&](bool same, const char* option, const std::string& value) {
      if (!same)
        throw UsageError(
            fmt::format("{} cannot change when a run is resumed: {} was trained with "
                        "{}; leave the option out",
                        option, path.string(), value));
    };
    require_same(now.batch == before.batch, "--batch", fmt::format("{}", before.batch));
    require_same(now.seed == before.seed, "--seed", fmt::format("{}", before.seed));
    require_same(now.optimizer.index() == before.optimizer.index(), "--optimizer",
                 std::string(name_of(before.optimizer)));
    console_.info(fmt::format("resuming from {}: {} of {} epochs done", path.string(),
                              beginning.state.epoch, now.epochs));
    return beginning;
  }

  // A batch that was asked for must fit; the default shrinks to the data.
  void fit_batch(Beginning& beginning, const DataBinding& data) {
    Index& batch = beginning.network.training.batch;
    if (batch <= data.examples()) return;
    if (options_.batch || beginning.resumed)
      throw UsageError(fmt::format(
          "--batch {} is larger than the {} examples of the data; give --batch {} or less", batch,
          data.examples(), data.examples()));
    console_.warning(
        fmt::format("batch {} is lowered to the {} examples of the data", batch, data.examples()));
    batch = data.examples();
  }

  // What a plan depends on wherever it is for.
  PlanSettings plan_settings(const Graph& graph, const DataBinding& data) const {
    PlanSettings settings;
    settings.batch = graph.network.training.batch;
    settings.ranks = session_.size();
    settings.keeps_state = options_.verify > 0;
    for (const Dataset* set : data.sets()) settings.sets.push_back(set->info());
    settings.data_memory_bytes = data_memory_;
    return settings;
  }

  MachineDescription machine() {
    if (options_.machine.empty()) return h200_machine();
    return read_machine_json(options_.machine,
                             [this](const std::string& note) { console_.warning(note); });
  }

  // A plan for a machine that is described: nothing is measured, and nothing large is allocated.
  void plan_machine(const Graph& graph, const DataBinding& data) {
    PlanSettings settings = plan_settings(graph, data);
    settings.ranks = options_.plan_ranks.value_or(1);
    const MachineDescription described = machine();
    const MachinePlan plan = plan_on_machine(
        graph, settings, described, precision_named(options_.run.precision).value(),
        choose_nodes(options_.plan_nodes, settings.ranks, described), options_.data_place());
    const std::string text =
        options_.plan_format == "json" ? machine_plan_json(plan) : machine_plan_text(plan);
    std::fputs(text.c_str(), stdout);
    require_memory(plan.memory, plan.settings, plan.available_bytes);
  }

  // True when the plan was all that was asked for.
  bool plan(const Graph& graph, DataBinding& data, const Runtime& runtime, const Context& context) {
    PlanSettings settings = plan_settings(graph, data);
    settings.lanes = context.compute.executor.lanes();
    settings.block_rule = context.compute.kernels.block_rule;
    settings.on_gpu = !context.compute.memory.is_host();
    settings.rounds_operands = context.compute.kernels.rounds_operands;
    settings.turns_operands = context.compute.kernels.turns_operands;
    const std::int64_t free = runtime.available_bytes();
    settings.data_on_gpu = choose_data_on_gpu(graph, settings, options_.data_place(), free);
    const MemoryPlan plan = plan_memory(graph, settings);
    // The data sets are open: what they hold of main memory is taken already.
    const std::int64_t available =
        settings.on_gpu ? free : free / ranks_on_this_host() + plan.data_bytes;
    if (options_.plan) print_plan(graph, plan, settings, available, context);
    require_memory(plan, settings, available);
    if (options_.plan) return true;
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
    std::fputs(plan_text(plan, settings, available).c_str(), stdout);
    if (plan.total_bytes() > available && settings.on_gpu) return;
    const TimedStep step = time_step(graph, settings, context);
    std::fputs(step.text.c_str(), stdout);
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

  void load(const Beginning& beginning, Network& network) {
    if (!beginning.weights) {
      network.initialise(beginning.network.training.seed);
      return;
    }
    std::unique_ptr<TensorFileReader> file;
    if (session_.rank() == 0) file = std::make_unique<TensorFileReader>(*beginning.weights);
    load_weights(file.get(), *beginning.info, network);
  }

  TrainingObserver observe(Progress& progress, Index first_examples, Index examples) {
    TrainingObserver observer;
    const bool speaks = session_.rank() == 0;
    observer.on_step = [this, &progress, speaks, first_examples,
                        examples](const StepReport& report) {
      if (!speaks) return;
      progress.update(report.epoch * examples + report.examples - first_examples,
                      fmt::format("epoch {}/{} batch {}/{} cost {:.6g}", report.epoch + 1, epochs_,
                                  report.batch, report.batches, report.cost));
    };
    observer.on_epoch = [this, speaks](const EpochReport& report) {
      if (!speaks) return;
      console_.set_status("");
      // DSSTNE's line: its users' scripts read it.
      const std::string line = fmt::format(
          "NNNetwork::Train: Epoch {}, average error {:f}, average training error {:f}, average "
          "regularization error {:f}, elapsed time {:f}s\n",
          report.epoch, report.training_cost + report.regularization_cost, report.training_cost,
          report.regularization_cost, report.seconds);
      std::fputs(line.c_str(), stdout);
      std::fflush(stdout);
    };
    observer.on_checkpoint = [this](const fs::path& path) {
      if (session_.rank() == 0) console_.info(fmt::format("checkpoint {}", path.string()));
    };
    return observer;
  }

  int train_and_save(Network& network, const DataBinding& data, const Beginning& beginning,
                     const Verification& verification) {
    epochs_ = network.descriptor().training.epochs;
    TrainingState state = beginning.state;
    if (beginning.resumed && state.epoch >= epochs_)
      console_.warning(
          fmt::format("all {} epochs are done already; give --epochs for more", epochs_));
    const Index first = state.epoch * data.examples() + state.epoch_examples;
    const CheckpointPolicy policy{options_.model, options_.checkpoint_epochs,
                                  options_.checkpoint_minutes, options_.keep};
    TrainingEnd end;
    double seconds = 0.0;
    {
      Progress progress(console_, epochs_ * data.examples() - first, "examples");
      end = train(network, data, policy, signals_.requested(),
                  observe(progress, first, data.examples()), state, verification);
      seconds = progress.seconds();
    }
    const Index trained = state.epoch * data.examples() + state.epoch_examples - first;
    const std::string speed = fmt::format(
        "{} examples in {}, {} examples/s", with_thousands(trained), human_seconds(seconds),
        with_thousands((long long)(seconds > 0.0 ? double(trained) / seconds : 0.0)));
    if (end == TrainingEnd::stopped) {
      console_.warning(fmt::format(
          "stopped by a signal after {}; run the same command with --resume to go on", speed));
      return int(ExitCode::stopped);
    }
    network.context().communicator.set_place({"writing the model"});
    save_model(options_.model, network, state);
    console_.info(fmt::format("{}; model {}", speed, options_.model.string()));
    return 0;
  }

  const TrainerOptions& options_;
  MpiSession& session_;
  Console console_;
  StopSignals signals_;  // from the beginning: a signal while data are read stops at the first step
  std::int64_t data_memory_ = 0;
  Index epochs_ = 0;
};

}  // namespace

int run_training(const TrainerOptions& options, MpiSession& session) {
  return TrainingRun(options, session).run();
}

}  // namespace norn::tools
