// SPDX-License-Identifier: Apache-2.0
// The trainer: options in, a model or a plan out, and lines meanwhile.
#include "tools/training/training_run.h"

#include "norn/base/error.h"
#include "norn/run/train.h"
#include "src/run/automatic/settings.h"
#include "src/run/plan_parts.h"
#include "src/run/preparation.h"
#include "src/run/ranks.h"
#include "src/run/recorder.h"
#include "tools/common/stop_signals.h"
#include "tools/common/version.h"
#include "tools/training/plan_text.h"
#include "tools/training/tensorboard.h"
#include "tools/training/training_reports.h"

#include <csignal>
#include <cstdio>

#include <fmt/format.h>

namespace norn::tools {
namespace {

JsonValue versions_record() {
  JsonValue versions = JsonValue::object();
  versions.set("commit", source_version());
  for (const auto& libraries : {library_versions(), frame_libraries()})
    for (const LibraryVersion& library : libraries) versions.set(library.name, library.version);
  return versions;
}

run::EventSink open_board(const std::filesystem::path& folder, std::int64_t steps_done,
                          const std::function<void(const std::string&)>& trouble) {
  const auto board = std::make_shared<TensorBoardEvents>(folder, steps_done, trouble);
  return [board](const JsonValue& event) {
    board->write(event["step"].integer_or(0), scalars_of(event));
  };
}

class TrainerRun {
 public:
  TrainerRun(const TrainerOptions& options, MpiSession& session, FailureSink& record_failure)
      : options_(options),
        session_(session),
        console_("trainer", session.rank(), options.run.level()) {
    auto recorder = std::make_shared<run::Recorder>();
    recorder->version = program_version();
    recorder->versions = versions_record();
    recorder->called_as = options.called_as;
    recorder->open_sink = open_board;
    recorder->record_failure = &record_failure;
    if (options_.ops)
      recorder->on_ops = [this](Network& network, const PlanSettings& settings) {
        return tell_ops(network, settings);
      };
    options_.program = "trainer";
    options_.recorder = std::move(recorder);
    options_.log = console_.log();
    options_.stop = &signals_.requested();
  }

  int run() {
    if (!options_.repeat.empty()) options_.take(run::read_run_record(options_.repeat));
    for (const std::string& note : options_.cdl_notes) console_.warning(note);
    require_one_process();
    options_.settle();
    options_.ranks = session_.world(options_.run.collective_timeout);
    const OutputGuard guard(options_.model);
    if (options_.print_recipe) {
      const std::string text = run::effective_descriptor(options_);
      if (session_.rank() == 0) std::fputs(text.c_str(), stdout);
      return 0;
    }
    if (options_.plan) return plan();
    return train();
  }

 private:
  void require_one_process() const {
    if (options_.plan_ranks && session_.size() > 1)
      throw UsageError(
          "--ranks plans for ranks that are not there: leave it out to plan for the ranks of this "
          "run, or start the trainer without mpirun");
    if (options_.plan_format == "json" && session_.size() > 1)
      throw UsageError(
          "--plan-format json is for plans of ranks that are not there: start the trainer without "
          "mpirun, and give --ranks");
  }

  int train() {
    // A reader that goes (`| head`) ends programs that print; a run would lose hours of work.
    std::signal(SIGPIPE, SIG_IGN);
    const run::TrainResult result = run::train(options_, observer());
    if (result.end != TrainingEnd::stopped) return 0;
    console_.warning(fmt::format(
        "stopped by a signal after {}; run the same command with --resume to go on", result.speed));
    return int(ExitCode::stopped);
  }

  run::TrainObserver observer() {
    run::TrainObserver observer;
    if (session_.rank() != 0) return observer;
    observer.on_begin = [this](const run::RunBeginning& run) {
      reports_.emplace(console_, run, options_.log_format, options_.run.quiet);
    };
    observer.on_end = [this] { reports_.reset(); };
    observer.on_step = [this](const StepReport& report) { reports_->step(report); };
    observer.on_epoch = [this](const EpochReport& report) { reports_->epoch(report); };
    observer.on_validation = [this](const ValidationReport& report) {
      reports_->validation(report);
    };
    observer.on_checkpoint = [this](const CheckpointReport& report) {
      reports_->checkpoint(report.path);
    };
    return observer;
  }

  MachineDescription machine() {
    if (options_.machine.empty()) return h200_machine();
    return read_machine_json(options_.machine,
                             [this](const std::string& note) { console_.warning(note); });
  }

  int plan() {
    if (options_.plans_machine() && session_.size() == 1) {
      const run::MachinePlan plan = run::plan_on_machine(
          options_, machine(), options_.plan_ranks.value_or(1), options_.plan_nodes);
      const std::vector<TensorPlan> tensors =
          shown_tensors(plan.parts->graph, plan.parts->settings);
      print_results(options_.plan_format == "json" ? machine_plan_json(*plan.parts, tensors)
                                                   : machine_plan_text(*plan.parts, tensors));
      require_memory(plan.parts->memory, plan.parts->settings, plan.available_bytes);
      return 0;
    }
    const run::RunPlan plan = run::plan(options_);
    print_plan(*plan.run, plan.ease);
    require_memory(plan.run->memory, plan.run->settings, plan.available_bytes);
    return 0;
  }

  // Those of --ops.
  std::vector<TensorPlan> shown_tensors(const Graph& graph, const PlanSettings& settings) const {
    return options_.ops ? plan_tensors(graph, settings) : std::vector<TensorPlan>();
  }

  // Ranks measure together how fast they exchange data; rank 0 alone what it computes.
  void print_plan(const run::PreparedRun& plan, const std::optional<run::EasePlan>& ease) {
    const PlanSettings& settings = plan.settings;
    const Links links = links_of(*plan.context);
    if (session_.rank() != 0) return;
    print_results(plan_text(plan.memory, settings, plan.available_bytes));
    if (plan.memory.total_bytes() > plan.available_bytes && settings.on_gpu()) return;
    const MachineDescription here = machine_here(plan.graph, settings, *plan.context, links);
    StepPlan step = plan_step(plan.graph, settings, here, links.nodes);
    const WorkPlan work = plan_work(plan.graph, settings);
    if (settings.on_gpu()) {
      const StepTime time = measure_step(plan.graph, settings, *plan.context);
      take_measured(step, time.seconds);
      print_results(step_text(settings, work, time));
    } else {
      print_results(step_text(settings, work, here, step.compute_seconds));
    }
    if (settings.ranks > 1) print_results(fmt::format("ranks: {}\n", links.name));
    print_results(fmt::format("\n{}", program_text(step, shown_tensors(plan.graph, settings))));
    if (run::is_automatic(options_))
      print_results(search_text(settings, plan.graph.network.training, step,
                                options_.budget.value_or(run::kSearchBudget), ease));
  }

  // How the ranks of this run exchange data; nothing for one. All of them ask together.
  struct Links {
    std::string name;
    std::vector<LinkWay> inside_node, between_nodes;
    int nodes = 1;
  };
  Links links_of(const Context& context) {
    if (session_.size() == 1) return {};
    if (!options_.machine.empty()) {
      const MachineDescription named = machine();
      return {named.name, named.inside_node, named.between_nodes,
              options_.plan_nodes ? run::choose_nodes(options_.plan_nodes, session_.size(), named)
                                  : hosts()};
    }
    context.communicator.set_place({"measuring"});
    const LinkWay way = measure_link(context);
    return {fmt::format("measured: {:.3g} us a collective, {:.3g} GB/s", way.start_microseconds,
                        way.gigabytes),
            {way},
            {way}};
  }

  // A CPU is measured by this network's kernels; GPUs are described.
  static MachineDescription machine_here(const Graph& graph, const PlanSettings& settings,
                                         const Context& context, const Links& links) {
    MachineDescription here =
        settings.on_gpu() ? h200_machine()
                          : measured_machine(measure_rates(context.compute, graph, settings.batch),
                                             graph.network.training.optimizer);
    here.inside_node = links.inside_node;
    here.between_nodes = links.between_nodes;
    return here;
  }

  // What each op of a step took, beside its plan: on stdout and for the record.
  JsonValue tell_ops(Network& network, const PlanSettings& settings) {
    const Context& context = network.context();
    const std::vector<OpTime> times = network.op_times();
    const Links links = links_of(context);
    if (session_.rank() != 0) return {};
    if (times.empty()) {
      console_.warning("--ops measures from a run's second step on, and there was none");
      return {};
    }
    const MachineDescription here = machine_here(network.graph(), settings, context, links);
    const StepPlan step = plan_step(network.graph(), settings, here, links.nodes);
    print_results(ops_text(step, {}, times));
    return ops_record(step, times);
  }

  int hosts() const {
    const int each = run::ranks_on_this_host();
    return (session_.size() + each - 1) / each;
  }

  TrainerOptions options_;
  MpiSession& session_;
  Console console_;
  StopSignals signals_;  // from the beginning: a signal while data are read stops at the first step
  std::optional<TrainingReports> reports_;
};

}  // namespace

int run_training(const TrainerOptions& options, MpiSession& session, FailureSink& record_failure) {
  return TrainerRun(options, session, record_failure).run();
}

}  // namespace norn::tools
