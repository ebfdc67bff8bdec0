// SPDX-License-Identifier: Apache-2.0
// A network on this rank: its parts, its parameters, and what is asked of it beside steps.
#include "src/engine/network/network.h"

#include "norn/base/error.h"
#include "src/engine/network/network_parts.h"
#include "src/nn/stored_weights.h"

#include <fmt/format.h>

namespace norn {
namespace {

StepSettings step_settings(const Graph& graph, const std::vector<DatasetShape>& shapes,
                           const Context& context, Index batch, Pass purpose,
                           const BlockRule* blocks, std::vector<bool> by_example) {
  StepSettings settings;
  settings.by_example = std::move(by_example);
  settings.batch = batch;
  settings.rank = context.communicator.rank();
  settings.ranks = context.communicator.size();
  settings.lanes = context.compute.executor.lanes();
  settings.purpose = purpose;
  settings.device = traits_of(context.compute);
  if (blocks) settings.device.block_rule = *blocks;
  settings.exchanges = context.collectives->exchanges();
  for (const LayerDescriptor& layer : graph.network.layers) {
    bool sparse = false;
    for (const DatasetShape& shape : shapes)
      if (shape.name == layer.dataset) sparse = shape.gives_sparse_batches;
    settings.sparse_input.push_back(sparse);
  }
  return settings;
}

Graph runnable(Graph graph, Pass purpose) {
  const Use use = purpose == Pass::training ? Use::training : Use::prediction;
  if (const auto reason = why_not_runnable(graph, use)) throw UsageError(*reason);
  return graph;
}

}  // namespace

Network::Parts::Parts(Graph the_graph, const std::vector<DatasetShape>& shapes,
                      const Context& context, Index batch, Pass purpose, const BlockRule* blocks,
                      std::vector<bool> by_example)
    : graph(runnable(std::move(the_graph), purpose)),
      facts(graph,
            step_settings(graph, shapes, context, batch, purpose, blocks, std::move(by_example))),
      state(facts, context),
      training(facts.training() ? step::compile_training(facts) : step::Program()),
      to_activations(step::compile_activations(facts)) {
  WorkQueue& queue = *compute().kernels.queue;
  for (int i = 0; i <= queue.depth(); ++i)
    places.push_back(static_cast<std::byte*>(queue.staging(std::size_t(facts.outcome().bytes()))));
}

void Network::Parts::require_planned(const BoundBatch& batch, const char* function) const {
  if (batch.examples >= 1 && batch.examples <= facts.batch()) return;
  throw ShapeError(fmt::format("Network::{}: batch is empty or larger than planned", function));
}

Network::Network(Graph graph, const std::vector<DatasetShape>& shapes, const Context& context,
                 Index batch, Pass purpose, const BlockRule* blocks, std::vector<bool> by_example)
    : parts_(std::make_unique<Parts>(std::move(graph), shapes, context, batch, purpose, blocks,
                                     std::move(by_example))) {}

Network::~Network() = default;

const Graph& Network::graph() const {
  return parts_->graph;
}
Index Network::batch() const {
  return parts_->facts.batch();
}
const Context& Network::context() const {
  return parts_->state.context;
}
float Network::rate_at(std::int64_t t) const {
  return parts_->state.schedule.rate_at(t);
}
int Network::steps_in_flight() const {
  return int(parts_->in_flight.size());
}
const std::vector<int>& Network::order() const {
  return parts_->facts.order();
}
UnitLayer* Network::unit_layer(int layer) {
  return parts_->state.units[layer].get();
}
const UnitLayer* Network::unit_layer(int layer) const {
  return parts_->state.units[layer].get();
}
Weights* Network::weights(int edge) {
  return parts_->state.weights[edge].get();
}
const std::vector<Range>& Network::shares(int layer) const {
  return parts_->facts.shares(layer);
}
ExamplesRead Network::examples_read(int layer) const {
  const StepFacts& facts = parts_->facts;
  if (!facts.is_input(layer) || !facts.by_example(layer)) return {};
  return [rank = facts.settings().rank, ranks = facts.ranks()](Index examples) {
    return ExamplePartition::make(examples).examples_of(rank, ranks);
  };
}
void Network::set_unit_labels(std::vector<LabelTable> labels) {
  parts_->unit_labels = std::move(labels);
}
const std::vector<LabelTable>& Network::unit_labels() const {
  return parts_->unit_labels;
}
void Network::set_chosen(std::string record) {
  parts_->chosen = std::move(record);
}
const std::string& Network::chosen() const {
  return parts_->chosen;
}
Index Network::working_bytes() const {
  return parts_->state.bytes(parts_->facts, Purpose::working);
}

std::vector<NetworkParameter> Network::parameters() {
  std::vector<NetworkParameter> all;
  const StepFacts& facts = parts_->facts;
  parts_->state.for_each_parameter(
      facts,
      [&](int edge, Weights& matrix) {
        all.push_back({.name = edge_name(facts, edge), .edge = edge, .matrix = &matrix});
      },
      [&](int layer, HeldBuffer<float>& vector) {
        all.push_back({.name = facts.layer(layer).name + " " + vector.tensor().item,
                       .layer = layer,
                       .vector = &vector});
      });
  return all;
}

std::vector<HeldBuffer<float>*> Network::unit_vectors(int layer) {
  std::vector<HeldBuffer<float>*> vectors;
  parts_->state.for_each_item_of(layer, [&]<typename Array>(Array& array) {
    if constexpr (std::is_same_v<Array, HeldBuffer<float>>) vectors.push_back(&array);
  });
  return vectors;
}

std::vector<NetworkArray> Network::state_arrays(int layer) {
  std::vector<NetworkArray> arrays;
  parts_->state.for_each_item_of(layer, [&]<typename Array>(Array& array) {
    if constexpr (!std::is_same_v<Array, HeldBuffer<float>>)
      arrays.push_back({&array.tensor(), array.address()});
  });
  if (!is_factored(layer)) return arrays;
  const step::FactoredRoom& room = parts_->state.room<step::FactoredRoom>(layer);
  UnitLayer& unit = *unit_layer(layer);
  const auto add = [&](const Tensor& tensor, float* values) {
    arrays.push_back({&tensor, reinterpret_cast<std::byte*>(values)});
  };
  add(room.rows, unit.connections[0].weights().floats().data);
  add(room.last, unit.bias.value.data());
  return arrays;
}

bool Network::is_factored(int layer) const {
  return parts_->facts.is_factored(layer);
}

void Network::factored_columns(int layer, Range columns, MatrixView<float> w) {
  step::factored_columns(parts_->state, layer, columns, w);
}

void Network::restart_factors(int layer) {
  if (is_factored(layer)) step::restart_factors(parts_->state, layer);
}

void Network::for_each_state(
    const std::function<void(const Tensor& tensor, std::byte* data)>& visit) {
  parts_->state.for_each(parts_->facts, [&](const std::string&, auto& array) {
    const Tensor& tensor = array.tensor();
    if (tensor.purpose != Purpose::working && !tensor.empty()) visit(tensor, array.address());
  });
}

void Network::initialise(std::uint64_t seed) {
  const Compute& compute = parts_->compute();
  for (int layer : order()) restart_factors(layer);
  for (const NetworkParameter& parameter : parameters()) {
    Weights* weights = parameter.matrix;
    if (!weights) continue;
    const int e = parameter.edge;
    const WeightShape& shape = weights->shape();
    const EdgeMatrix matrix = matrix_of(graph(), e);
    WeightPlace place;
    place.fan = matrix.fan;
    const bool stored_as_in_files = shape.by_destination == matrix.rows_are_outputs;
    place.by_destination = !stored_as_in_files;
    const bool rows_are_mine = shape.by_source || matrix.rows_are_outputs;
    (rows_are_mine ? place.first_source : place.first_destination) = shape.mine.begin;
    place.sources = matrix.rows_are_outputs ? matrix.outputs : matrix.inputs;
    place.destinations = matrix.rows_are_outputs ? matrix.inputs : matrix.outputs;
    const Initializer& scheme = parts_->facts.layer(parts_->facts.edge(e).destination).init.scheme;
    const Philox random = Philox::stream(seed, RandomPurpose::weights, std::uint32_t(e));
    edit_rows(compute, weights->values(), [&](Index first, MatrixView<float> rows) {
      WeightPlace here = place;
      (place.by_destination ? here.first_destination : here.first_source) += first;
      compute.kernels.update->initialise(scheme, random, here, rows);
    });
    weights->cast_to_bf16(compute);
  }
}

bool Network::weights_features(int layer) const {
  const auto& input = parts_->state.inputs[layer];
  return input && input->weights_features();
}

void Network::set_feature_weights(int layer, const std::vector<float>& weights) {
  require(weights_features(layer), "Network::set_feature_weights: the layer has no InputWeighting");
  parts_->state.inputs[layer]->set_feature_weights(weights);
}

std::vector<float> Network::feature_weights(int layer) const {
  require(weights_features(layer), "Network::feature_weights: the layer has no InputWeighting");
  return parts_->state.inputs[layer]->feature_weights();
}

void Network::set_rate(float rate, std::int64_t warm_up, std::int64_t step) {
  const UpdateSchedule schedule = step::schedule_of(descriptor(), rate, warm_up);
  if (schedule == parts_->state.schedule) return;
  require(parts_->in_flight.empty(),
          "Network::set_rate: steps begun before must be finished first");
  catch_up(step);
  parts_->state.schedule = schedule;
}

void Network::catch_up(std::int64_t step) {
  const StepFacts& facts = parts_->facts;
  for (int edge = 0; edge < facts.edges(); ++edge) {
    Weights* weights = this->weights(edge);
    if (!weights || weights->users > 1 || weights->steps_done().empty()) continue;
    parts_->compute().kernels.sparse->catch_up(facts.rule(edge), parts_->state.schedule, step,
                                               weights->row_state(weights->shape().mine));
  }
}

double Network::regularization_cost() {
  FixedSum squares;
  FixedSum magnitudes;
  const StepFacts& facts = parts_->facts;
  const Compute& compute = parts_->compute();
  for (int e = 0; e < facts.edges(); ++e) {
    if (!weights(e)) continue;
    Weights& weights = *this->weights(e);
    const Edge& edge = facts.edge(e);
    const int cut = weights.shape().by_source ? edge.source : edge.destination;
    const Range blocks = facts.own_blocks(cut);
    Buffer<double> sums(2 * blocks.count(), compute.memory);
    compute.executor.for_each(blocks.count(), [&](Index b, int) {
      double* sum = sums.data() + 2 * b;
      compute.kernels.update->norms(weights.values_of(facts.partition(cut).units(blocks.begin + b)),
                                    sum, sum + 1);
    });
    std::vector<double> host(std::size_t(sums.size()));
    sums.read(host.data(), sums.size());
    for (std::size_t i = 0; i < host.size(); i += 2) {
      squares.add(host[i]);
      magnitudes.add(host[i + 1]);
    }
  }
  const double l2 = context().communicator.all_reduce(squares).value();
  const double l1 = context().communicator.all_reduce(magnitudes).value();
  const UpdateSchedule& schedule = parts_->state.schedule;
  return 0.5 * double(schedule.l2) * l2 + double(schedule.l1) * l1;
}

}  // namespace norn
