// SPDX-License-Identifier: Apache-2.0
// Predicted seconds.
#include "src/run/automatic/prediction.h"

#include "norn/nn/machine.h"
#include "src/engine/plan/step_plan.h"
#include "src/engine/plan/step_probe.h"

#include <optional>

namespace norn::run {

double predict_step_seconds(const PreparedRun& run, Communicator& communicator) {
  const Context& context = *run.context;
  const PlanSettings& settings = run.settings;
  std::optional<LinkWay> way;
  if (communicator.size() > 1) {
    communicator.set_place({"measuring"});
    way = measure_link(context);
  }
  if (communicator.rank() != 0) return 0.0;
  MachineDescription here =
      settings.on_gpu()
          ? h200_machine()
          : measured_machine(measure_rates(context.compute, run.graph, settings.batch),
                             run.graph.network.training.optimizer);
  here.inside_node = here.between_nodes = {};
  if (way) here.inside_node = here.between_nodes = {*way};
  StepPlan step = plan_step(run.graph, settings, here, 1);
  if (settings.on_gpu()) take_measured(step, measure_step(run.graph, settings, context).seconds);
  return step.seconds();
}

}  // namespace norn::run
