// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"
#include "src/engine/plan/step_probe.h"
#include "src/nn/json_value.h"
#include "src/run/plan_parts.h"

#include <optional>
#include <string>
#include <vector>

/// The plan of a run as text.
namespace norn::tools {

/// Layers and memory.
std::string plan_text(const MemoryPlan& plan, const PlanSettings& settings,
                      std::int64_t available_bytes);
/// What a step computes, in `seconds` that follow from a CPU's rates or from steps on a GPU.
std::string step_text(const PlanSettings& settings, const WorkPlan& work,
                      const MachineDescription& measured, double seconds);
std::string step_text(const PlanSettings& settings, const WorkPlan& work, const StepTime& time);
/// What the recipe "auto" may take of a budget in trainings, each of which makes such steps, with
/// EASE beside them where it is for the data.
std::string search_text(const PlanSettings& settings, const TrainingDescriptor& training,
                        const StepPlan& step, double budget,
                        const std::optional<run::EasePlan>& ease);

/// Layers, memory, the step, and steps on 1, 2, 4 ... ranks of a machine. `tensors`: as of
/// program_text().
std::string machine_plan_text(const run::MachinePlanParts& plan,
                              const std::vector<TensorPlan>& tensors);
/// The same for scripts; times in seconds.
std::string machine_plan_json(const run::MachinePlanParts& plan,
                              const std::vector<TensorPlan>& tensors);
/// The stages of a step; and where its arrays are given, they and its ops one by one.
std::string program_text(const StepPlan& step, const std::vector<TensorPlan>& tensors);
/// Ops as they were planned, with their arrays and what each took where that is known.
std::string ops_text(const StepPlan& step, const std::vector<TensorPlan>& tensors,
                     const std::vector<OpTime>& times);
/// The same for run.json: as the ops of machine_plan_json(), each with what it took.
JsonValue ops_record(const StepPlan& step, const std::vector<OpTime>& times);

}  // namespace norn::tools
