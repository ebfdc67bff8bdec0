// SPDX-License-Identifier: Apache-2.0
// Plans on machines as a table and as JSON.
#include "src/base/text.h"
#include "tools/training/plan_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::tools {
namespace {

using run::MachinePlanParts;

std::string plural(int count, const char* what) {
  return fmt::format("{} {}{}", with_thousands(count), what, count == 1 ? "" : "s");
}

double percent(double part, double whole) {
  return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

std::string stage_lines(const StepPlan& step) {
  std::string out = fmt::format("{:<24}  {:>12}  {:>7}  {:>12}  {:>12}\n", "stage", "time (ms)",
                                "share", "GFLOP", "MB");
  for (const StagePlan& stage : step.stages)
    out += fmt::format("{:<24}  {:>12.4f}  {:>5.1f} %  {:>12}  {:>12.3f}{}\n", stage.name,
                       1e3 * stage.seconds, percent(stage.seconds, step.seconds()),
                       stage.flops > 0.0 ? fmt::format("{:.3f}", 1e-9 * stage.flops) : "",
                       1e-6 * stage.bytes, stage.communicates ? "  between ranks" : "");
  const auto sum = [&](const char* name, double seconds) {
    out += fmt::format("{:<24}  {:>12.4f}  {:>5.1f} %\n", name, 1e3 * seconds,
                       percent(seconds, step.seconds()));
  };
  sum("computation", step.compute_seconds);
  sum("communication", step.communication_seconds);
  if (step.overlapped_seconds > 0.0) sum("  of it beside", step.overlapped_seconds);
  sum("step", step.seconds());
  return out;
}

std::string number_or_nothing(double value, double unit) {
  return value > 0.0 ? fmt::format("{:.3f}", unit * value) : std::string();
}

std::string op_line(const std::string& name, const StagePlan& part, const std::string& took) {
  return fmt::format("{:<44}  {:>12.4f}  {:>12}  {:>12}  {:>12}{}\n", name, 1e3 * part.seconds,
                     took, number_or_nothing(part.flops, 1e-9), number_or_nothing(part.bytes, 1e-6),
                     part.communicates ? "  between ranks" : "");
}

std::string names_of(const std::vector<TensorPlan>& tensors, std::size_t op,
                     std::vector<int> TensorPlan::*users, const char* what) {
  std::string names;
  for (const TensorPlan& tensor : tensors)
    if (std::ranges::count(tensor.*users, int(op)) > 0 && !names.ends_with(tensor.name))
      names += fmt::format("{} {}", names.empty() ? what : ",", tensor.name);
  return names.empty() ? names : fmt::format("   {}\n", names);
}

// Its stages follow where they are several, or ranks exchange something.
std::string op_lines(const OpPlan& op, const std::string& took) {
  StagePlan sum;
  for (const StagePlan& stage : op.stages) {
    sum.seconds += stage.seconds;
    sum.flops += stage.flops;
    sum.bytes += stage.communicates ? 0.0 : stage.bytes;
  }
  std::string out =
      op_line(op.place.empty() ? op.name : fmt::format("{}: {}", op.name, op.place), sum, took);
  if (op.stages.size() > 1 || (!op.stages.empty() && op.stages[0].communicates))
    for (const StagePlan& stage : op.stages)
      out += op_line(fmt::format("    {}", stage.name), stage, {});
  return out;
}

// Ops by their names, the first of the step being 1.
std::string lifetime_text(const TensorPlan& tensor) {
  if (tensor.tensor.purpose != Purpose::working) return "always";
  return tensor.first_op < 0 ? "predictions"
                             : fmt::format("{} to {}", tensor.first_op + 1, tensor.last_op + 1);
}

std::string tensor_lines(const std::vector<TensorPlan>& tensors) {
  std::string out = fmt::format("{:<44}  {:>24}  {:<8}  {:<7}  {:>12}  {}\n", "array", "shape",
                                "element", "layout", "MB", "ops");
  double working = 0.0;
  for (const TensorPlan& plan : tensors) {
    const Tensor& tensor = plan.tensor;
    const double bytes = double(plan.count) * double(tensor.bytes());
    if (tensor.purpose == Purpose::working) working += bytes;
    const std::string shape =
        fmt::format("{}{} x {}", plan.count > 1 ? fmt::format("{} of ", plan.count) : "",
                    tensor.rows, tensor.cols);
    out += fmt::format("{:<44}  {:>24}  {:<8}  {:<7}  {:>12.3f}  {}\n", plan.name, shape,
                       tensor.element, tensor.layout == Layout::whole ? "whole" : "by unit",
                       1e-6 * bytes, lifetime_text(plan));
  }
  return out + fmt::format("of working arrays {}, at most {} needed at a time\n",
                           human_bytes(working), human_bytes(double(most_live_bytes(tensors))));
}

// Against one rank.
double speedup_of(const StepPlan& step, const StepPlan& one) {
  return one.seconds() / step.seconds();
}

std::string scaling_line(const ScalingPlan& plan, const MachinePlanParts& whole) {
  const double speedup = speedup_of(plan.step, whole.scaling[0].step);
  return fmt::format(
      "{:>7}  {:>6}  {:>12.4f}  {:>11.1f} %  {:>12}  {:>8.2f}  {:>8.0f} %  {:>10}{}\n",
      with_thousands(plan.step.ranks), with_thousands(plan.step.nodes), 1e3 * plan.step.seconds(),
      percent(plan.step.communication_seconds, plan.step.seconds()),
      with_thousands((long long)plan.step.examples_per_second()), speedup,
      100.0 * speedup / plan.step.ranks, human_bytes(double(plan.memory_bytes)),
      plan.memory_bytes > whole.available_bytes ? "  does not fit" : "");
}

// Up to the ranks of the plan and to the first doubling that does not pay.
std::string scaling_lines(const MachinePlanParts& plan) {
  const int pay = ranks_that_pay(plan.scaling);
  std::string out =
      fmt::format("{:>7}  {:>6}  {:>12}  {:>13}  {:>12}  {:>8}  {:>10}  {:>10}\n", "ranks", "nodes",
                  "step (ms)", "communication", "examples/s", "speedup", "efficiency", "memory");
  const ScalingPlan* next = nullptr;
  for (const ScalingPlan& one : plan.scaling) {
    if (one.step.ranks <= std::max(plan.step.ranks, 2 * pay)) out += scaling_line(one, plan);
    if (!next && one.step.ranks > pay) next = &one;
  }
  const auto paying = std::find_if(plan.scaling.begin(), plan.scaling.end(),
                                   [&](const ScalingPlan& p) { return p.step.ranks == pay; });
  if (!next)
    return out + fmt::format("\nmodel parallelism pays up to {} and beyond\n", plural(pay, "rank"));
  const double change = next->step.seconds() / paying->step.seconds() - 1.0;
  return out + fmt::format(
                   "\nmodel parallelism stops paying at {} for this network, batch and "
                   "machine: with {} a step is {:.1f} % {}\n",
                   plural(pay, "rank"), with_thousands(next->step.ranks), std::abs(100.0 * change),
                   change < 0.0 ? "shorter" : "longer");
}

std::string json_text(const std::string& text) {
  return JsonValue(text).line();
}

std::string json_of(const ScalingPlan& plan, const MachinePlanParts& whole) {
  const double speedup = speedup_of(plan.step, whole.scaling[0].step);
  return fmt::format(
      "{{\"ranks\": {}, \"nodes\": {}, \"step_seconds\": {:.9g}, \"compute_seconds\": {:.9g}, "
      "\"communication_seconds\": {:.9g}, \"overlapped_seconds\": {:.9g}, \"examples_per_second\": "
      "{:.9g}, \"speedup\": {:.6g}, "
      "\"efficiency\": {:.6g}, \"memory_bytes\": {}, \"fits\": {}}}",
      plan.step.ranks, plan.step.nodes, plan.step.seconds(), plan.step.compute_seconds,
      plan.step.communication_seconds, plan.step.overlapped_seconds,
      plan.step.examples_per_second(), speedup, speedup / plan.step.ranks, plan.memory_bytes,
      plan.memory_bytes <= whole.available_bytes);
}

std::string json_of(const StagePlan& stage) {
  return fmt::format(
      "{{\"name\": {}, \"communication\": {}, \"seconds\": {:.9g}, \"flop\": {:.9g}, \"bytes\": "
      "{:.9g}}}",
      json_text(stage.name), stage.communicates, stage.seconds, stage.flops, stage.bytes);
}

// `took`: nothing, or what it was measured to take.
std::string json_of(const OpPlan& op, const OpTime* took = nullptr) {
  std::vector<std::string> stages;
  for (const StagePlan& stage : op.stages) stages.push_back(json_of(stage));
  return fmt::format("{{\"name\": {}, \"of\": {}, \"seconds\": {:.9g}, {}\"stages\": [{}]}}",
                     json_text(op.name), json_text(op.place), op.seconds(),
                     took ? fmt::format("\"took_seconds\": {:.9g}, ", took->seconds) : "",
                     fmt::join(stages, ", "));
}

std::string json_of(const TensorPlan& plan) {
  const Tensor& tensor = plan.tensor;
  constexpr const char* kPurposes[] = {"parameter", "state", "working"};
  return fmt::format(
      "{{\"name\": {}, \"count\": {}, \"shape\": [{}, {}], \"element\": \"{}\", \"layout\": "
      "\"{}\", \"purpose\": \"{}\", \"bytes\": {}, \"read_by\": [{}], \"written_by\": [{}], "
      "\"first_op\": {}, \"last_op\": {}}}",
      json_text(plan.name), plan.count, tensor.rows, tensor.cols, tensor.element,
      tensor.layout == Layout::whole ? "whole" : "by_unit", kPurposes[int(tensor.purpose)],
      plan.count * tensor.bytes(), fmt::join(plan.read_by, ", "), fmt::join(plan.written_by, ", "),
      plan.first_op, plan.last_op);
}

template <typename Entries, typename Write>
std::string json_list(const char* name, const Entries& entries, const Write& write) {
  std::string out = fmt::format(",\n  \"{}\": [", name);
  for (std::size_t i = 0; i < entries.size(); ++i)
    out += fmt::format("{}\n    {}", i == 0 ? "" : ",", write(entries[i]));
  return out + "\n  ]";
}

}  // namespace

std::string program_text(const StepPlan& step, const std::vector<TensorPlan>& tensors) {
  const std::string stages = stage_lines(step);
  return tensors.empty() ? stages
                         : fmt::format("{}\n{}\n{}", stages, ops_text(step, tensors, {}),
                                       tensor_lines(tensors));
}

std::string ops_text(const StepPlan& step, const std::vector<TensorPlan>& tensors,
                     const std::vector<OpTime>& times) {
  std::string out = fmt::format("{:<44}  {:>12}  {:>12}  {:>12}  {:>12}\n", "op", "planned (ms)",
                                times.empty() ? "" : "took (ms)", "GFLOP", "MB");
  double took = 0.0;
  for (std::size_t i = 0; i < step.ops.size(); ++i) {
    if (!times.empty()) took += times[i].seconds;
    out +=
        op_lines(step.ops[i], times.empty() ? "" : fmt::format("{:.4f}", 1e3 * times[i].seconds));
    out += names_of(tensors, i, &TensorPlan::read_by, "reads");
    out += names_of(tensors, i, &TensorPlan::written_by, "writes");
  }
  return out + fmt::format("{:<44}  {:>12.4f}  {:>12}\n", "step", 1e3 * step.seconds(),
                           times.empty() ? "" : fmt::format("{:.4f}", 1e3 * took));
}

JsonValue ops_record(const StepPlan& step, const std::vector<OpTime>& times) {
  JsonValue ops = JsonValue::array();
  for (std::size_t i = 0; i < step.ops.size(); ++i)
    ops.push(parse_json(json_of(step.ops[i], &times[i]), "ops"));
  return ops;
}

std::string machine_plan_text(const MachinePlanParts& plan,
                              const std::vector<TensorPlan>& tensors) {
  const StepPlan& step = plan.step;
  std::string out = plan_text(plan.memory, plan.settings, plan.available_bytes);
  if (!plan.fits()) out += "  does not fit\n";
  out +=
      fmt::format("\nmachine: {}\npredicted, not measured: {} on {}, {}\n\n", plan.machine.name,
                  plural(step.ranks, "rank"), plural(step.nodes, "node"), name_of(plan.precision));
  out += program_text(step, tensors);
  const double speedup = speedup_of(step, plan.scaling[0].step);
  out += fmt::format("{} examples/s, {:.2f} times one rank, efficiency {:.0f} %\n\n",
                     with_thousands((long long)step.examples_per_second()), speedup,
                     100.0 * speedup / step.ranks);
  return out + scaling_lines(plan);
}

std::string machine_plan_json(const MachinePlanParts& plan,
                              const std::vector<TensorPlan>& tensors) {
  const MemoryPlan& memory = plan.memory;
  std::string out = fmt::format(
      "{{\n  \"machine\": {},\n  \"precision\": \"{}\",\n  \"batch\": {},\n  \"weights\": {},\n  "
      "\"memory\": {{\"parameter_bytes\": {}, \"state_bytes\": {}, \"working_bytes\": {}, "
      "\"batch_bytes\": {}, \"data_bytes\": {}, \"total_bytes\": {}, \"available_bytes\": {}, "
      "\"fits\": {}}}",
      json_text(plan.machine.name), name_of(plan.precision), plan.settings.batch, memory.weights,
      memory.parameter_bytes, memory.state_bytes, memory.working_bytes, memory.batch_bytes,
      memory.data_bytes, memory.total_bytes(), plan.available_bytes, plan.fits());
  out +=
      fmt::format(",\n  \"plan\": {}", json_of(ScalingPlan{plan.step, memory.total_bytes()}, plan));
  out += json_list("stages", plan.step.stages, [](const StagePlan& s) { return json_of(s); });
  if (!tensors.empty()) {
    out += json_list("ops", plan.step.ops, [](const OpPlan& op) { return json_of(op); });
    out += json_list("tensors", tensors, [](const TensorPlan& tensor) { return json_of(tensor); });
  }
  out += fmt::format(",\n  \"ranks_that_pay\": {}", ranks_that_pay(plan.scaling));
  out += json_list("scaling", plan.scaling, [&](const ScalingPlan& s) { return json_of(s, plan); });
  return out + "\n}\n";
}

}  // namespace norn::tools
