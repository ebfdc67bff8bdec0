// SPDX-License-Identifier: Apache-2.0
// Memory of a run from the sizes of its layers: the same arithmetic as Network's buffers, without
// allocating them. tests/engine/memory_plan_test.cpp holds the two together.
#include "norn/engine/memory_plan.h"

#include "norn/engine/predictor.h"
#include "norn/kernels/named_variant.h"
#include "norn/kernels/recommend.h"
#include "norn/nn/layer.h"
#include "norn/parallel/collectives.h"
#include "src/engine/block_group.h"
#include "src/engine/plan_facts.h"
#include "src/engine/rounded_rows.h"
#include "src/engine/target_runs.h"

#include <algorithm>
#include <limits>

namespace norn {
namespace {

constexpr Index kFloat = Index(sizeof(float));
constexpr Index kRounded = Index(sizeof(Bfloat16));
constexpr Index kBatchesHeld = 4;                  // two read ahead, one in use, one being filled
constexpr Index kBatchesOnGpu = 2;                 // one in use, one being copied and prepared
constexpr Index kKeyBytes = 10;                    // 8, and what scratch buffers have to spare
constexpr Index kPeerRoom = Index(6) << 20;        // of ranks' flags and small sums
constexpr Index kGpuWorkspace = Index(128) << 20;  // cuBLASLt's, for plain and for fused products

std::string activation_name(const LayerDescriptor& layer) {
  if (layer.kind == LayerKind::input) return {};
  if (std::holds_alternative<SoftMax>(layer.activation)) return "SoftMax";
  return std::string(name_of(std::get<Activation>(layer.activation)));
}

// What Network's constructor decides, as numbers.
class Planner : private PlanFacts {
 public:
  using PlanFacts::PlanFacts;

  MemoryPlan plan() {
    for (int layer : graph_.order)
      if (takes_part_[std::size_t(layer)]) add_layer(layer);
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) add_edge(int(e));
    add_scratch();
    add_joining();
    add_data();
    if (settings_.keeps_state)
      count_working("copy of weights and state", plan_.parameter_bytes + plan_.state_bytes);
    return std::move(plan_);
  }

  std::vector<EdgeWork> edge_work() const {
    std::vector<EdgeWork> edges;
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      if (!edge_takes_part(int(e))) continue;
      const Edge& edge = graph_.edges[e];
      edges.push_back({layer_of(edge.source).name, layer_of(edge.destination).name, {}});
      add_work(int(e), edges.back().work);
    }
    return edges;
  }

  WorkPlan work() const {
    WorkPlan work;
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) add_work(int(e), work);
    for (int layer : graph_.order)
      if (takes_part_[std::size_t(layer)] && !is_input(layer))
        work.pointwise_elements += 3.0 * double(settings_.batch) * double(mine(layer));
    return work;
  }

 private:
  // Adds to one of the plan's sums, under a name.
  void count(std::int64_t MemoryPlan::*sum, std::string name, Index bytes) {
    if (bytes == 0) return;
    plan_.*sum += bytes;
    plan_.buffers.push_back({std::move(name), bytes});
  }
  void count_working(std::string name, Index bytes) {
    count(&MemoryPlan::working_bytes, std::move(name), bytes);
  }

  void add_layer(int number) {
    const LayerDescriptor& layer = layer_of(number);
    LayerPlan entry;
    entry.name = layer.name;
    entry.kind = is_input(number) ? "Input" : is_output(number) ? "Output" : "Hidden";
    entry.activation = activation_name(layer);
    entry.units = layer.units();
    if (!is_input(number)) {
      entry.blocks = partition(number).blocks();
      entry.block_width = partition(number).block_width();
      entry.weights = layer.units();
      for (int e : graph_.sources[std::size_t(number)])
        if (graph_.edges[std::size_t(e)].shared_with < 0)
          entry.weights += layer.units() * layer_of(graph_.edges[std::size_t(e)].source).units();
      add_unit_vectors(number);
      add_source_sum(number);
      is_output(number) ? add_output(number) : add_hidden(number);
    }
    if (is_input(number) && weights_features(layer.input_weighting))
      count_working(layer.name + " weights of features", layer.units() * kFloat);
    plan_.weights += entry.weights;
    plan_.layers.push_back(std::move(entry));
  }

  void add_unit_vectors(int number) {
    const LayerDescriptor& layer = layer_of(number);
    const bool norm = layer.batch_normalization;
    const Index bytes = mine(number) * kFloat;
    count(&MemoryPlan::parameter_bytes, layer.name + " biases and scales", bytes * (norm ? 5 : 1));
    count(&MemoryPlan::state_bytes, layer.name + " state of biases and scales",
          bytes * slots_ * (norm ? 3 : 1));
    if (!training()) return;
    count_working(layer.name + " gradients of biases", 2 * bytes);
    if (layer.weight_norm > 0.0f && graph_.sources[std::size_t(number)].size() > 1)
      count_working(layer.name + " squares of weights", mine(number) * Index(sizeof(double)));
  }

  // As Network::build_source_sums.
  void add_source_sum(int number) {
    const LayerDescriptor& layer = layer_of(number);
    DeltaSum::Shape shape{settings_.batch, layer.units()};
    for (int edge : graph_.sources[std::size_t(number)])
      if (by_source(edge))
        shape.terms += partition(graph_.edges[std::size_t(edge)].source).blocks();
    if (shape.terms == 0) return;
    shape.joins = settings_.ranks > 1;
    const Index whole = settings_.batch * layer.units();
    count_working(layer.name + " sums over sources", DeltaSum::bytes_of(shape, !settings_.on_gpu) +
                                                         settings_.batch * mine(number) * kFloat);
    if (training())
      count_working(layer.name + " deltas of all units",
                    whole * (kFloat + (settings_.rounds_operands ? kRounded : 0)));
  }

  void add_hidden(int number) {
    const LayerDescriptor& layer = layer_of(number);
    const Index whole = settings_.batch * layer.units() * kFloat;
    const Index own = settings_.batch * mine(number) * kFloat;
    const auto rounded = [&](Index bytes) {
      return settings_.rounds_operands ? bytes / kFloat * kRounded : 0;
    };
    count_working(layer.name + " activations", whole);
    count_working(layer.name + " activations, rounded", rounded(whole));
    if (!training()) return;
    if (settings_.turns_operands)
      count_working(layer.name + " activations, turned over",
                    (settings_.batch + 7) / 8 * 8 * layer.units() * kFloat);
    const Index deltas = settings_.batch * delta_stride(mine(number)) * kFloat;
    count_working(layer.name + " deltas", deltas);
    count_working(layer.name + " deltas, rounded", rounded(deltas));
    if (keeps_outputs_before_dropout(layer, sparseness_of(graph_.network, layer)))
      count_working(layer.name + " before dropout", own);
    if (keeps_pre_activations(layer)) count_working(layer.name + " pre-activations", own);
    if (layer.batch_normalization)
      count_working(layer.name + " normalised", own + mine(number) * kFloat);
    if (wants_delta(number)) {
      const bool is_joined = joins(number);
      DeltaSum::Shape shape{settings_.batch, is_joined ? layer.units() : mine(number),
                            delta_terms(number)};
      const bool skipped = !graph_.skip_destinations[std::size_t(number)].empty();
      shape.joins = skipped || (settings_.ranks > 1 && is_joined && !exchanges_terms(number));
      count_working(layer.name + " sums of deltas", DeltaSum::bytes_of(shape, !settings_.on_gpu));
    }
  }

  // GPUs of several ranks send and receive packed columns: in the largest room for NCCL, or in
  // rooms of the machine's GPUs, of which smaller ones stay (PeerExchange).
  void add_joining() {
    if (!settings_.on_gpu || settings_.ranks == 1) return;
    Index room = 0;
    Index peers = kPeerRoom;
    Index last = 0;
    const auto grow = [&](Index bytes) {
      if (bytes > last) peers += 2 * bytes;
      last = std::max(last, bytes);
    };
    std::vector<Index> exchanges;
    for (int number : graph_.order) {
      if (!takes_part_[std::size_t(number)] || is_input(number)) continue;
      const JoiningRoom of = joining_room(number);
      room = std::max({room, of.words, of.gathered, of.exchanged});
      grow(settings_.batch * layer_of(number).units() * of.element);
      exchanges.push_back(std::max(of.exchanged, of.words));
    }
    for (auto bytes = exchanges.rbegin(); bytes != exchanges.rend(); ++bytes) grow(*bytes);
    count_working("columns for other ranks", std::max(room, peers));
  }
  struct JoiningRoom {
    Index words = 0, gathered = 0, exchanged = 0;
    Index element = 0;  // bytes of what is gathered
  };
  JoiningRoom joining_room(int number) const {
    std::vector<Range> shares;
    for (int r = 0; r < settings_.ranks; ++r)
      shares.push_back(partition(number).units_of(r, settings_.ranks));
    const Index batch = settings_.batch;
    JoiningRoom room;
    for (int edge : graph_.sources[std::size_t(number)]) {
      if (!by_source(edge)) continue;
      room.words = nccl_room(batch, shares, 0, 2);
      room.element = kFloat;
    }
    if (!is_output(number) && joins(number)) {
      const bool rounded = settings_.rounds_operands && training() && !is_softmax(number);
      room.element = std::max(room.element, rounded ? kRounded : kFloat);
      if (wants_delta(number) && exchanges_terms(number))
        room.exchanged = nccl_exchange_room(batch, terms_by_rank(number), shares);
      else if (wants_delta(number))
        room.words = nccl_room(batch, shares, 0, 2);
    }
    room.gathered = nccl_room(batch, shares, room.element, 0);
    return room;
  }

  void add_output(int number) {
    if (const DatasetInfo* set = set_of(number);
        training() && may_fuse_delta(number) && set && set->gives_sparse_batches())
      count_working(layer_of(number).name + " places of stored targets",
                    TargetRuns({0, mine(number)}, partition(number).block_width(), settings_.batch)
                        .planned_bytes());
    if (!is_softmax(number)) return;
    const std::string& name = layer_of(number).name;
    const Index blocks = partition(number).blocks_of(0, settings_.ranks).count();
    count_working(name + " sums of SoftMax rows",
                  2 * blocks * settings_.batch * kFloat +
                      settings_.batch * (kFloat + 2 * Index(sizeof(std::int64_t))) +
                      (settings_.ranks > 1 ? settings_.ranks * settings_.batch * kFloat : 0));
    if (keeps_z(number))
      count_working(name + " pre-activations", mine(number) * settings_.batch * kFloat);
    if (training() && may_fuse_delta(number))
      count_working(name + " sums of SoftMax tiles",
                    bytes_of_statistics(partition(number), mine(number), settings_.batch));
  }

  void add_edge(int number) {
    const Edge& edge = graph_.edges[std::size_t(number)];
    if (!edge_takes_part(number)) return;
    const int owned = owner(number);
    const Edge& first = graph_.edges[std::size_t(owned)];
    const bool replicated = users(owned) > 1;
    const Index sources = by_source(owned) ? mine(first.source) : layer_of(first.source).units();
    const Index destinations = replicated || by_source(owned) ? layer_of(first.destination).units()
                                                              : mine(first.destination);
    const Index bytes = sources * destinations * kFloat;
    const std::string name = layer_of(edge.source).name + " -> " + layer_of(edge.destination).name;
    if (replicated && training())
      count_working(name + " gradient of shared weights", bytes * (owned == number ? 2 : 1));
    plan_.edges.push_back({layer_of(edge.source).name, layer_of(edge.destination).name,
                           replicated         ? EdgePlan::Sharding::whole
                           : by_source(owned) ? EdgePlan::Sharding::by_source
                                              : EdgePlan::Sharding::by_destination});
    if (edge.shared_with >= 0) return;
    count(&MemoryPlan::parameter_bytes, name + " weights", bytes);
    count(&MemoryPlan::state_bytes, name + " optimizer state", bytes * slots_);
    if (stored_by_destination(number) && settings_.rounds_operands)
      count(&MemoryPlan::state_bytes, name + " weights, rounded",
            kRounded * (by_source(owned) ? Weights::rounded_rows(sources) * destinations
                                         : sources * Weights::rounded_rows(destinations)));
    if (training() && !stored_by_destination(number))
      count(&MemoryPlan::state_bytes, name + " steps of the rows",
            sources * Index(sizeof(std::int64_t)));
  }

  Index gradient_tile(int edge) const {
    const Edge& e = graph_.edges[std::size_t(edge)];
    if (sparse_input_[std::size_t(e.source)] || users(owner(edge)) > 1) return 0;
    const bool is_by_source = by_source(edge);
    const int cut = is_by_source ? e.source : e.destination;
    const Index columns = layer_of(is_by_source ? e.destination : e.source).units();
    const Index width = partition(cut).block_width();
    const Index block = partition(cut).blocks() > 1 && !is_by_source ? width : 0;
    Index most_units = is_by_source ? width : at_once(cut);
    if (settings_.on_gpu && !is_by_source && !is_output(cut)) most_units = mine(cut);
    return gradient_units(settings_.block_rule, block, most_units, columns) * columns;
  }

  // Units of an output layer, or of a block, that a call may have.
  Index at_once(int number) const {
    return is_output(number) && training() && may_fuse_delta(number)
               ? units_at_once(partition(number), settings_.batch)
               : partition(number).block_width();
  }

  // Every lane has room for the largest connection.
  void add_scratch() {
    Index widest_z = 0;
    Index widest_part = 0;
    Index widest_source = 0;
    Index gradient = 0;
    Index widest_delta = 0;
    for (int number : graph_.order) {
      if (!takes_part_[std::size_t(number)] || is_input(number)) continue;
      for (int e : graph_.sources[std::size_t(number)]) {
        const int source = graph_.edges[std::size_t(e)].source;
        if (by_source(e)) widest_part = std::max(widest_part, layer_of(number).units());
        if (!is_input(source))
          widest_source = std::max(widest_source, by_source(e) ? partition(source).block_width()
                                                               : layer_of(source).units());
        gradient = std::max(gradient, gradient_tile(e));
      }
      if (!is_output(number)) continue;
      const Index width = partition(number).block_width();
      widest_delta = std::max(widest_delta, at_once(number));
      if (!keeps_z(number))
        widest_z = std::max(widest_z, settings_.turns_operands ? at_once(number) : width);
    }
    const auto each_lane = [&](const char* name, Index bytes) {
      count_working(name, bytes * settings_.lanes);
    };
    if (settings_.on_gpu) count_working("workspace of products", kGpuWorkspace);
    each_lane("pre-activations of a block", settings_.batch * ((widest_z + 7) / 8 * 8) * kFloat);
    if (!settings_.on_gpu) {
      const Index widest = training() ? std::max(widest_source, widest_part) : widest_part;
      each_lane("input deltas of a block", settings_.batch * widest * kFloat);
    }
    if (!training()) return;
    each_lane("gradient of a tile", gradient * kFloat);
    if (settings_.turns_operands)
      each_lane("deltas of a block, turned over",
                widest_delta * ((settings_.batch + 7) / 8 * 8) * kFloat);
    if (settings_.rounds_operands)
      each_lane("deltas of a block, rounded",
                settings_.batch * rounded_stride(widest_delta) * kRounded);
  }

  // Of an example: as it is stored.
  static double row_bytes(const DatasetInfo& set) {
    const Index entry = Index(sizeof(Column)) + (set.boolean ? 0 : kFloat);
    return set.gives_sparse_batches() ? entries_per_example(set) * double(entry) + 8.0
                                      : double(set.width()) * double(kFloat);
  }

  // Of an example in a batch: read ahead; prepared with values, and turned over.
  struct BatchBytes {
    double read = 0.0;
    double prepared = 0.0;
  };
  BatchBytes batch_bytes(const DatasetInfo& set) const {
    const double each = set.gives_sparse_batches() ? 4.0 * entries_per_example(set) * 8.0
                                                   : double(set.width()) * double(kFloat);
    return {double(settings_.on_gpu ? kBatchesOnGpu : kBatchesHeld) * row_bytes(set),
            settings_.on_gpu ? double(kBatchesOnGpu) * each : each};
  }

  // A run that validates reads no training batches meanwhile, and prepares its batches in the same
  // place. Rows that stand on the GPU are gathered elsewhere than those that come from outside.
  double bytes_with_validation(const DatasetInfo& set) const {
    const double batch = double(settings_.batch);
    const BatchBytes trained = batch_bytes(set);
    BatchBytes all{batch * trained.read, batch * trained.prepared};
    for (const DatasetInfo& other : settings_.validation.sets) {
      if (other.name != set.name) continue;
      const double examples = std::min(batch, double(other.examples));
      const BatchBytes judged = batch_bytes(other);
      const bool is_beside = settings_.data_on_gpu && !plan_.data_streamed;
      all.read = is_beside ? all.read + examples * judged.read
                           : std::max(all.read, examples * judged.read);
      all.prepared = std::max(all.prepared, examples * judged.prepared);
    }
    return all.read + all.prepared;
  }

  void add_data() {
    std::int64_t held = 0;
    for (const DatasetInfo& set : settings_.sets)
      held += std::int64_t(row_bytes(set) * double(set.unique_examples));
    plan_.data_streamed = held > settings_.data_memory_bytes;
    for (const DatasetInfo& set : settings_.sets)
      count(&MemoryPlan::batch_bytes, "batches of " + set.name, Index(bytes_with_validation(set)));
    if (!plan_.data_streamed && (!settings_.on_gpu || settings_.data_on_gpu))
      count(&MemoryPlan::data_bytes, "data sets", held);
    add_validation();
  }

  static Index merge_keys(Index examples, Index k) {
    if (k <= SortedLists::kLongestMerged) return 0;
    return SortedLists::rows_at_once(examples, k) * SortedLists::room(k);
  }

  // What no training step has: data sets of its own, units that are known already, and the lists of
  // the best units, as a Predictor keeps them.
  void add_validation() {
    const ValidationPlan& validation = settings_.validation;
    if (validation.sets.empty()) return;
    if (!settings_.on_gpu)
      count(&MemoryPlan::data_bytes, "data sets of validations", validation.held_bytes);
    const Index examples = std::min(settings_.batch, validation.sets.front().examples);
    double known = 0.0;  // units of an example
    for (const DatasetInfo& set : validation.seen) {
      known += entries_per_example(set);
      if (!settings_.on_gpu)
        count(&MemoryPlan::batch_bytes, "batches of " + set.name + " that are seen",
              Index(double(examples * kBatchesHeld) * row_bytes(set)));
    }
    if (validation.longest_list == 0) return;
    const auto list = [&](Index units) {
      return examples * (units * (kFloat + Index(sizeof(Index))) + Index(sizeof(Index)));
    };
    Index longest = validation.longest_list;
    Index bytes = settings_.lanes * list(longest);
    if (settings_.on_gpu) {
      bytes += kKeyBytes * merge_keys(examples, longest);
      for (const DatasetInfo& set : validation.sets)
        if (set.gives_sparse_batches()) known += entries_per_example(set);
      bytes += Index(double(examples) * (known * sizeof(Column) + 8.0));
    }
    const Index searched = Predictor::searched_units(longest);
    if (settings_.on_gpu && settings_.rounds_operands && searched <= SearchSize::kLongest) {
      bytes += list(searched) + kKeyBytes * examples * SearchSize::room(searched);
      longest = searched;
    }
    if (settings_.ranks > 1) bytes += list(longest);
    count_working("lists of validations", bytes);
    count_working("outputs of a block in validations",
                  settings_.lanes * settings_.batch * kFloat *
                      partition(validation.output_layer).block_width());
  }

  // A step of one weight: it and its state are read and written.
  double step_bytes() const { return 2.0 * double(kFloat) * (1.0 + double(slots_)); }

  void add_work(int number, WorkPlan& work) const {
    if (!edge_takes_part(number)) return;
    const Edge& edge = graph_.edges[std::size_t(number)];
    const double batch = double(settings_.batch);
    const double units = by_source(number) ? double(layer_of(edge.destination).units())
                                           : double(mine(edge.destination));
    const double sources =
        double(by_source(number) ? mine(edge.source) : layer_of(edge.source).units());
    if (sparse_input_[std::size_t(edge.source)]) {
      const DatasetInfo* set = set_of(edge.source);
      const double entries = set ? batch * entries_per_example(*set) : 0.0;
      const double touched = std::min(entries, double(layer_of(edge.source).units()));
      work.sparse_flops += 2.0 * 2.0 * entries * units;  // forward and gradient
      work.updated_weights += touched * units;
      work.bytes += 2.0 * kFloat * entries * units + touched * units * step_bytes();
      return;
    }
    const double product = 2.0 * batch * sources * units;
    const bool twice = is_softmax(edge.destination) && is_output(edge.destination) &&
                       !keeps_z(edge.destination) && !by_source(number);
    work.dense_flops += product * (2.0 + (twice ? 1.0 : 0.0) + (is_input(edge.source) ? 0.0 : 1.0));
    const double weights = sources * units;
    const double passes = 1.0 + (twice ? 1.0 : 0.0) + (is_input(edge.source) ? 0.0 : 1.0);
    work.updated_weights += weights;
    work.bytes += weights * (passes * double(settings_.rounds_operands ? kRounded : kFloat) +
                             step_bytes() + (settings_.rounds_operands ? kRounded : 0));
  }

  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const PlanSettings& settings) {
  return Planner(graph, settings).plan();
}

WorkPlan plan_work(const Graph& graph, const PlanSettings& settings) {
  return Planner(graph, settings).work();
}

std::vector<EdgeWork> plan_edges(const Graph& graph, const PlanSettings& settings) {
  return Planner(graph, settings).edge_work();
}

}  // namespace norn
