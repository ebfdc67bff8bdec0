// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/nn/machine.h"
#include "src/engine/plan/memory_plan.h"

/// What is measured for plans: how long a training step will take on a GPU, by making a few of a
/// network that is no wider than needed to tell, and how fast ranks exchange data.
namespace norn {

struct StepTime {
  double seconds = 0.0;        ///< predicted
  double floor_seconds = 0.0;  ///< below which no step can be, by the two rates
  double dense_flops = 0.0;    ///< of large products on this GPU, a second
  double bytes = 0.0;          ///< of large copies, a second, read and written
};

/// Measures for about a second. Wide layers are cut to a few of their blocks, and the stages that
/// work on them scaled up; data are synthetic, of the sets' mean density, items drawn by a power
/// law. Of several ranks one measures, without the others; the time is that of its computation.
StepTime measure_step(const Graph& graph, const PlanSettings& settings, const Context& context);

/// Large products and copies alone, for a tenth of a second. Takes 768 MiB of a GPU's memory.
struct DeviceRates {
  double dense_flops = 0.0;  ///< of large products, a second
  double bytes = 0.0;        ///< of large copies, a second, read and written
};
DeviceRates measure_device(const Compute& compute);

/// Seconds below which no such work can be done.
double floor_seconds(const WorkPlan& work, const DeviceRates& rates);

/// How fast the ranks of this run exchange data: a few small and a few large collectives, whose
/// steps are part of the start. All ranks call it together.
LinkWay measure_link(const Context& context);

}  // namespace norn
