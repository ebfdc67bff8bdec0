// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"
#include "src/engine/plan/memory_plan.h"
#include "src/run/recorder.h"
#include "src/run/run_record.h"
#include "src/run/training_start.h"

/// What of a training run goes into its record.
namespace norn::run {

/// Who takes part in recording the run; nobody where nobody is named.
const Recorder& recorder_of(const TrainOptions& options);

/// What the run is. `weights`: of all layers and ranks.
RunFacts training_facts(const TrainOptions& options, const Network& network,
                        const DataBinding& data, const TrainingStart& start,
                        const std::string& device_name, Index weights);

/// Where it began. Reads the file of weights or the checkpoint for its checksum.
OriginRecord training_origin(const TrainOptions& options, const TrainingStart& start);

/// The parts of the memory of a rank.
JsonValue memory_record(const MemoryPlan& plan);

/// Layers, memory and work of a step, with the time below which each part of the work cannot come
/// on this machine. Measures the machine for a fraction of a second; on one rank, without others.
/// `spare_bytes`: what the device has left beside the run.
JsonValue plan_record(const Graph& graph, const PlanSettings& settings, const MemoryPlan& plan,
                      const Compute& compute, std::int64_t spare_bytes);

}  // namespace norn::run
