// SPDX-License-Identifier: Apache-2.0
// Whether a plan fits into the memory that there is.
#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/engine/plan/memory_plan.h"

#include <fmt/format.h>

namespace norn {
namespace {

constexpr Index kGpuReserve = Index(1) << 30;  // left free beside data sets on the GPU

}  // namespace

void set_device(PlanSettings& settings, const Compute& compute) {
  settings.lanes = compute.executor.lanes();
  settings.device = traits_of(compute);
}

bool choose_data_on_gpu(const Graph& graph, PlanSettings settings, DataOnGpu wish,
                        std::int64_t available_bytes) {
  const bool must = wish == DataOnGpu::yes;
  if (wish == DataOnGpu::no) return false;
  if (!settings.on_gpu()) {
    if (must) throw UsageError("`data_on_gpu` yes: this run computes on the CPU; leave it out");
    return false;
  }
  settings.data_on_gpu = true;
  const MemoryPlan plan = plan_memory(graph, settings);
  if (plan.data_streamed) {
    if (must)
      throw UsageError(
          "`data_on_gpu` yes: the data are streamed from their files; give a larger `data_memory`, "
          "or leave it out");
    return false;
  }
  if (plan.total_bytes() + kGpuReserve <= available_bytes) return true;
  if (must)
    throw DeviceError(fmt::format(
        "`data_on_gpu` yes: the data sets take {} of the GPU's memory and the rest of the run {}, "
        "with {} to spare, but {} are available; give `data_on_gpu` no, or a smaller `batch`",
        human_bytes(double(plan.data_bytes)),
        human_bytes(double(plan.total_bytes() - plan.data_bytes)), human_bytes(double(kGpuReserve)),
        human_bytes(double(available_bytes))));
  return false;
}

void require_memory(const MemoryPlan& plan, const PlanSettings& settings,
                    std::int64_t available_bytes) {
  if (plan.total_bytes() <= available_bytes) return;
  throw DeviceError(fmt::format(
      "this run needs {} of memory (parameters {}, optimizer state {}, working buffers {}, "
      "batches {}, data {}, process {}), but {} are available; use a smaller batch than {}, "
      "`data_memory` to "
      "stream the data, more ranks than {}, or a larger machine",
      human_bytes(double(plan.total_bytes())), human_bytes(double(plan.parameter_bytes)),
      human_bytes(double(plan.state_bytes)), human_bytes(double(plan.working_bytes)),
      human_bytes(double(plan.batch_bytes)), human_bytes(double(plan.data_bytes)),
      human_bytes(double(plan.process_bytes)), human_bytes(double(available_bytes)), settings.batch,
      settings.ranks));
}

}  // namespace norn
