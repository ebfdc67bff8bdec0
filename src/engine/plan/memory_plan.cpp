// SPDX-License-Identifier: Apache-2.0
// Memory of a run from the sizes of its layers: the arrays of a step, as a network allocates them,
// and what data, validations and devices take beside them.
#include "src/engine/plan/memory_plan.h"

#include "kernels/named_variant.h"
#include "kernels/recommend.h"
#include "src/engine/model/model_file.h"
#include "src/engine/plan/plan_settings.h"
#include "src/engine/plan/window_workspace.h"
#include "src/engine/predict/predictor.h"
#include "src/nn/naming.h"
#include "src/step/block_group.h"
#include "src/step/program.h"
#include "src/step/tensors.h"

#include <algorithm>

namespace norn {
namespace {

constexpr Index kFloat = Index(sizeof(float));
constexpr Index kBatchesHeld = 4;                  // two prefetched, one in use, one being filled
constexpr Index kBatchesOnGpu = 2;                 // one in use, one being copied and prepared
constexpr Index kKeyBytes = 10;                    // 8, and what workspaces have to spare
constexpr Index kPeerWorkspace = Index(6) << 20;   // of ranks' flags and small sums
constexpr Index kBlasPacked = Index(8) << 20;      // of a lane: operands as OpenBLAS packs them
constexpr Index kGpuWorkspace = Index(128) << 20;  // cuBLASLt's, for plain and for fused products

std::string activation_name(const LayerDescriptor& layer) {
  if (layer.kind == LayerKind::input) return {};
  if (std::holds_alternative<SoftMax>(layer.activation)) return "SoftMax";
  return std::string(name_of(std::get<Activation>(layer.activation)));
}

class Planner {
 public:
  Planner(const Graph& graph, const PlanSettings& settings)
      : network_(graph.network),
        settings_(settings),
        facts_(graph, step_settings(graph, settings)),
        tensors_(facts_) {}

  MemoryPlan plan() {
    for (int layer : facts_.order()) add_layer(layer);
    count_weights();
    for (int edge = 0; edge < facts_.edges(); ++edge)
      if (facts_.edge_takes_part(edge) && facts_.has_weights(edge)) add_edge(edge);
    tensors_.for_each(facts_, [this](const std::string& owner, auto& array) {
      const Tensor& tensor = array.tensor();
      this->count(sum_of(tensor.purpose), owner.empty() ? tensor.use : owner + " " + tensor.use,
                  tensor.bytes());
    });
    add_workspaces();
    add_exchange_workspace();
    add_data();
    add_process();
    if (settings_.keeps_state)
      count_working("copy of weights and state", plan_.parameter_bytes + plan_.state_bytes);
    return std::move(plan_);
  }

 private:
  static std::int64_t MemoryPlan::*sum_of(Purpose purpose) {
    if (purpose == Purpose::parameter) return &MemoryPlan::parameter_bytes;
    return purpose == Purpose::state ? &MemoryPlan::state_bytes : &MemoryPlan::working_bytes;
  }

  // Adds to one of the plan's sums, under a name that several arrays may have.
  void count(std::int64_t MemoryPlan::*sum, std::string name, Index bytes) {
    if (bytes == 0) return;
    plan_.*sum += bytes;
    for (BufferPlan& buffer : plan_.buffers)
      if (buffer.name == name) {
        buffer.bytes += bytes;
        return;
      }
    plan_.buffers.push_back({std::move(name), bytes});
  }
  void count_working(std::string name, Index bytes) {
    count(&MemoryPlan::working_bytes, std::move(name), bytes);
  }

  void add_layer(int number) {
    const LayerDescriptor& layer = facts_.layer(number);
    LayerPlan entry;
    entry.name = layer.name;
    entry.kind = rules_of(layer.kind).name;
    entry.activation = activation_name(layer);
    entry.units = layer.units();
    if (layer.dimensions > 1) entry.extent = extent_text(layer.extent.data(), layer.dimensions);
    if (facts_.by_example(number)) entry.by_example = facts_.layout(number).reason;
    if (!facts_.is_input(number)) {
      entry.blocks = facts_.partition(number).blocks();
      entry.block_width = facts_.partition(number).block_width();
    }
    plan_.layers.push_back(std::move(entry));
  }

  // Over all ranks.
  void count_weights() {
    Numbered<Index> into(std::size_t(facts_.layers()));
    tensors_.for_each_parameter(
        facts_,
        [&](int edge, const Weights& weights) {
          const Index elements = weights.shape().sources * weights.shape().destinations;
          into[facts_.edge(edge).destination] += elements;
          plan_.checkpoint_bytes += (1 + weights.slots()) * elements * kFloat;
        },
        [&](int layer, const auto&) {
          into[layer] += facts_.partition(layer).width();
          plan_.checkpoint_bytes += facts_.partition(layer).width() * kFloat;
        });
    for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
      plan_.layers[i].weights = into[facts_.order()[i]];
      plan_.weights += plan_.layers[i].weights;
    }
  }

  void add_edge(int number) {
    const Edge& edge = facts_.edge(number);
    plan_.edges.push_back({facts_.layer(edge.source).name, facts_.layer(edge.destination).name,
                           facts_.is_shared(number)   ? EdgePlan::Sharding::whole
                           : facts_.by_source(number) ? EdgePlan::Sharding::by_source
                                                      : EdgePlan::Sharding::by_destination});
  }

  // What kernels of a GPU keep for themselves.
  void add_workspaces() {
    if (!settings_.on_gpu()) return;
    count_working("workspace of products", kGpuWorkspace);
    for (int layer : facts_.order())
      if (facts_.is_softmax(layer) && facts_.may_fuse_delta(layer))
        count_working(
            facts_.layer(layer).name + " sums of SoftMax tiles",
            bytes_of_statistics(facts_.partition(layer), facts_.units(layer), facts_.batch()));
    for (int layer : facts_.order())
      if (facts_.is_factored(layer)) add_factored_workspace(layer);
    const Index windows = window_workspace(facts_);
    if (windows > 0) count_working("workspace of windows", windows);
  }

  // What is folded into rows, and sums that wait on each multiprocessor of an H200:
  // kernels/cuda/factored/fold_hopper.cu.
  static Index folding_floats(Index width) {
    constexpr Index kBlocks = 132, kDepth = 32;
    const Index steps = std::max<Index>(1, (width - 1 + kDepth - 1) / kDepth);
    const auto floats = [&](Index passes, Index cols, Index rows) {
      return passes * steps * cols * kDepth + kBlocks * (passes - 1) * rows * cols;
    };
    const Index narrow = std::max<Index>(1, (width - 1 + 127) / 128), wide = (narrow + 1) / 2;
    // Room for passes of 256 columns, as other devices have them, is there in any case.
    return std::max(floats(wide, 256, 128), narrow % 2 == 0 ? 0 : floats(narrow, 128, 192));
  }

  // Lists of stored targets, rows that are folded, and what makes factors: kernels/cuda/factored.
  void add_factored_workspace(int layer) {
    constexpr Index kProducts = Index(32) << 20, kWidened = Index(1) << 22;
    const Index batch = facts_.batch();
    const Index width = facts_.layer(facts_.edge(facts_.matrices(layer)[0]).source).units() + 1;
    const auto entries = Index(double(batch) * facts_.entries(layer));
    const Index side = facts_.is_wide_batch(layer) ? width : std::max(batch, width);
    const Index doubles =
        std::max({width * width + std::min(kWidened, facts_.partition(layer).block_width() * width),
                  2 * side * side, facts_.is_wide_batch(layer) ? 0 : batch * width});
    const Index floats =
        std::max(folding_floats(width), (width + 3) / 4 * 4 * (batch + entries / 32));
    count_working("workspace of products", kProducts);
    count_working(facts_.layer(layer).name + " workspace of factors",
                  (8 * doubles + 4 * floats) * 5 / 4);
    count_working(facts_.layer(layer).name + " lists of stored targets", 154 * entries);
  }

  // GPUs of several ranks send and receive packed columns: in the largest workspace for NCCL, or in
  // workspaces of the machine's GPUs, of which smaller ones stay (PeerTransport).
  void add_exchange_workspace() {
    if (!settings_.on_gpu() || facts_.ranks() == 1) return;
    std::int64_t nccl = 0, last = 0;
    std::int64_t peers = kPeerWorkspace;
    const step::Program program =
        facts_.training() ? step::compile_training(facts_) : step::compile_activations(facts_);
    for (const CollectivePlan& collective : step::traffic_of(program, facts_)) {
      nccl = std::max(nccl, collective.nccl_bytes);
      if (collective.peer_bytes <= last) continue;
      last = collective.peer_bytes;
      peers += 2 * last;
    }
    count_working("columns for other ranks", std::max(nccl, peers));
  }

  // Of an example: as it is stored.
  static double row_bytes(const DatasetInfo& set) {
    const Index entry = Index(sizeof(Column)) + (set.boolean ? 0 : kFloat);
    return set.gives_sparse_batches() ? entries_per_example(set) * double(entry) + 8.0
                                      : double(set.width()) * double(kFloat);
  }

  // Of an example in a batch: prefetched; prepared with values, and transposed.
  struct BatchBytes {
    double read = 0.0;
    double prepared = 0.0;
  };
  BatchBytes batch_bytes(const DatasetInfo& set) const {
    const double each = set.gives_sparse_batches() ? 4.0 * entries_per_example(set) * 8.0
                                                   : double(set.width()) * double(kFloat);
    return {double(settings_.on_gpu() ? kBatchesOnGpu : kBatchesHeld) * row_bytes(set),
            settings_.on_gpu() ? double(kBatchesOnGpu) * each : each};
  }

  // Of a step with so many examples, those that this rank reads of a set.
  double examples_read(const DatasetInfo& set, Index examples) const {
    bool reads_own = false;
    for (int layer : facts_.order()) {
      if (facts_.layer(layer).dataset != set.name) continue;
      if (!facts_.by_example(layer)) return double(examples);
      reads_own = true;
    }
    if (!reads_own) return double(examples);
    return double(ExamplePartition::make(examples).most_of(facts_.settings().rank, facts_.ranks()));
  }

  // A run that validates reads no training batches meanwhile, and prepares its batches in the same
  // place. Rows that stand on the GPU are gathered elsewhere than those that come from outside.
  double bytes_with_validation(const DatasetInfo& set) const {
    const double batch = examples_read(set, settings_.batch);
    const BatchBytes trained = batch_bytes(set);
    BatchBytes all{batch * trained.read, batch * trained.prepared};
    for (const DatasetInfo& other : settings_.validation.sets) {
      if (other.name != set.name) continue;
      const double examples = examples_read(set, std::min(settings_.batch, other.examples));
      const BatchBytes validated = batch_bytes(other);
      const bool is_resident =
          settings_.data_on_gpu && !plan_.data_streamed && !augments(network_, set.name);
      all.read = is_resident ? all.read + examples * validated.read
                             : std::max(all.read, examples * validated.read);
      all.prepared = std::max(all.prepared, examples * validated.prepared);
    }
    return all.read + all.prepared;
  }

  void add_data() {
    std::int64_t held = 0;
    std::int64_t on_gpu = 0;
    for (const DatasetInfo& set : settings_.sets) {
      const auto bytes = std::int64_t(row_bytes(set) * double(set.unique_examples));
      held += bytes;
      if (!augments(network_, set.name)) on_gpu += bytes;
    }
    plan_.data_streamed = held > settings_.data_memory_bytes;
    for (const DatasetInfo& set : settings_.sets)
      count(&MemoryPlan::batch_bytes, "batches of " + set.name, Index(bytes_with_validation(set)));
    if (!plan_.data_streamed && !settings_.on_gpu())
      count(&MemoryPlan::data_bytes, "data sets", held);
    if (!plan_.data_streamed && settings_.data_on_gpu) {
      for (const DatasetInfo& set : settings_.sets)
        if (augments(network_, set.name) && std::ranges::count(plan_.outside, set.name) == 0)
          plan_.outside.push_back(set.name);
      count(&MemoryPlan::data_bytes, "data sets", on_gpu);
    }
    add_validation();
  }

  void add_process() {
    if (settings_.on_gpu()) return;
    if (settings_.program_bytes > 0)
      count(&MemoryPlan::process_bytes, "the program and its libraries",
            settings_.program_bytes + settings_.lanes * kBlasPacked);
    if (settings_.purpose == Pass::training)
      count(&MemoryPlan::process_bytes, "a model on its way to the disk",
            std::min(plan_.checkpoint_bytes, kBytesToDisk));
  }

  static Index merge_keys(Index examples, Index k) {
    if (k <= SortedLists::kLongestMerged) return 0;
    return SortedLists::rows_at_once(examples, k) * SortedLists::capacity(k);
  }

  // What no training step has: data sets of its own, units that are known already, and the lists of
  // the best units, as a Predictor keeps them.
  void add_validation() {
    const ValidationPlan& validation = settings_.validation;
    if (validation.sets.empty()) return;
    if (!settings_.on_gpu())
      count(&MemoryPlan::data_bytes, "data sets of validations", validation.held_bytes);
    const Index examples = std::min(settings_.batch, validation.sets.front().examples);
    double known = 0.0;  // units of an example
    for (const DatasetInfo& set : validation.seen) {
      known += entries_per_example(set);
      if (!settings_.on_gpu())
        count(&MemoryPlan::batch_bytes, "batches of " + set.name + " that are seen",
              Index(double(examples * kBatchesHeld) * row_bytes(set)));
    }
    if (validation.longest_list == 0) return;
    const auto list = [&](Index units) {
      return examples * (units * (kFloat + Index(sizeof(Index))) + Index(sizeof(Index)));
    };
    Index longest = validation.longest_list;
    Index bytes = settings_.lanes * list(longest);
    if (settings_.on_gpu()) {
      bytes += kKeyBytes * merge_keys(examples, longest);
      for (const DatasetInfo& set : validation.sets)
        if (set.gives_sparse_batches()) known += entries_per_example(set);
      bytes += Index(double(examples) * (known * sizeof(Column) + 8.0));
    }
    const Index searched = Predictor::searched_units(longest);
    if (settings_.on_gpu() && settings_.device.precision.casts_operands() &&
        searched <= SearchSize::kLongest) {
      bytes += list(searched) + kKeyBytes * examples * SearchSize::capacity(searched);
      longest = searched;
    }
    if (settings_.ranks > 1) bytes += list(longest);
    count_working("lists of validations", bytes);
    count_working("outputs of a block in validations",
                  settings_.lanes * settings_.batch * kFloat *
                      facts_.partition(validation.output_layer).block_width());
  }

  const NetworkDescriptor& network_;
  const PlanSettings& settings_;
  const StepFacts facts_;
  StepTensors tensors_;
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const PlanSettings& settings) {
  return Planner(graph, settings).plan();
}

}  // namespace norn
