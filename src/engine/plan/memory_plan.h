// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"
#include "src/engine/network/context.h"
#include "src/step/facts.h"

#include <cstdint>
#include <string>
#include <vector>

/// What a run will need, computed from sizes alone, before anything large is allocated.
namespace norn {

/// What a run validates with, between its epochs.
struct ValidationPlan {
  std::vector<DatasetInfo> sets;  ///< of the layers; none: nothing is validated
  std::vector<DatasetInfo> seen;  ///< of units that nobody looks for
  int output_layer = 0;
  Index longest_list = 0;  ///< of its units that are ranked for an example; 0: the cost alone
  /// Of main memory that the contents take; 0 where they are streamed, or parts of what is trained
  /// on.
  std::int64_t held_bytes = 0;
};

/// What the plan depends on beside the network: a step's settings, whose sparse inputs follow from
/// `sets`, and what there is beside steps.
struct PlanSettings : StepSettings {
  /// The bytes are those of the GPU's memory: data sets stay outside.
  bool on_gpu() const { return !device.is_host; }
  bool data_on_gpu = false;  ///< or there, where they are not streamed
  bool keeps_state = false;  ///< a copy of weights and state, to verify steps
  std::vector<DatasetInfo> sets;
  std::int64_t data_memory_bytes = 0;  ///< sets that are larger together are streamed
  std::int64_t program_bytes = 0;      ///< of main memory: the program and its libraries
  ValidationPlan validation;
};

/// Takes what the plan depends on of the device.
void set_device(PlanSettings& settings, const Compute& compute);

struct LayerPlan {
  std::string name;
  std::string kind;        ///< "Input", "Hidden", "Output"
  std::string activation;  ///< empty for inputs
  Index units = 0;
  std::string extent;  ///< "7 x 5 x 3", the units of several axes
  Index blocks = 0;
  Index block_width = 0;
  Index weights = 0;       ///< into this layer, without shared ones, plus biases
  std::string by_example;  ///< why ranks share out its examples, where they do; else empty
};

/// By which units the ranks share out the weights between two layers.
struct EdgePlan {
  enum class Sharding { by_destination, by_source, whole };
  std::string source;
  std::string destination;
  Sharding sharding = Sharding::by_destination;  ///< whole: on every rank (SharedWeights)
};

/// One array, or several of the same use.
struct BufferPlan {
  std::string name;  ///< "Hidden1 -> Output weights", "Hidden1 activations"
  std::int64_t bytes = 0;
};

/// Bytes are those of rank 0, which owns the most.
struct MemoryPlan {
  std::vector<LayerPlan> layers;    ///< those that take part
  std::vector<EdgePlan> edges;      ///< between them
  std::vector<BufferPlan> buffers;  ///< what the bytes below consist of
  Index weights = 0;                ///< of all layers, over all ranks
  std::int64_t parameter_bytes = 0;
  std::int64_t state_bytes = 0;    ///< of the update rule
  std::int64_t working_bytes = 0;  ///< activations, deltas, workspaces, lists of validations
  std::int64_t batch_bytes = 0;    ///< prefetched batches and their preparation, by mean density
  std::int64_t data_bytes = 0;     ///< data sets held in memory, those of validations with them
  /// The program, its libraries and what they pack, and a model on its way to the disk.
  std::int64_t process_bytes = 0;
  bool data_streamed = false;  ///< those that are trained on
  /// Sets that are augmented, while others are held by a GPU: they stay in main memory.
  std::vector<std::string> outside;
  /// Weights of all ranks with the state of their update rule, which rank 0 copies to main memory
  /// while a checkpoint is written: so much of them as a quarter of what is free then holds, which
  /// is why the total is without.
  std::int64_t checkpoint_bytes = 0;
  std::int64_t total_bytes() const {
    return parameter_bytes + state_bytes + working_bytes + batch_bytes + data_bytes + process_bytes;
  }
};

MemoryPlan plan_memory(const Graph& graph, const PlanSettings& settings);

/// Throws DeviceError with the numbers when the plan needs more than `available_bytes`.
void require_memory(const MemoryPlan& plan, const PlanSettings& settings,
                    std::int64_t available_bytes);

/// Whether the data sets of a run shall stand in the GPU's memory. Automatic: where they are not
/// streamed and fit beside everything else, a gigabyte being left. Throws for `yes` when they
/// cannot: DeviceError with the numbers when they do not fit, UsageError when there is no GPU or
/// they are streamed.
bool choose_data_on_gpu(const Graph& graph, PlanSettings settings, DataOnGpu wish,
                        std::int64_t available_bytes);

/// The work of one training step on rank 0 with weights; without what is done unit by unit.
struct WorkPlan {
  double dense_flops = 0.0;
  double sparse_flops = 0.0;
  double updated_weights = 0.0;
  /// Of weights, their state and gathered rows, each once for every product that reads or writes
  /// it: activations may stay in a cache.
  double bytes = 0.0;
  double flops() const { return dense_flops + sparse_flops; }
};
WorkPlan plan_work(const Graph& graph, const PlanSettings& settings);

/// The part of it that the weights between two layers make.
struct EdgeWork {
  std::string kind;  ///< as kEdgeKinds calls it: "weights", "skip"
  std::string source;
  std::string destination;
  WorkPlan work;
};
std::vector<EdgeWork> plan_edges(const Graph& graph, const PlanSettings& settings);

/// What this machine does in a second, measured on the kernels for a fraction of a second.
struct WorkRates {
  double dense_flops = 0.0;
  double sparse_flops = 0.0;
  double pointwise_elements = 0.0;
  double updated_weights = 0.0;
};
WorkRates measure_rates(const Compute& compute, const Graph& graph, Index batch);

/// Seconds below which these rates do not come.
double floor_seconds(const WorkPlan& work, const WorkRates& rates);

}  // namespace norn
