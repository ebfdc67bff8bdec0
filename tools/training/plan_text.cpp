// SPDX-License-Identifier: Apache-2.0
// Layers, memory and time of a run in columns.
#include "tools/training/plan_text.h"

#include "src/base/text.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace norn::tools {
namespace {

std::string memory_line(const char* what, std::int64_t bytes, const std::string& note = {}) {
  return fmt::format("  {:<22}{:>12}{}{}\n", what, human_bytes(double(bytes)),
                     note.empty() ? "" : "  ", note);
}

// Whose units the ranks share out between them, when there are several.
std::string sharding_text(const MemoryPlan& plan, const PlanSettings& settings) {
  if (settings.ranks == 1) return {};
  std::string out = "\nweights shared out over the ranks\n";
  for (const EdgePlan& edge : plan.edges) {
    const std::string name = edge.source + " -> " + edge.destination;
    using enum EdgePlan::Sharding;
    out += edge.sharding == whole
               ? fmt::format("    {:<44}all on every rank\n", name)
               : fmt::format("    {:<44}by units of {}\n", name,
                             edge.sharding == by_source ? edge.source : edge.destination);
  }
  return out;
}

// Layers of which a rank has all units, of some examples.
std::string layout_text(const MemoryPlan& plan) {
  std::string out;
  for (const LayerPlan& layer : plan.layers)
    if (!layer.by_example.empty())
      out += fmt::format("    {:<44}{}\n", layer.name, layer.by_example);
  return out.empty() ? out : "\nlayers by example\n" + out;
}

std::string step_line(const PlanSettings& settings, const WorkPlan& work, double seconds) {
  return fmt::format(
      "\none step: {:.3g} GFLOP dense, {:.3g} GFLOP sparse; about {:.3g} ms, {} examples/s\n",
      work.dense_flops * 1e-9, work.sparse_flops * 1e-9, seconds * 1e3,
      with_thousands((long long)(seconds > 0 ? double(settings.batch) / seconds : 0.0)));
}

// EASE in a search: a line.
std::string ease_text(const run::EasePlan& ease, double budget) {
  const std::string bytes = human_bytes(double(ease.bytes));
  if (ease.times == 0)
    return fmt::format("  EASE is not tried: a budget of {:g} has no room for it\n", budget);
  if (!ease.fits())
    return fmt::format("  EASE is not tried: it needs {} of main memory, and {} are available\n",
                       bytes, human_bytes(double(ease.available_bytes)));
  return fmt::format(
      "  EASE is tried, too: {} of main memory beside a network's, about {} each time, about "
      "{}\n",
      bytes, human_seconds(ease.seconds), counted(ease.times, "time"));
}

// "105", or "105 = 7 x 5 x 3" of a layer with several axes.
std::string units_text(const LayerPlan& layer) {
  return with_thousands(layer.units) + (layer.extent.empty() ? "" : " = " + layer.extent);
}

}  // namespace

std::string plan_text(const MemoryPlan& plan, const PlanSettings& settings,
                      std::int64_t available_bytes) {
  std::size_t name = 5, units = 12;
  for (const LayerPlan& layer : plan.layers) {
    name = std::max(name, layer.name.size());
    units = std::max(units, units_text(layer).size());
  }
  std::string out = fmt::format("{:<{}}  {:<6}  {:>{}}  {:<12}  {:>16}  {}\n", "layer", name,
                                "kind", "units", units, "activation", "weights", "blocks");
  for (const LayerPlan& layer : plan.layers) {
    const std::string blocks =
        layer.blocks == 0 ? std::string() : fmt::format("{} x {}", layer.blocks, layer.block_width);
    out += fmt::format("{:<{}}  {:<6}  {:>{}}  {:<12}  {:>16}  {}\n", layer.name, name, layer.kind,
                       units_text(layer), units, layer.activation,
                       layer.weights == 0 ? "" : with_thousands(layer.weights), blocks);
  }
  out +=
      fmt::format("\nweights {}, batch {}, {}, {}\n", with_thousands(plan.weights), settings.batch,
                  counted(settings.ranks, "rank"), counted(settings.lanes, "thread"));
  out += layout_text(plan) + sharding_text(plan, settings);
  out += "\nmemory of one rank\n";
  std::vector<BufferPlan> buffers = plan.buffers;
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const BufferPlan& a, const BufferPlan& b) { return a.bytes > b.bytes; });
  for (const BufferPlan& buffer : buffers)
    out += fmt::format("    {:<44}{:>12}\n", buffer.name, human_bytes(double(buffer.bytes)));
  out += memory_line("parameters", plan.parameter_bytes);
  out += memory_line("optimizer state", plan.state_bytes);
  out += memory_line("working buffers", plan.working_bytes);
  out += memory_line("batches", plan.batch_bytes);
  const std::string outside =
      plan.outside.empty() ? ""
                           : fmt::format("(without {}: what is augmented stays in main memory)",
                                         join(plan.outside, " and "));
  out +=
      memory_line("data", plan.data_bytes, plan.data_streamed ? "(streamed from files)" : outside);
  if (plan.process_bytes > 0) out += memory_line("process", plan.process_bytes);
  out += memory_line("total", plan.total_bytes());
  out += memory_line("available", available_bytes);
  out += memory_line("a checkpoint", plan.checkpoint_bytes,
                     "(beside it, in main memory that is free, while it is written)");
  return out;
}

std::string step_text(const PlanSettings& settings, const WorkPlan& work,
                      const MachineDescription& measured, double seconds) {
  const DeviceDescription& device = measured.device;
  return step_line(settings, work, seconds) +
         fmt::format("measured: {:.3g} GFLOP/s dense, {:.3g} GB/s of sparse rows\n",
                     device.products[0].teraflops * 1e3, device.cache_gigabytes);
}

std::string step_text(const PlanSettings& settings, const WorkPlan& work, const StepTime& time) {
  return step_line(settings, work, time.seconds) +
         fmt::format(
             "floor: {:.3g} ms ({:.3g} GB of weights and state), {:.0f} % of it\n"
             "measured: {:.3g} TFLOP/s of large products, {:.3g} TB/s of copies\n",
             time.floor_seconds * 1e3, work.bytes * 1e-9, 100.0 * time.floor_seconds / time.seconds,
             time.dense_flops * 1e-12, time.bytes * 1e-12);
}

std::string search_text(const PlanSettings& settings, const TrainingDescriptor& training,
                        const StepPlan& step, double budget,
                        const std::optional<run::EasePlan>& ease) {
  const Index examples = settings.sets.front().examples;
  const Index steps = training.epochs * ((examples + training.batch - 1) / training.batch);
  const double seconds = double(steps) * step.seconds();
  return fmt::format(
             "\nrecipe auto: begins with this network; budget {:g}, at most about {} in all, of {} "
             "for a "
             "training of {} steps\n",
             budget, human_seconds(budget * seconds + (ease ? ease->most_seconds() : 0.0)),
             human_seconds(seconds), with_thousands(steps)) +
         (ease ? ease_text(*ease, budget) : std::string());
}

}  // namespace norn::tools
