// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace norn {
struct MachineDescription;
}

/// What a run would take, before it is made.
namespace norn::run {

struct PreparedRun;
struct MachinePlanParts;

/// What EASE takes of main memory and time in a search of the recipe "auto".
struct EasePlan {
  std::int64_t bytes = 0;
  std::int64_t available_bytes = 0;
  double seconds = 0.0;  ///< each time
  Index times = 0;       ///< about; 0: the budget has no room for it
  bool fits() const { return bytes <= available_bytes; }
  double most_seconds() const { return fits() ? double(times) * seconds : 0.0; }
};

/// A run's memory on the device that it would compute on. Nothing large has been allocated.
struct RunPlan {
  Index weights = 0;                 ///< of all layers, over all ranks
  std::int64_t memory_bytes = 0;     ///< that the rank takes which needs the most
  std::int64_t available_bytes = 0;  ///< of this one
  std::optional<EasePlan> ease;  ///< of the recipe "auto", where the data are such as EASE is for
  std::shared_ptr<Communicator> ranks;
  std::shared_ptr<const PreparedRun> run;  ///< for Norn's own programs

  bool fits() const { return memory_bytes <= available_bytes; }
};

/// Plans train(options) on the ranks that there are; all call it together.
RunPlan plan(const TrainOptions& options);

/// A step on so many ranks of a machine.
struct PlannedStep {
  int ranks = 1;
  int nodes = 1;
  double seconds = 0.0;
  double communication_seconds = 0.0;  ///< all of it; some goes on beside computation
  double examples_per_second = 0.0;
  std::int64_t memory_bytes = 0;  ///< of the rank that needs the most
};

/// A plan for a machine that is described: neither it nor its ranks need be at hand.
struct MachinePlan {
  Index weights = 0;
  PlannedStep step;
  std::int64_t available_bytes = 0;               ///< of a rank
  std::vector<PlannedStep> scaling;               ///< from one rank on
  std::shared_ptr<const MachinePlanParts> parts;  ///< for Norn's own programs

  bool fits() const { return step.memory_bytes <= available_bytes; }
};

/// `nodes` not given: as many as the ranks fill. Throws UsageError where that many ranks cannot
/// stand on so many nodes of the machine.
MachinePlan plan_on_machine(const TrainOptions& options, const MachineDescription& machine,
                            int ranks, std::optional<int> nodes = std::nullopt);

}  // namespace norn::run
