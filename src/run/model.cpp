// SPDX-License-Identifier: Apache-2.0
// Models in memory.
#include "norn/run/model.h"

#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/text.h"
#include "src/engine/model/model_parts.h"
#include "src/nn/descriptor_json.h"
#include "src/run/model_access.h"
#include "src/run/model_session.h"
#include "src/run/preparation.h"
#include "src/run/ranks.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>

namespace norn::run {
namespace {

std::shared_ptr<Communicator> or_alone(std::shared_ptr<Communicator> ranks) {
  return ranks ? std::move(ranks) : std::shared_ptr<Communicator>(make_single_process());
}

std::string read_whole(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw DataError(fmt::format("{}: cannot be read; is it still there?", file.string()));
  return bytes;
}

}  // namespace

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}

Model::Model(std::filesystem::path file, ModelOptions options) : state_(new State) {
  state_->file = std::move(file);
  state_->options = std::move(options);
  state_->ranks = or_alone(state_->options.ranks);
  state_->info = open_model_info(state_->file, *state_->ranks);
}

std::unique_ptr<Model> Model::from_bytes(std::string_view bytes, ModelOptions options) {
  options.ranks = or_alone(std::move(options.ranks));
  auto scratch = std::make_unique<ScratchFolder>();
  const std::filesystem::path file = scratch->path(*options.ranks) / "model.nc";
  rank_0_alone(*options.ranks, [&] { write_file(file, bytes); });
  return ModelAccess::in_scratch(std::move(scratch), file, std::move(options));
}

Model::~Model() = default;

std::string Model::network() const {
  return to_json(state_->info.network);
}

std::string Model::chosen() const {
  return state_->info.chosen;
}

const LabelTable& Model::unit_labels(std::string_view layer) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < state_->info.network.layers.size(); ++i) {
    names.push_back(state_->info.network.layers[i].name);
    if (names.back() == layer) return state_->info.unit_labels[i];
  }
  throw UsageError(
      fmt::format("`layer`: the model has no layer \"{}\". It has: {}", layer, join(names)));
}

void Model::save(const std::filesystem::path& file) {
  if (state_->file.empty())
    ModelAccess::save_held(*state_, file);
  else
    rank_0_alone(*state_->ranks, [&] { write_file(file, read_whole(state_->file)); });
}

std::string Model::bytes() {
  ScratchFolder scratch;
  std::filesystem::path file = state_->file;
  if (file.empty()) save(file = scratch.path(*state_->ranks) / "model.nc");
  std::string bytes = read_whole(file);
  // A folder of rank 0 ends with it, or with its model, which the caller may be done with.
  state_->ranks->barrier();
  return bytes;
}

namespace {

// A copy of what stands elsewhere, row by row.
Parameter copied(std::string name, std::vector<Index> extent, std::vector<float> values) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  Parameter whole{std::move(name), std::move(extent), {}, owner->data(), owner};
  whole.stride.assign(whole.extent.size(), 1);
  if (whole.extent.size() > 1) whole.stride[0] = whole.extent[1];
  return whole;
}

// The whole matrix where it stands, as it is stored; nothing where ranks have parts of it. That is
// the same on all of them: those with nothing of a small matrix must help to gather it.
std::optional<MatrixView<const float>> whole_here(Network& network, int edge) {
  const Context& context = network.context();
  Weights& weights = *network.weights(edge);
  const bool is_whole = context.communicator.size() == 1 || weights.shape().replicated;
  if (!is_whole || !context.compute.memory.is_host()) return {};
  return MatrixView<const float>(weights.floats());
}

Parameter edge_parameter(Network& network, const NetworkParameter& parameter,
                         const std::shared_ptr<const void>& owner) {
  const int number = parameter.edge;
  const WeightShape& shape = parameter.matrix->shape();
  std::string name = parameter.name;
  std::vector<Index> extent = array_extent(network.graph(), number);
  if (const auto whole = whole_here(network, number)) {
    std::vector<Index> stride(extent.size(), 1);
    for (std::size_t axis = extent.size() - 1; axis-- > 1;)
      stride[axis] = stride[axis + 1] * extent[axis + 1];
    const bool rows_are_stored = matrix_of(network.graph(), number).rows_are_outputs;
    (shape.by_destination && !rows_are_stored ? stride[1] : stride[0]) = whole->stride;
    return {std::move(name), std::move(extent), std::move(stride), whole->data, owner};
  }
  std::vector<float> values;
  gather_rows(network, number, 0, [&](Index, MatrixView<const float> rows) {
    for (Index r = 0; r < rows.rows; ++r)
      values.insert(values.end(), rows.row(r), rows.row(r) + rows.cols);
  });
  return copied(std::move(name), std::move(extent), std::move(values));
}

std::vector<Parameter> parameters_of(Network& network, const std::shared_ptr<const void>& owner) {
  std::vector<Parameter> all;
  for (const NetworkParameter& parameter : network.parameters()) {
    if (parameter.matrix) {
      all.push_back(edge_parameter(network, parameter, owner));
      continue;
    }
    std::vector<float> whole = gather_units(network, parameter.layer, *parameter.vector);
    const auto units = Index(whole.size());
    all.push_back(copied(parameter.name, {units}, std::move(whole)));
  }
  for (int layer : network.order()) {
    if (!network.weights_features(layer)) continue;
    const LayerDescriptor& input = network.descriptor().layers[std::size_t(layer)];
    all.push_back(
        copied(feature_weights_name(input.name), {input.units()}, network.feature_weights(layer)));
  }
  return all;
}

}  // namespace

std::vector<Parameter> Model::parameters() {
  // Which inputs are sparse does not change what the weights are.
  const auto held = state_->held
                        ? state_->held
                        : ModelAccess::load(*state_, shapes_without_data(state_->info.network));
  return parameters_of(*held->network, held);
}

namespace {

Index units_of(const DatasetShape& set) {
  return set.extent[0] * set.extent[1] * set.extent[2];
}

// The network that there is was made for data of some kind and width.
void require_fitting(const NetworkDescriptor& network, const std::vector<DatasetShape>& opened,
                     const std::vector<DatasetShape>& given) {
  for (const LayerDescriptor& layer : network.layers) {
    const auto now = std::ranges::find(given, layer.dataset, &DatasetShape::name);
    if (layer.dataset.empty() || now == given.end()) continue;
    if (units_of(*now) > layer.units())
      throw DataError(
          fmt::format("data set \"{}\" is {} wide, but layer \"{}\" of the model has {} units; "
                      "give data of the "
                      "units that the model has",
                      layer.dataset, units_of(*now), layer.name, layer.units()));
    const auto before = std::ranges::find(opened, layer.dataset, &DatasetShape::name);
    if (layer.kind != LayerKind::input || before == opened.end()) continue;
    const bool sparse = now->gives_sparse_batches;
    if (sparse != before->gives_sparse_batches)
      throw DataError(fmt::format(
          "data set \"{}\" is {}, but the model was opened with {} data for layer \"{}\"; open it "
          "again for these data",
          layer.dataset, sparse ? "sparse" : "dense", sparse ? "dense" : "sparse", layer.name));
    if (!sparse && now->extent != before->extent)
      throw DataError(
          fmt::format("data set \"{}\" has {} units, but the model was opened with {} for layer "
                      "\"{}\"; open it "
                      "again for these data",
                      layer.dataset, units_of(*now), units_of(*before), layer.name));
  }
}

}  // namespace

std::unique_ptr<Model> ModelAccess::in_scratch(std::unique_ptr<ScratchFolder> scratch,
                                               std::filesystem::path file, ModelOptions options) {
  auto model = std::make_unique<Model>(std::move(file), std::move(options));
  model->state_->scratch = std::move(scratch);
  return model;
}

std::unique_ptr<Model> ModelAccess::of(HeldNetwork held, std::optional<TrainingState> training,
                                       ModelOptions options) {
  auto state = std::make_unique<Model::State>();
  state->options = std::move(options);
  state->ranks = held.ranks;
  state->info.network = held.network->descriptor();
  state->info.unit_labels = held.network->unit_labels();
  state->info.chosen = held.network->chosen();
  state->info.has_training_state = training.has_value();
  if (training) state->info.state = *std::move(training);
  state->held = std::make_shared<const HeldNetwork>(std::move(held));
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

void ModelAccess::save_held(const Model::State& state, const std::filesystem::path& file) {
  save_model(file, *state.held->network,
             state.info.has_training_state ? std::optional(state.info.state) : std::nullopt);
}

std::shared_ptr<const HeldNetwork> ModelAccess::load(const Model::State& state,
                                                     std::vector<DatasetShape> shapes) {
  HeldNetwork held{
      state.ranks, make_runtime(state.options.device, *state.ranks), std::move(shapes), {}};
  held.network =
      load_network(state.file, state.info, held.shapes, *held.runtime,
                   held.runtime->context(*held.ranks, state.options.log), state.options.batch);
  return std::make_shared<const HeldNetwork>(std::move(held));
}

Network& ModelAccess::network(Model& model, const std::vector<DatasetShape>& shapes) {
  Model::State& state = *model.state_;
  if (state.held && !state.held->shapes.empty()) {
    require_fitting(state.info.network, state.held->shapes, shapes);
    return *state.held->network;
  }
  if (state.file.empty()) {  // it goes by a file, of which one for these data is made
    auto scratch = std::make_unique<ScratchFolder>();
    const std::filesystem::path file = scratch->path(*state.ranks) / "model.nc";
    save_held(state, file);
    state.info = open_model_info(file, *state.ranks);
    state.file = file;
    state.scratch = std::move(scratch);
    state.held.reset();
  }
  state.held = load(state, shapes);
  return *state.held->network;
}

bool ModelAccess::survives_fork(const Model& model) {
  const Model::State& state = *model.state_;
  return state.ranks->size() == 1 &&
         (!state.held || state.held->network->context().compute.memory.is_host());
}

ModelUnits ModelAccess::units(const Model& model) {
  return units_of(model.state_->info, model.state_->options.trust_index);
}

Log ModelAccess::shared_log(const Model& model) {
  return run::shared_log(model.state_->options.log, *model.state_->ranks);
}

}  // namespace norn::run
