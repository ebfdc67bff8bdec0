// SPDX-License-Identifier: Apache-2.0
// The readers of a program.
#include "src/step/program.h"

#include <chrono>
#include <utility>

namespace norn::step {
namespace {

template <typename T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::string place_of(const auto& op, const StepFacts& facts) {
  if constexpr (requires { op.layer; }) return facts.layer(op.layer).name;
  if constexpr (requires { op.edge; }) return edge_name(facts, op.edge);
  return {};
}

}  // namespace

const char* name_of(const Op& op) {
  return std::visit([](const auto& one) { return one.kName; }, op);
}

std::string place_of(const Op& op, const StepFacts& facts) {
  return std::visit([&](const auto& one) { return place_of(one, facts); }, op);
}

void run(const Program& program, State& state) {
  for (const Op& op : program) std::visit([&](const auto& one) { one.run(state); }, op);
}

// Lanes name stages side by side, so they are left out. A GPU's op ends where the next one begins.
void OpTimes::run(const Program& program, State& state) {
  using Clock = std::chrono::steady_clock;
  const bool on_host = state.compute().memory.is_host();
  state.names_stages = false;
  seconds_.resize(program.size());
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (labels_.size() == i) labels_.push_back(std::to_string(i));
    state.kernels().queue->stage(labels_[i].c_str());
    const Clock::time_point start = Clock::now();
    std::visit([&](const auto& one) { one.run(state); }, program[i]);
    if (on_host) seconds_[i] += std::chrono::duration<double>(Clock::now() - start).count();
  }
  state.names_stages = true;
  ++steps_;
}

const std::vector<double>& OpTimes::each(WorkQueue& queue) {
  if (std::exchange(is_read_, true)) return seconds_;
  for (const WorkQueue::StageTime& stage : queue.stage_times())
    seconds_[std::size_t(std::stoul(stage.name))] += stage.seconds;
  for (double& seconds : seconds_) seconds /= double(steps_);
  return seconds_;
}

std::vector<TensorUses> uses_of(const Program& program, const StepFacts& facts,
                                StepTensors& tensors) {
  std::vector<TensorUses> uses;
  for (const Op& op : program) {
    TensorUses& of_op = uses.emplace_back(facts, tensors);
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { one.tensors(of_op); }) one.tensors(of_op);
        },
        op);
  }
  return uses;
}

std::vector<OpCost> costs_of(const Program& program, const StepFacts& facts) {
  std::vector<OpCost> costs;
  for (const Op& op : program)
    std::visit(
        [&](const auto& one) {
          WorkList work(facts);
          TrafficList traffic(facts);
          if constexpr (requires { one.work(facts, work); }) one.work(facts, work);
          if constexpr (requires { one.traffic(facts, traffic); })
            if (facts.ranks() > 1) one.traffic(facts, traffic);
          costs.push_back({one.kName, place_of(one, facts), work.list(), traffic.list()});
        },
        op);
  return costs;
}

std::vector<Work> work_of(const Program& program, const StepFacts& facts) {
  std::vector<Work> all;
  for (const OpCost& op : costs_of(program, facts)) append(all, op.work);
  return all;
}

std::vector<CollectivePlan> traffic_of(const Program& program, const StepFacts& facts) {
  std::vector<CollectivePlan> all;
  for (const OpCost& op : costs_of(program, facts)) append(all, op.traffic);
  return all;
}

}  // namespace norn::step
