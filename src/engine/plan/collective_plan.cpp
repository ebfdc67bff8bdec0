// SPDX-License-Identifier: Apache-2.0
// What a collective takes.
#include "src/engine/plan/step_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace norn {
namespace {

using Kind = CollectivePlan::Kind;

// The fastest way of those that a link has.
double fastest(const std::vector<LinkWay>& ways, double steps, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (const LinkWay& way : ways)
    least = std::min(least, 1e-6 * (way.start_microseconds + steps * way.step_microseconds) +
                                1e-9 * bytes / way.gigabytes);
  return least;
}

// Among `ranks` ranks that are linked alike.
double phase(const CollectivePlan& plan, const std::vector<LinkWay>& ways, int ranks,
             double bytes) {
  if (ranks == 1) return 0.0;
  const double steps = double(ranks - 1);
  const double others = steps / double(ranks);
  // What comes to be added up is read again, and so is what it is added to.
  constexpr double kAdding = 1.4;
  if (plan.kind == Kind::reduce_scatter) return fastest(ways, steps, kAdding * bytes * others);
  if (plan.kind != Kind::all_reduce)
    return fastest(ways, steps, plan.passed_on ? bytes : bytes * others);
  const double ring = fastest(ways, 2.0 * steps, 2.0 * bytes * others);
  const double tree = fastest(ways, 2.0 * std::ceil(std::log2(double(ranks))), 2.0 * bytes);
  return std::min(ring, tree);
}

}  // namespace

double collective_seconds(const CollectivePlan& collective, const MachineDescription& machine,
                          int ranks, int nodes) {
  const int of_node = (ranks + nodes - 1) / nodes;
  return phase(collective, machine.between_nodes, nodes, collective.sent / double(of_node)) +
         phase(collective, machine.inside_node, of_node, collective.sent);
}

}  // namespace norn
