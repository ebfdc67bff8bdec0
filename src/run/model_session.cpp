// SPDX-License-Identifier: Apache-2.0
// Opening models.
#include "src/run/model_session.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/engine/plan/memory_plan.h"
#include "src/run/ranks.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::run {

void verify_model(const std::filesystem::path& model, Communicator& communicator) {
  rank_0_alone(communicator, [&] { TensorFileReader(model).verify(); });
}

ModelInfo open_model_info(const std::filesystem::path& model, Communicator& communicator) {
  verify_model(model, communicator);
  return read_model_info(TensorFileReader(model));
}

ModelUnits units_of(const ModelInfo& info, bool trust_index) {
  return {info.unit_labels, {}, trust_index};
}

namespace {

// The labels of an index that a model may have; what goes beyond them does not matter.
LabelTable beginning_of(const LabelIndex& index, Index count) {
  if (index.size() <= count) return LabelTable::of(index);
  LabelIndex first;
  first.reserve(count);
  for (Index number = 0; number < count; ++number) first.add(index.label(number));
  return LabelTable::of(first);
}

std::string short_checksum(const LabelTable& labels) {
  return labels.are_numbers() ? "that of numbers" : labels.stored().sha256.substr(0, 8);
}

void compare_checksums(const std::filesystem::path& file, const LabelIndex& index,
                       const LabelTable& units, const std::string& layer) {
  const LabelTable given = beginning_of(index, units.size());
  if (given.same_as(units)) return;
  throw DataError(
      fmt::format("{}: is not the index of layer \"{}\" of the model, which keeps the checksum of "
                  "its {} labels "
                  "alone: it is {}, of the {} labels given it is {}; give the index that the "
                  "training data were "
                  "imported with, or take this one as it is with `trust_index`",
                  file.string(), layer, with_thousands(units.size()), short_checksum(units),
                  with_thousands(given.size()), short_checksum(given)));
}

}  // namespace

void check_index_file(const std::filesystem::path& file, const LabelIndex& index,
                      const ModelInfo& info, int layer) {
  const LabelTable& units = info.unit_labels[std::size_t(layer)];
  if (!units.known()) return;
  if (!units.has_words())
    return compare_checksums(file, index, units, info.network.layers[std::size_t(layer)].name);
  const LabelList labels = units.list();
  const Index common = std::min(labels.size(), index.size());
  for (Index number = 0; number < common; ++number)
    if (labels[number] != index.label(number))
      throw DataError(fmt::format(
          "{}: number {} is \"{}\", but \"{}\" in layer \"{}\" of the model: it is another index; "
          "leave it out, the model has its labels, or take it as it is with `trust_index`",
          file.string(), number, index.label(number), labels[number],
          info.network.layers[std::size_t(layer)].name));
}

void check_model_sizes(const std::filesystem::path& model, const Graph& graph,
                       Communicator& communicator) {
  rank_0_alone(communicator, [&] { check_sizes(TensorFileReader(model), graph); });
}

namespace {

// How many examples a step has, the same on every rank: `most`, its half, its quarter ... of which
// memory holds the arrays. Memory that the data take is taken already, or small.
Index batch_with_room(const Graph& graph, const std::vector<DatasetShape>& shapes,
                      const Runtime& runtime, const Context& context, Index most) {
  PlanSettings settings;
  settings.batch = most;
  settings.ranks = context.communicator.size();
  settings.purpose = Pass::prediction;
  set_device(settings, context.compute);
  for (const DatasetShape& shape : shapes) {
    DatasetInfo set;
    set.name = shape.name;
    set.dimensions = shape.dimensions;
    set.extent = shape.extent;
    set.sparse = shape.gives_sparse_batches;
    settings.sets.push_back(std::move(set));
  }
  const std::int64_t of_host = runtime.available_bytes();
  const std::int64_t free = settings.on_gpu() ? of_host : of_host / ranks_on_this_host();
  MemoryPlan plan = plan_memory(graph, settings);
  const std::int64_t wanted = plan.total_bytes();
  while (context.communicator.any(plan.total_bytes() > free) && settings.batch > 1) {
    settings.batch = (settings.batch + 1) / 2;
    plan = plan_memory(graph, settings);
  }
  require_memory(plan, settings, free);
  if (settings.batch < most)
    context.log.info(fmt::format("{} at a time: memory has no room for {}, which need {}",
                                 counted(settings.batch, "example"), most,
                                 human_bytes(double(wanted))));
  return settings.batch;
}

}  // namespace

std::vector<DatasetShape> shapes_without_data(const NetworkDescriptor& network) {
  std::vector<DatasetShape> shapes;
  for (const LayerDescriptor& layer : network.layers)
    if (!layer.dataset.empty())
      shapes.push_back({layer.dataset,
                        layer.dimensions,
                        {layer.extent[0], layer.extent[1], layer.extent[2]},
                        !needs_dense_units(network, layer.name)});
  return shapes;
}

namespace {

Graph runnable_graph(const NetworkDescriptor& network, const std::vector<DatasetShape>& shapes,
                     const std::string& where) {
  Graph graph = make_graph(network, shapes, where);
  require_runnable(graph, Use::prediction, where);
  return graph;
}

std::unique_ptr<Network> make_network(Graph graph, const std::vector<DatasetShape>& shapes,
                                      const Runtime& runtime, const Context& context, Index most) {
  const Index batch = batch_with_room(graph, shapes, runtime, context, most);
  return std::make_unique<Network>(std::move(graph), shapes, context, batch, Pass::prediction);
}

}  // namespace

std::unique_ptr<Network> make_network(const NetworkDescriptor& network,
                                      const std::vector<DatasetShape>& shapes,
                                      const std::string& where, const Runtime& runtime,
                                      const Context& context, Index batch) {
  return make_network(runnable_graph(network, shapes, where), shapes, runtime, context, batch);
}

std::unique_ptr<Network> load_network(const std::filesystem::path& model, const ModelInfo& info,
                                      const std::vector<DatasetShape>& shapes,
                                      const Runtime& runtime, const Context& context, Index batch) {
  Graph graph = runnable_graph(info.network, shapes, model.string());
  check_model_sizes(model, graph, context.communicator);
  auto network = make_network(std::move(graph), shapes, runtime, context, batch);
  load_weights(model, info, *network);
  return network;
}

int choose_layer(const NetworkDescriptor& network, const std::string& name) {
  std::vector<std::string> names;
  int only_output = -1;
  int outputs = 0;
  int named_output = -1;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const LayerDescriptor& layer = network.layers[i];
    if (layer.kind == LayerKind::input) continue;
    names.push_back(layer.name);
    if (!name.empty() && layer.name == name) return int(i);
    if (layer.kind != LayerKind::output) continue;
    ++outputs;
    only_output = int(i);
    if (layer.name == "Output") named_output = int(i);
  }
  if (!name.empty()) {
    throw UsageError(fmt::format("`layer`: the model has no layer \"{}\"{} It has: {}", name,
                                 did_you_mean(name, names, "."), join(names)));
  }
  if (outputs == 1) return only_output;
  if (named_output >= 0) return named_output;
  throw UsageError(
      fmt::format("`layer` is missing: the model has {} output layers; choose of: "
                  "{}",
                  outputs, join(names)));
}

}  // namespace norn::run
