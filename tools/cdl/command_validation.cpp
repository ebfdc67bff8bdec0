// SPDX-License-Identifier: Apache-2.0
// Command Validate of DSSTNE's command files: gradients beside differences of the cost.
#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/data/batch_loader.h"
#include "src/engine/feature_weights.h"
#include "src/engine/gradient_check.h"
#include "src/run/preparation.h"
#include "tools/training/training_run.h"

#include <cstdio>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr Index kMostOfGroup = 200;

// A table, and the number of parameters whose gradients are wrong.
Index print_groups(const std::vector<CheckedGroup>& groups) {
  Index wrong = 0;
  std::string text = fmt::format("{:<32} {:>12} {:>8} {:>6} {:>14} {:>14}\n", "", "parameters",
                                 "checked", "wrong", "largest slope", "difference");
  for (const CheckedGroup& group : groups) {
    text += fmt::format("{:<32} {:>12} {:>8} {:>6} {:>14.6g} {:>14.6g}\n", group.name,
                        with_thousands(group.parameters), with_thousands(group.checked),
                        group.wrong, group.largest, group.difference);
    wrong += group.wrong;
  }
  print_results(text);
  return wrong;
}

}  // namespace

int run_gradient_check(const TrainerOptions& given, MpiSession& session) {
  TrainerOptions options = given;
  options.check();
  options.settle();
  if (session.size() > 1)
    throw UsageError(
        fmt::format("{}: Command Validate is for one process; start the trainer without mpirun",
                    options.cdl.string()));
  Console console("trainer", session.rank(), options.run.level());
  for (const std::string& note : options.cdl_notes) console.warning(note);
  const std::shared_ptr<Communicator> communicator = session.world(options.run.collective_timeout);
  const Log log = run::shared_log(console.log(), *communicator);
  run::TrainingStart start = run::start_training(options, *communicator, log);
  for (const std::string& name : prepare_gradient_check(start.network))
    console.info(
        fmt::format("left out, because gradients are compared with the cost alone: {}", name));
  const std::unique_ptr<DataBinding> bound_data = run::bind_data(start, options, log);
  const DataBinding& data = *bound_data;
  run::fit_batch(start, options, data.examples(), log);
  Graph graph = make_graph(start.network, data.shapes(), start.where);
  require_runnable(graph, Use::training, start.where);
  RunOptions on_cpu = options.run;
  on_cpu.device = "cpu";
  const std::unique_ptr<Runtime> runtime = make_runtime(on_cpu.device_choice(), *communicator);
  const Index batch = start.network.training.batch;
  Network network(std::move(graph), data.shapes(), runtime->context(*communicator, console.log()),
                  batch, Pass::training);
  network.initialise(start.network.training.seed);
  weigh_features(network, data);
  BatchLoader loader(data.sets(), BatchOrder(data.examples(), batch, false, 0), 0, 0, 1);
  const BoundBatch bound = data.bind(*loader.next());
  const Index wrong =
      print_groups(check_gradients(network, bound, kMostOfGroup, start.network.training.seed));
  if (wrong > 0)
    throw Error(
        fmt::format("{}: {} gradients are not slopes of the cost; report it, with the network",
                    start.where, wrong));
  std::fputs("gradients agree with the cost\n", stdout);
  return 0;
}

}  // namespace norn::tools
