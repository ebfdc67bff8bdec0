// SPDX-License-Identifier: Apache-2.0
// Plans on machines as a table and as JSON.
#include "src/base/text.h"
#include "src/run/training_record.h"
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
                       tensor.element, names_of(tensor.layout).text, 1e-6 * bytes,
                       lifetime_text(plan));
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

JsonValue json_of(const ScalingPlan& plan, const MachinePlanParts& whole) {
  const StepPlan& step = plan.step;
  const double speedup = speedup_of(step, whole.scaling[0].step);
  JsonValue value = JsonValue::object();
  value.set("ranks", step.ranks).set("nodes", step.nodes).set("step_seconds", step.seconds());
  value.set("compute_seconds", step.compute_seconds);
  value.set("communication_seconds", step.communication_seconds);
  value.set("overlapped_seconds", step.overlapped_seconds);
  value.set("examples_per_second", step.examples_per_second());
  value.set("speedup", speedup).set("efficiency", speedup / step.ranks);
  value.set("memory_bytes", plan.memory_bytes);
  return value.set("fits", plan.memory_bytes <= whole.available_bytes);
}

JsonValue json_of(const StagePlan& stage) {
  JsonValue value = JsonValue::object();
  value.set("name", stage.name).set("communication", stage.communicates);
  return value.set("seconds", stage.seconds).set("flop", stage.flops).set("bytes", stage.bytes);
}

JsonValue json_of(int number) {
  return number;
}

JsonValue json_of(const OpPlan& op, const OpTime* took = nullptr);
JsonValue json_of(const TensorPlan& plan);

template <typename Entry>
JsonValue list_of(const std::vector<Entry>& entries) {
  JsonValue list = JsonValue::array();
  for (const Entry& entry : entries) list.push(json_of(entry));
  return list;
}

// `took`: nothing, or what it was measured to take.
JsonValue json_of(const OpPlan& op, const OpTime* took) {
  JsonValue value = JsonValue::object();
  value.set("name", op.name).set("of", op.place).set("seconds", op.seconds());
  if (took) value.set("took_seconds", took->seconds);
  return value.set("stages", list_of(op.stages));
}

JsonValue json_of(const TensorPlan& plan) {
  const Tensor& tensor = plan.tensor;
  constexpr const char* kPurposes[] = {"parameter", "state", "working"};
  JsonValue value = JsonValue::object();
  value.set("name", plan.name).set("count", plan.count);
  value.set("shape", JsonValue::array().push(tensor.rows).push(tensor.cols));
  value.set("element", tensor.element);
  value.set("layout", names_of(tensor.layout).key);
  value.set("purpose", kPurposes[int(tensor.purpose)]).set("bytes", plan.count * tensor.bytes());
  value.set("read_by", list_of(plan.read_by)).set("written_by", list_of(plan.written_by));
  return value.set("first_op", plan.first_op).set("last_op", plan.last_op);
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
  for (std::size_t i = 0; i < step.ops.size(); ++i) ops.push(json_of(step.ops[i], &times[i]));
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
  JsonValue memory = run::memory_record(plan.memory);
  memory.set("available_bytes", plan.available_bytes).set("fits", plan.fits());
  JsonValue value = JsonValue::object();
  value.set("machine", plan.machine.name).set("precision", std::string(name_of(plan.precision)));
  value.set("batch", plan.settings.batch).set("weights", plan.memory.weights).set("memory", memory);
  value.set("plan", json_of(ScalingPlan{plan.step, plan.memory.total_bytes()}, plan));
  value.set("stages", list_of(plan.step.stages));
  if (!tensors.empty()) value.set("ops", list_of(plan.step.ops)).set("tensors", list_of(tensors));
  JsonValue scaling = JsonValue::array();
  for (const ScalingPlan& one : plan.scaling) scaling.push(json_of(one, plan));
  value.set("ranks_that_pay", ranks_that_pay(plan.scaling)).set("scaling", scaling);
  return value.text();
}

}  // namespace norn::tools
