// SPDX-License-Identifier: Apache-2.0
// The record of a training run.
#include "src/run/training_record.h"

#include "src/data/contents_checksum.h"
#include "src/engine/plan/step_probe.h"

namespace norn::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kProbeBytes = std::int64_t(1) << 30;  // on a GPU, and some to spare

JsonValue layers_of(const MemoryPlan& plan) {
  JsonValue layers = JsonValue::array();
  for (const LayerPlan& layer : plan.layers) {
    JsonValue value = JsonValue::object();
    value.set("name", layer.name).set("kind", layer.kind).set("units", layer.units);
    layers.push(value.set("activation", layer.activation).set("weights", layer.weights));
  }
  return layers;
}

// Seconds that work takes at least; nothing where the machine was not measured.
using Floor = std::function<JsonValue(const WorkPlan&)>;

Floor measured_floor(const Graph& graph, const PlanSettings& settings, const Compute& compute,
                     std::int64_t spare_bytes) {
  if (!settings.on_gpu()) {
    const WorkRates rates = measure_rates(compute, graph, settings.batch);
    return [rates](const WorkPlan& work) { return JsonValue(floor_seconds(work, rates)); };
  }
  if (spare_bytes < kProbeBytes) return [](const WorkPlan&) { return JsonValue(); };
  const DeviceRates rates = measure_device(compute);
  return [rates](const WorkPlan& work) { return JsonValue(floor_seconds(work, rates)); };
}

}  // namespace

const Recorder& recorder_of(const TrainOptions& options) {
  static const Recorder nobody;
  return options.recorder ? *options.recorder : nobody;
}

RunFacts training_facts(const TrainOptions& options, const Network& network,
                        const DataBinding& data, const TrainingStart& start,
                        const std::string& device_name, Index weights) {
  const TrainingDescriptor& training = network.descriptor().training;
  const Context& context = network.context();
  RunFacts facts;
  facts.program = options.program;
  const std::string& version = recorder_of(options).version;
  facts.version = version.empty() ? NORN_VERSION : version;
  facts.model = options.model;
  facts.resumed = start.resumed;
  facts.epoch = start.state.epoch;
  facts.step = start.state.step;
  facts.epochs = training.epochs_made();
  facts.batch = training.batch;
  facts.examples = data.examples();
  facts.weights = weights;
  facts.ranks = context.communicator.size();
  const bool on_cpu = context.compute.memory.is_host();
  facts.device = on_cpu ? "cpu" : "cuda";
  facts.device_name = device_name;
  facts.precision =
      std::string(name_of(on_cpu ? Precision::fp32 : options.device.gpu_options.precision));
  facts.threads = on_cpu ? context.compute.executor.lanes() : 0;
  facts.seed = training.seed;
  return facts;
}

OriginRecord training_origin(const TrainOptions& options, const TrainingStart& start) {
  OriginRecord origin;
  if (!start.weights && !options.recipe.empty()) {
    origin.from = OriginRecord::From::recipe;
    origin.file = options.recipe;
    return origin;
  }
  if (!start.weights) {
    if (!options.config.empty()) origin.file = fs::absolute(options.config);
    return origin;
  }
  origin.from = start.resumed ? OriginRecord::From::checkpoint : OriginRecord::From::weights;
  origin.file = fs::absolute(*start.weights);
  origin.checksum = checksum_text(file_checksum(*start.weights));
  return origin;
}

JsonValue memory_record(const MemoryPlan& plan) {
  JsonValue value = JsonValue::object();
  value.set("parameter_bytes", plan.parameter_bytes).set("state_bytes", plan.state_bytes);
  value.set("working_bytes", plan.working_bytes).set("batch_bytes", plan.batch_bytes);
  value.set("data_bytes", plan.data_bytes).set("process_bytes", plan.process_bytes);
  value.set("total_bytes", plan.total_bytes());
  return value.set("checkpoint_bytes", plan.checkpoint_bytes);
}

JsonValue plan_record(const Graph& graph, const PlanSettings& settings, const MemoryPlan& plan,
                      const Compute& compute, std::int64_t spare_bytes) {
  const Floor floor = measured_floor(graph, settings, compute, spare_bytes);
  JsonValue edges = JsonValue::array();
  for (const EdgeWork& edge : plan_edges(graph, settings)) {
    JsonValue value = JsonValue::object();
    value.set("source", edge.source).set("destination", edge.destination).set("kind", edge.kind);
    value.set("flop", edge.work.flops()).set("bytes", edge.work.bytes);
    edges.push(value.set("floor_seconds", floor(edge.work)));
  }
  const WorkPlan work = plan_work(graph, settings);
  JsonValue value = JsonValue::object();
  value.set("layers", layers_of(plan)).set("edges", edges).set("memory", memory_record(plan));
  return value.set("flop", work.flops()).set("floor_seconds", floor(work));
}

}  // namespace norn::run
