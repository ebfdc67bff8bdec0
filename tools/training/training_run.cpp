// SPDX-License-Identifier: Apache-2.0
// The trainer: options in, a model or a plan out, and lines meanwhile.
#include "tools/training/training_run.h"

#include "norn/base/error.h"
#include "norn/run/train.h"
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
    observer.on_begin = [this](const run::RunBeginning& run) { reports_.emplace(console_, run); };
    observer.on_end = [this] { reports_.reset(); };
    observer.on_step = [this](const StepReport& report) { reports_->step(report); };
    observer.on_epoch = [this](const EpochReport& report) { reports_->epoch(report); };
    observer.on_validation = [this](const ValidationReport& report) {
      reports_->validation(report);
    };
    observer.on_checkpoint = [this](const std::filesystem::path& path) {
      reports_->checkpoint(path);
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
      print_results(options_.plan_format == "json" ? machine_plan_json(*plan.parts)
                                                   : machine_plan_text(*plan.parts));
      require_memory(plan.parts->memory, plan.parts->settings, plan.available_bytes);
      return 0;
    }
    const run::RunPlan plan = run::plan(options_);
    print_plan(*plan.run);
    require_memory(plan.run->memory, plan.run->settings, plan.available_bytes);
    return 0;
  }

  // Ranks measure together how fast they exchange data; rank 0 alone what it computes.
  void print_plan(const run::PreparedRun& plan) {
    const PlanSettings& settings = plan.settings;
    MachineDescription links;
    const bool asks = settings.ranks > 1 && options_.machine.empty();
    if (asks) {
      plan.context->communicator.set_place({"measuring"});
      const LinkWay way = measure_link(*plan.context);
      links.name = fmt::format("measured: {:.3g} us a collective, {:.3g} GB/s",
                               way.start_microseconds, way.gigabytes);
      links.inside_node = links.between_nodes = {way};
    } else if (settings.ranks > 1) {
      links = machine();
    }
    if (session_.rank() != 0) return;
    print_results(plan_text(plan.memory, settings, plan.available_bytes));
    if (plan.memory.total_bytes() > plan.available_bytes && settings.on_gpu) return;
    const TimedStep step = time_step(plan);
    print_results(step.text);
    if (settings.ranks == 1) return;
    const int nodes = asks ? 1
                      : options_.plan_nodes
                          ? run::choose_nodes(options_.plan_nodes, settings.ranks, links)
                          : hosts();
    std::fputs(communication_text(
                   plan_communication(plan.graph, settings, links, nodes, step.seconds), links.name)
                   .c_str(),
               stdout);
  }

  int hosts() const {
    const int each = run::ranks_on_this_host();
    return (session_.size() + each - 1) / each;
  }

  struct TimedStep {
    double seconds = 0.0;
    std::string text;
  };
  static TimedStep time_step(const run::PreparedRun& plan) {
    const WorkPlan work = plan_work(plan.graph, plan.settings);
    if (plan.settings.on_gpu) {
      const StepTime time = measure_step(plan.graph, plan.settings, *plan.context);
      return {time.seconds, step_text(plan.settings, work, time)};
    }
    const WorkRates rates = measure_rates(plan.context->compute, plan.graph, plan.settings.batch);
    return {predicted_seconds(work, rates), step_text(plan.settings, work, rates)};
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
