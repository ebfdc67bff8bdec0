// SPDX-License-Identifier: Apache-2.0
// Building a network: which layers take part, how units are shared out, weights and scratch memory.
#include "norn/engine/network.h"

#include "norn/base/error.h"
#include "src/engine/block_group.h"
#include "src/engine/network_state.h"
#include "src/engine/rounded_rows.h"
#include "src/engine/sharding.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
namespace {

// Pre-activations of an output layer are kept between the passes of SoftMax when they are at most
// this large: a function of width and batch alone. Larger ones are computed again, and so are those
// that never leave the kernel that makes them.
constexpr Index kKeptElements = Index(1) << 24;

UpdateSchedule make_schedule(const NetworkDescriptor& network) {
  UpdateSchedule schedule;
  const TrainingDescriptor& training = network.training;
  schedule.rate = training.rate;
  schedule.decay = network.decay;
  schedule.l2 = training.lambda;
  schedule.l1 = training.lambda1;
  schedule.clip = training.clip_gradient;
  return schedule;
}

// What the connections of a network need of a lane's scratch memory.
struct Widest {
  Index part = 0;      // columns of sums over sources
  Index dx = 0;        // columns
  Index gradient = 0;  // elements
};

// `most_units`: of a layer, in one call.
template <typename MostUnits>
Widest widest_connections(const Network& network, const MostUnits& most_units) {
  Widest widest;
  for (int number : network.order()) {
    const UnitLayer* layer = network.unit_layer(number);
    for (std::size_t c = 0; layer && c < layer->connections.size(); ++c) {
      const Connection& connection = layer->connections[c];
      const UnitLayer* source = network.unit_layer(layer->source_layers[c]);
      const bool by_source = connection.by_source();
      const Index width = (by_source ? source : layer)->partition().block_width();
      if (by_source) widest.part = std::max(widest.part, layer->partition().width());
      if (source) widest.dx = std::max(widest.dx, by_source ? width : connection.sources());
      widest.gradient = std::max(
          widest.gradient, connection.gradient_tile(network.context().compute.kernels.block_rule,
                                                    by_source ? 0 : layer->block(),
                                                    by_source ? width : most_units(*layer)));
    }
  }
  return widest;
}

}  // namespace

Network::Network(Graph graph, const std::vector<DatasetShape>& shapes, const Context& context,
                 Index batch, Pass purpose)
    : context_(context), graph_(std::move(graph)), batch_(batch), purpose_(purpose) {
  const std::size_t layers = graph_.network.layers.size();
  sparse_input_.assign(layers, false);
  for (std::size_t i = 0; i < layers; ++i)
    for (const DatasetShape& shape : shapes)
      if (shape.name == graph_.network.layers[i].dataset)
        sparse_input_[i] = shape.gives_sparse_batches;
  schedule_ = make_schedule(graph_.network);
  check_runnable();
  select_layers();
  build_layers();
  build_weights();
  build_source_sums();
  build_scratch();
  build_weight_squares();
  build_overlap();
}

Network::~Network() = default;

void Network::check_runnable() const {
  const Use use = purpose_ == Pass::training ? Use::training : Use::prediction;
  if (const auto reason = why_not_runnable(graph_, use)) throw UsageError(*reason);
}

// A layer takes part when it leads to an output; in a network without outputs all do.
void Network::select_layers() {
  const auto& layers = graph_.network.layers;
  std::vector<bool> used(layers.size(), false);
  for (std::size_t i = 0; i < layers.size(); ++i) used[i] = layers[i].kind == LayerKind::output;
  if (std::find(used.begin(), used.end(), true) == used.end()) used.assign(layers.size(), true);
  for (auto it = graph_.order.rbegin(); it != graph_.order.rend(); ++it) {
    if (!used[std::size_t(*it)]) continue;
    for (int edge : graph_.sources[std::size_t(*it)])
      used[std::size_t(graph_.edges[std::size_t(edge)].source)] = true;
    for (int skip : graph_.skips[std::size_t(*it)]) used[std::size_t(skip)] = true;
  }
  for (int layer : graph_.order)
    if (used[std::size_t(layer)]) order_.push_back(layer);
  sharding_ = std::make_unique<Sharding>(
      choose_sharding(graph_, used, batch_, context_.compute.kernels.block_rule));
}

void Network::build_layers() {
  const std::size_t layers = graph_.network.layers.size();
  inputs_.resize(layers);
  units_.resize(layers);
  outputs_.resize(layers);
  shares_.resize(layers);
  const int ranks = context_.communicator.size();
  partitions_.resize(layers);
  for (int layer : order_) {
    const auto at = std::size_t(layer);
    partitions_[at] =
        partition_of(graph_.network.layers[at], batch_, context_.compute.kernels.block_rule);
    for (int r = 0; r < ranks; ++r) shares_[at].push_back(partitions_[at].units_of(r, ranks));
  }
  build_outcome();
  batches_.resize(layers);
  bound_.resize(layers);
  for (int layer : order_) {
    const auto at = std::size_t(layer);
    const LayerDescriptor& descriptor = graph_.network.layers[at];
    if (descriptor.kind != LayerKind::hidden) batches_[at] = std::make_unique<DeviceBatch>();
    if (descriptor.kind == LayerKind::input) {
      const float denoising = descriptor.sparse ? graph_.network.denoising : 0.0f;
      inputs_[at] = std::make_unique<InputLayer>(descriptor, layer, sparse_input_[at], denoising,
                                                 context_.compute.memory);
      continue;
    }
    UnitLayer::Settings settings;
    settings.descriptor = &descriptor;
    settings.number = layer;
    settings.partition = partitions_[at];
    settings.mine = shares_[at][std::size_t(context_.communicator.rank())];
    settings.batch = batch_;
    settings.trainable = purpose_ == Pass::training;
    for (int edge : graph_.destinations[at]) {
      const auto destination = std::size_t(graph_.edges[std::size_t(edge)].destination);
      if (partitions_[destination].width() == 0) continue;
      settings.terms +=
          sharding_->by_source[std::size_t(edge)] ? 1 : partitions_[destination].blocks();
    }
    settings.terms += Index(graph_.skip_destinations[at].size());
    settings.is_joined = sharding_->joins[at];
    settings.joins_terms = !graph_.skip_destinations[at].empty() ||
                           (ranks > 1 && settings.is_joined && !exchanges_terms(layer));
    settings.sparseness = sparseness_of(graph_.network, descriptor);
    units_[at] =
        std::make_unique<UnitLayer>(settings, graph_.network.training.optimizer, context_.compute);
  }
}

// Blocks of all destinations of a joined layer that a rank owns: each gives a term of its delta.
Index Network::terms_of_rank(int layer, int rank) const {
  Index terms = 0;
  for (int edge : graph_.destinations[std::size_t(layer)])
    terms += partitions_[std::size_t(graph_.edges[std::size_t(edge)].destination)]
                 .blocks_of(rank, context_.communicator.size())
                 .count();
  return terms;
}

// Whether ranks send each other their terms as they are: the same on all ranks.
bool Network::exchanges_terms(int layer) const {
  Index terms = 0;
  for (int r = 0; r < context_.communicator.size(); ++r) terms += terms_of_rank(layer, r);
  return context_.collectives->exchanges() && terms <= FixedTerms::kMost &&
         graph_.skip_destinations[std::size_t(layer)].empty();
}

// Words: two flags a layer (of its delta sum; of an output layer, the second is SoftMax's), a cost
// for each own output block, then two flags for each source sum.
void Network::build_outcome() {
  const Communicator& communicator = context_.communicator;
  const std::size_t layers = partitions_.size();
  first_cost_.assign(layers, 0);
  Index words = 2 * Index(layers);
  for (int layer : order_) {
    if (graph_.network.layers[std::size_t(layer)].kind != LayerKind::output) continue;
    first_cost_[std::size_t(layer)] = words;
    words +=
        partitions_[std::size_t(layer)].blocks_of(communicator.rank(), communicator.size()).count();
  }
  first_sum_flag_ = words;
  for (int layer : order_) {
    const std::vector<int>& edges = graph_.sources[std::size_t(layer)];
    if (std::any_of(edges.begin(), edges.end(),
                    [&](int edge) { return sharding_->by_source[std::size_t(edge)]; }))
      words += 2;
  }
  for (Buffer<std::int64_t>& outcome : outcomes_)
    outcome = Buffer<std::int64_t>::zeros(words, context_.compute.memory);
  WorkQueue& queue = *context_.compute.kernels.queue;
  for (int i = 0; i <= queue.depth(); ++i)
    places_.push_back(
        static_cast<std::int64_t*>(queue.staging(std::size_t(words) * sizeof(std::int64_t))));
}

// A sparse source reads whole rows of its weights, so a matrix that one uses is stored by source
// unit.
bool Network::store_by_destination(int owner_edge) const {
  for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
    const Edge& edge = graph_.edges[e];
    const bool uses = int(e) == owner_edge || edge.shared_with == owner_edge;
    if (!uses || !sparse_input_[std::size_t(edge.source)]) continue;
    return int(e) != owner_edge && edge.transposed;  // as all of them: make_graph() has checked it
  }
  return true;
}

void Network::build_weights() {
  weights_.resize(graph_.edges.size());
  shared_.resize(graph_.edges.size());
  const UpdateRule& rule = graph_.network.training.optimizer;
  const auto takes_part = [&](const Edge& edge) {
    return units_[std::size_t(edge.destination)] != nullptr;
  };
  for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
    const Edge& edge = graph_.edges[e];
    if (edge.shared_with >= 0 || !takes_part(edge)) continue;
    int users = 1;
    for (const Edge& other : graph_.edges)
      users += other.shared_with == int(e) && takes_part(other);
    WeightShape shape;
    shape.sources = graph_.network.layers[std::size_t(edge.source)].units();
    shape.destinations = graph_.network.layers[std::size_t(edge.destination)].units();
    shape.by_source = sharding_->by_source[e];
    shape.mine = units_[std::size_t(shape.by_source ? edge.source : edge.destination)]->mine();
    shape.by_destination = !shape.by_source && store_by_destination(int(e));
    shape.replicated = users > 1;
    weights_[e] =
        std::make_unique<Weights>(shape, rule, purpose_ == Pass::training, context_.compute);
    weights_[e]->users = users;
  }
  if (purpose_ == Pass::training) build_shared_gradients();
  for (int layer : order_) {
    for (int e : graph_.sources[std::size_t(layer)]) {
      const Edge& edge = graph_.edges[std::size_t(e)];
      Weights* weights = weights_[std::size_t(edge.shared_with >= 0 ? edge.shared_with : e)].get();
      require(weights, "Network: a layer without weights; make_graph() refuses it");
      units_[std::size_t(layer)]->connections.emplace_back(*weights,
                                                           edge.shared_with >= 0 && edge.transposed,
                                                           sparse_input_[std::size_t(edge.source)]);
      units_[std::size_t(layer)]->source_layers.push_back(edge.source);
    }
  }
}

void Network::build_shared_gradients() {
  for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
    const int owner = graph_.edges[e].shared_with >= 0 ? graph_.edges[e].shared_with : int(e);
    const Weights* weights = weights_[std::size_t(owner)].get();
    if (!weights || weights->users < 2 || !units_[std::size_t(graph_.edges[e].destination)])
      continue;
    const MatrixView<const float> w = weights->values();
    shared_[e] = std::make_unique<SharedGradient>();
    shared_[e]->part = Matrix<float>::zeros(w.rows, w.cols, context_.compute.memory);
    if (owner == int(e))
      shared_[e]->sum = Matrix<float>::zeros(w.rows, w.cols, context_.compute.memory);
  }
}

void Network::build_softmax_rows(Index blocks, OutputState& state) {
  Memory& memory = context_.compute.memory;
  state.block_maximum = Matrix<float>(blocks, batch_, memory);
  state.block_sum = Matrix<float>(blocks, batch_, memory);
  if (const int ranks = context_.communicator.size(); ranks > 1)
    state.rank_maximum = Matrix<float>(ranks, batch_, memory);
  state.maximum = Buffer<float>(batch_, memory);
  state.total = Buffer<std::int64_t>(batch_, memory);
  state.coupling = Buffer<std::int64_t>(batch_, memory);
}

void Network::build_scratch() {
  const auto rank = std::size_t(context_.communicator.rank());
  const auto output_units_at_once = [&](const UnitLayer& layer) {
    return purpose_ == Pass::training && may_fuse_delta(layer.settings().number)
               ? units_at_once(layer.partition(), batch_)
               : layer.partition().block_width();
  };
  // A GPU's hidden layers take all their blocks at once.
  const bool is_together = !context_.compute.memory.is_host();
  const Widest widest = widest_connections(*this, [&](const UnitLayer& layer) {
    if (layer.is_output()) return output_units_at_once(layer);
    return is_together ? layer.mine().count() : layer.partition().block_width();
  });
  Index widest_z = 0;
  Index widest_delta = 0;
  bool clips = false;
  for (int number : order_) {
    const UnitLayer* layer = unit_layer(number);
    if (!layer) continue;
    const Index width = layer->partition().block_width();
    clips = clips || layer->descriptor().delta_norm > 0.0f;
    if (!layer->is_output()) continue;
    const bool fuses = purpose_ == Pass::training && may_fuse_delta(number);
    const Index at_once = output_units_at_once(*layer);
    widest_delta = std::max(widest_delta, at_once);
    auto state = std::make_unique<OutputState>();
    const Index mine = shares_[std::size_t(number)][rank].count();
    const Range blocks = layer->partition().blocks_of(int(rank), context_.communicator.size());
    const bool keep =
        layer->is_softmax() && !fuses && layer->partition().width() * batch_ <= kKeptElements;
    if (keep) state->kept_z = Buffer<float>(mine * batch_, context_.compute.memory);
    if (!keep)
      widest_z = std::max(widest_z, context_.compute.kernels.turns_operands ? at_once : width);
    if (layer->is_softmax()) build_softmax_rows(blocks.count(), *state);
    if (fuses) state->target_runs.emplace(shares_[std::size_t(number)][rank], width, batch_);
    outputs_[std::size_t(number)] = std::move(state);
  }
  scratch_.resize(std::size_t(context_.compute.executor.lanes()));
  for (Scratch& scratch : scratch_) {
    scratch.z = Matrix<float>(batch_, (widest_z + 7) / 8 * 8, context_.compute.memory);
    const bool trains = purpose_ == Pass::training;
    if (context_.compute.memory.is_host())
      scratch.dx = Matrix<float>(batch_, trains ? std::max(widest.dx, widest.part) : widest.part,
                                 context_.compute.memory);
    if (!trains) continue;
    scratch.gradient = Buffer<float>(widest.gradient, context_.compute.memory);
    if (context_.compute.kernels.rounds_operands)
      scratch.delta =
          Matrix<Bfloat16>(batch_, rounded_stride(widest_delta), context_.compute.memory);
    if (context_.compute.kernels.turns_operands)
      scratch.turned = Matrix<float>(widest_delta, (batch_ + 7) / 8 * 8, context_.compute.memory);
  }
  if (clips && purpose_ == Pass::training)
    row_squares_ = Buffer<FixedSum>(Index(scratch_.size()) * batch_, context_.compute.memory);
}

void Network::initialise(std::uint64_t seed) {
  for (std::size_t e = 0; e < weights_.size(); ++e) {
    if (!weights_[e]) continue;
    const WeightShape& shape = weights_[e]->shape();
    const auto destination = std::size_t(graph_.edges[e].destination);
    WeightPlace place;
    place.by_destination = shape.by_destination;
    (shape.by_source ? place.first_source : place.first_destination) = shape.mine.begin;
    place.sources = shape.sources;
    place.destinations = shape.destinations;
    context_.compute.kernels.update->initialise(
        graph_.network.layers[destination].init.scheme,
        Philox::stream(seed, RandomPurpose::weights, std::uint32_t(e)), place,
        weights_[e]->values());
    weights_[e]->round(context_.compute);
  }
}

bool Network::weights_features(int layer) const {
  const auto& input = inputs_[std::size_t(layer)];
  return input && input->weights_features();
}

void Network::set_feature_weights(int layer, const std::vector<float>& weights) {
  require(weights_features(layer), "Network::set_feature_weights: the layer has no InputWeighting");
  inputs_[std::size_t(layer)]->set_feature_weights(weights);
}

std::vector<float> Network::feature_weights(int layer) const {
  require(weights_features(layer), "Network::feature_weights: the layer has no InputWeighting");
  return inputs_[std::size_t(layer)]->feature_weights();
}

Index Network::working_bytes() const {
  Index bytes = outcomes_[0].bytes() + outcomes_[1].bytes() + row_squares_.bytes() +
                prediction_flags_.bytes();
  for (const Buffer<double>& squares : weight_squares_) bytes += squares.bytes();
  for (const auto& layer : units_)
    if (layer) bytes += layer->working_bytes();
  for (const auto& input : inputs_)
    if (input) bytes += input->bytes_of_weights();
  for (const Scratch& scratch : scratch_)
    bytes += scratch.z.bytes() + scratch.dx.bytes() + scratch.gradient.bytes() +
             scratch.delta.bytes() + scratch.turned.bytes();
  for (const auto& state : outputs_)
    if (state)
      bytes += state->kept_z.bytes() + state->block_maximum.bytes() + state->block_sum.bytes() +
               state->rank_maximum.bytes() + state->maximum.bytes() + state->total.bytes() +
               state->coupling.bytes() + (state->target_runs ? state->target_runs->bytes() : 0);
  for (const auto& sum : source_sums_)
    if (sum)
      bytes +=
          sum->parts.bytes() + sum->z.bytes() + sum->delta.bytes() + sum->rounded_delta.bytes();
  for (const auto& shared : shared_)
    if (shared) bytes += shared->sum.bytes() + shared->part.bytes();
  return bytes;
}

}  // namespace norn
