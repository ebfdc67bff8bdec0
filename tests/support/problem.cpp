// SPDX-License-Identifier: Apache-2.0
// Random data and parameters, and their way into the engine and back.
#include "tests/support/problem.h"

#include "src/step/tensors.h"
#include "tests/support/engine_parameters.h"

#include <algorithm>
#include <random>

namespace norn::test {
namespace {

LayerDescriptor unit_layer(const std::string& name, LayerKind kind, Index units,
                           std::vector<std::string> sources, LayerActivation activation) {
  LayerDescriptor layer;
  layer.name = name;
  layer.kind = kind;
  layer.extent[0] = units;
  layer.sources = std::move(sources);
  layer.activation = activation;
  return layer;
}

void fill_sparse(const DataKind& kind, Index width, std::mt19937_64& random, HostBatch& batch) {
  std::uniform_real_distribution<float> value(kind.low, kind.high);
  std::uniform_int_distribution<Column> column(0, Column(width - 1));
  std::bernoulli_distribution stored(0.4);
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  for (Index b = 0; b < batch.examples; ++b) {
    const Column sure = column(random);
    for (Column c = 0; c < Column(width); ++c)
      if (c == sure || (!kind.labels && stored(random))) columns.push_back(c);
    begin.push_back(RowOffset(columns.size()));
  }
  batch.sparse = csr_of(begin, columns, width);
  batch.sparse.has_values = kind.valued;
  if (!kind.valued) return;
  batch.sparse.value = Buffer<float>(Index(columns.size()));
  for (std::size_t i = 0; i < columns.size(); ++i) batch.sparse.value.data()[i] = value(random);
}

}  // namespace

CsrBuffer csr_of(const std::vector<RowOffset>& begin, const std::vector<Column>& column,
                 Index cols) {
  CsrBuffer csr;
  csr.rows = Index(begin.size()) - 1;
  csr.cols = cols;
  csr.row_begin = Buffer<RowOffset>(Index(begin.size()));
  csr.row_begin.write(begin.data(), Index(begin.size()));
  csr.column = Buffer<Column>(Index(column.size()));
  csr.column.write(column.data(), Index(column.size()));
  return csr;
}

LayerDescriptor input_layer(const std::string& name, Index units) {
  LayerDescriptor layer =
      unit_layer(name, LayerKind::input, units, {}, LayerDescriptor{}.activation);
  layer.dataset = name;
  return layer;
}

LayerDescriptor hidden_layer(const std::string& name, Index units, std::vector<std::string> sources,
                             LayerActivation activation) {
  return unit_layer(name, LayerKind::hidden, units, std::move(sources), activation);
}

LayerDescriptor pooling_layer(const std::string& name, PoolingFunction function,
                              std::vector<std::string> sources) {
  LayerDescriptor layer = hidden_layer(name, 1, std::move(sources), Activation(Linear{}));
  layer.type = LayerType::pooling;
  layer.function = function;
  return layer;
}

LayerDescriptor output_layer(const std::string& name, Index units, std::vector<std::string> sources,
                             LayerActivation activation) {
  LayerDescriptor layer =
      unit_layer(name, LayerKind::output, units, std::move(sources), activation);
  layer.dataset = name;
  return layer;
}

HostBatch random_batch(const DataKind& kind, Index examples, Index width, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostBatch batch;
  batch.examples = examples;
  batch.width = width;
  batch.is_sparse = kind.sparse;
  for (Index b = 0; b < examples; ++b) batch.example.push_back(Index(random() % 1000));
  if (kind.sparse) {
    fill_sparse(kind, width, random, batch);
  } else {
    std::uniform_real_distribution<float> value(kind.low, kind.high);
    batch.dense = Matrix<float>(examples, width);
    for (Index i = 0; i < examples * width; ++i)
      batch.dense.view().data[i] = kind.halves ? 0.5f * float(random() % 3) : value(random);
  }
  std::uniform_real_distribution<float> weight(0.5f, 2.0f);
  if (kind.weighted)
    for (Index b = 0; b < examples; ++b) batch.weight.push_back(weight(random));
  return batch;
}

void Problem::set_data(const std::string& layer, const DataKind& kind, Index examples,
                       std::uint64_t seed, Index width) {
  data.resize(network.layers.size());
  ignore_absent.resize(network.layers.size(), false);
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    if (network.layers[i].name != layer) continue;
    const Index units = width > 0 ? width : network.layers[i].units();
    data[i] = std::make_shared<HostBatch>(random_batch(kind, examples, units, seed + i));
    ignore_absent[i] = kind.ignore_absent;
  }
}

void Problem::weigh_features(const std::string& layer, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> weight(0.2f, 5.0f);
  feature_weight.resize(network.layers.size());
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    if (network.layers[i].name != layer) continue;
    network.layers[i].input_weighting = InverseDocumentFrequency{};
    for (Index unit = 0; unit < network.layers[i].units(); ++unit)
      feature_weight[i].push_back(weight(random));
  }
}

BoundBatch Problem::bound() const {
  BoundBatch batch;
  batch.ignore_absent = ignore_absent;
  for (std::size_t i = 0; i < data.size(); ++i) {
    batch.of_layer.push_back(data[i].get());
    if (data[i]) batch.examples = data[i]->examples;
  }
  return batch;
}

std::vector<DatasetShape> Problem::shapes() const {
  std::vector<DatasetShape> shapes;
  for (std::size_t i = 0; i < data.size(); ++i)
    if (data[i]) {
      const LayerDescriptor& layer = network.layers[i];
      DatasetShape shape{layer.dataset, 1, {data[i]->width, 1, 1}, data[i]->is_sparse};
      // Sets of data have three axes at most; layers may have four.
      if (layer.dimensions > 1 && layer.dimensions < 4 && layer.units() == data[i]->width) {
        shape.dimensions = layer.dimensions;
        shape.extent = {layer.extent[0], layer.extent[1], layer.extent[2]};
      }
      shapes.push_back(shape);
    }
  return shapes;
}

std::vector<ParameterShape> parameter_shapes(const NetworkDescriptor& network) {
  const Graph graph = make_graph(network, {}, "test");
  const StepFacts facts(graph, {});
  std::vector<ParameterShape> shapes;
  StepTensors(facts).for_each_parameter(
      facts,
      [&](int edge, Weights& weights) {
        shapes.push_back({edge, -1, {}, weights.rows() * weights.cols()});
      },
      [&](int layer, HeldBuffer<float>& vector) {
        shapes.push_back({-1, layer, vector.tensor(), vector.tensor().rows});
      });
  return shapes;
}

reference::Parameters random_parameters(const reference::Network& network, std::uint64_t seed,
                                        double deviation) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, float(deviation));
  std::uniform_real_distribution<float> positive(0.5f, 1.5f);
  const auto draw = [&](Index count, auto& distribution) {
    reference::Row row(static_cast<std::size_t>(count));
    for (double& v : row) v = double(distribution(random));
    return row;
  };
  reference::Parameters p;
  p.weight.resize(network.links().size());
  for (const ParameterShape& shape : parameter_shapes(network.descriptor())) {
    const bool begins_with_one = shape.tensor.initial == 1.0f;
    reference::Row row = begins_with_one ? draw(shape.count, positive) : draw(shape.count, normal);
    if (shape.edge >= 0) {
      p.weight[std::size_t(shape.edge)] = std::move(row);
      continue;
    }
    std::vector<reference::Row>& rows = p.of(shape.tensor.item);
    rows.resize(network.descriptor().layers.size());
    rows[std::size_t(shape.layer)] = std::move(row);
  }
  return p;
}

Engine::Engine(const Problem& problem, Pass purpose, int threads, const BlockRule& rule)
    : runtime_(make_test_runtime(threads)), communicator_(make_single_process()) {
  const Context context = runtime_->context(*communicator_);
  context.compute.kernels.block_rule = rule;
  network_ =
      std::make_unique<norn::Network>(make_graph(problem.network, problem.shapes(), "test"),
                                      problem.shapes(), context, problem.planned_batch, purpose);
  for (std::size_t i = 0; i < problem.feature_weight.size(); ++i)
    if (!problem.feature_weight[i].empty())
      network_->set_feature_weights(int(i), problem.feature_weight[i]);
}

void Engine::set(const reference::Parameters& parameters) {
  write_parameters(parameters, *network_);
}

reference::Parameters Engine::get() {
  return read_parameters(*network_);
}

}  // namespace norn::test
