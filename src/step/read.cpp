// SPDX-License-Identifier: Apache-2.0
// The readers of a program.
#include "src/step/program.h"

namespace norn::step {

void run(const Program& program, State& state) {
  for (const Op& op : program) std::visit([&](const auto& one) { one.run(state); }, op);
}

std::vector<Work> work_of(const Program& program, const StepFacts& facts) {
  WorkList list(facts);
  for (const Op& op : program)
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { one.work(facts, list); }) one.work(facts, list);
        },
        op);
  return list.list();
}

std::vector<CollectivePlan> traffic_of(const Program& program, const StepFacts& facts) {
  TrafficList list(facts);
  if (facts.ranks() == 1) return {};
  for (const Op& op : program)
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { one.traffic(facts, list); }) one.traffic(facts, list);
        },
        op);
  return list.list();
}

}  // namespace norn::step
