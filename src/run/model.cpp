// SPDX-License-Identifier: Apache-2.0
// Models in memory.
#include "norn/run/model.h"

#include "norn/base/atomic_file.h"
#include "norn/base/error.h"
#include "src/engine/model_parts.h"
#include "src/run/model_access.h"
#include "src/run/model_session.h"
#include "src/run/preparation.h"
#include "src/run/scratch_folder.h"

#include <algorithm>
#include <fstream>
#include <iterator>

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

void write_whole(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace

Model::Model(std::unique_ptr<Runtime> runtime, std::shared_ptr<Communicator> ranks,
             std::unique_ptr<Network> network, std::vector<DatasetShape> shapes,
             TrainingState state)
    : ranks_(std::move(ranks)),
      runtime_(std::move(runtime)),
      shapes_(std::move(shapes)),
      network_(std::move(network)) {
  info_.network = network_->descriptor();
  info_.unit_labels = network_->unit_labels();
  info_.has_training_state = true;
  info_.state = std::move(state);
  options_.log = network_->context().log;
}

Model::Model(std::filesystem::path file, ModelOptions options)
    : file_(std::move(file)),
      options_(std::move(options)),
      ranks_(or_alone(options_.ranks)),
      info_(open_model_info(file_, *ranks_)) {}

std::unique_ptr<Model> Model::from_bytes(std::string_view bytes, ModelOptions options) {
  options.ranks = or_alone(std::move(options.ranks));
  auto scratch = std::make_unique<ScratchFolder>();
  const std::filesystem::path file = scratch->path(*options.ranks) / "model.nc";
  if (options.ranks->rank() == 0) write_whole(file, bytes);
  options.ranks->barrier();
  auto model = std::make_unique<Model>(file, std::move(options));
  model->scratch_ = std::move(scratch);
  return model;
}

Model::~Model() = default;

void Model::save(const std::filesystem::path& file) {
  if (file_.empty())
    save_model(file, *network_, info_.state);
  else if (ranks_->rank() == 0)
    write_whole(file, read_whole(file_));
}

std::string Model::bytes() {
  if (!file_.empty()) return read_whole(file_);
  ScratchFolder scratch;
  const std::filesystem::path file = scratch.path(*ranks_) / "model.nc";
  save(file);
  ranks_->barrier();
  std::string bytes = read_whole(file);
  ranks_->barrier();
  return bytes;
}

std::vector<Parameter> Model::parameters() {
  if (!network_) {
    // Which inputs are sparse does not change what the weights are.
    std::vector<DatasetShape> shapes;
    for (const LayerDescriptor& layer : info_.network.layers)
      if (!layer.dataset.empty())
        shapes.push_back({layer.dataset,
                          layer.dimensions,
                          {layer.extent[0], layer.extent[1], layer.extent[2]},
                          true});
    runtime_ = make_runtime(options_.device, *ranks_);
    const auto network = load_network(file_, info_, shapes, *runtime_,
                                      runtime_->context(*ranks_, options_.log), options_.batch);
    return parameters_of(*network);
  }
  return parameters_of(*network_);
}

std::vector<Parameter> Model::parameters_of(Network& network) {
  std::vector<Parameter> all;
  const Graph& graph = network.graph();
  const auto name_of = [&](int layer) { return graph.network.layers[std::size_t(layer)].name; };
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    if (!network.weights(int(e))) continue;
    const Edge& edge = graph.edges[e];
    Parameter weights;
    weights.name = fmt::format("{} -> {}", name_of(edge.source), name_of(edge.destination));
    for (const int end : {edge.source, edge.destination})
      weights.extent.push_back(graph.network.layers[std::size_t(end)].units());
    gather_rows(network, int(e), 0, [&](Index, MatrixView<const float> rows) {
      for (Index r = 0; r < rows.rows; ++r)
        weights.values.insert(weights.values.end(), rows.row(r), rows.row(r) + rows.cols);
    });
    all.push_back(std::move(weights));
  }
  for (const int layer : network.order()) {
    UnitLayer* const unit = network.unit_layer(layer);
    if (!unit) continue;
    const auto add = [&](const std::string& what, const Buffer<float>& mine) {
      std::vector<float> whole = gather_units(network, layer, mine);
      const auto units = Index(whole.size());
      all.push_back({fmt::format("{} {}", name_of(layer), what), {units}, std::move(whole)});
    };
    add("bias", unit->bias.value);
    for (const UnitVector& vector : unit_vectors(*unit))
      if (!vector.is_state) add(vector.name, *vector.mine);
  }
  return all;
}

namespace {

// The network that there is takes no data of another kind.
void require_same_kinds(const NetworkDescriptor& network, const std::vector<DatasetShape>& opened,
                        const std::vector<DatasetShape>& given) {
  for (const LayerDescriptor& layer : network.layers) {
    const auto before = std::ranges::find(opened, layer.dataset, &DatasetShape::name);
    const auto now = std::ranges::find(given, layer.dataset, &DatasetShape::name);
    if (layer.kind != LayerKind::input || before == opened.end() || now == given.end()) continue;
    const bool sparse = now->gives_sparse_batches;
    if (sparse == before->gives_sparse_batches) continue;
    throw DataError(fmt::format(
        "data set \"{}\" is {}, but the model was opened with {} data for layer \"{}\"; open it "
        "again for these data",
        layer.dataset, sparse ? "sparse" : "dense", sparse ? "dense" : "sparse", layer.name));
  }
}

}  // namespace

Network& ModelAccess::network(Model& model, const std::vector<DatasetShape>& shapes) {
  if (model.network_) {
    require_same_kinds(model.info_.network, model.shapes_, shapes);
    return *model.network_;
  }
  if (!model.runtime_) model.runtime_ = make_runtime(model.options_.device, *model.ranks_);
  model.network_ = load_network(model.file_, model.info_, shapes, *model.runtime_,
                                model.runtime_->context(*model.ranks_, model.options_.log),
                                model.options_.batch);
  model.shapes_ = shapes;
  return *model.network_;
}

Index ModelAccess::batch(const Model& model) {
  return model.network_ ? model.network_->batch() : model.options_.batch;
}

ModelUnits ModelAccess::units(const Model& model) {
  return units_of(model.info_, model.options_.trust_index);
}

Log ModelAccess::shared_log(const Model& model) {
  return run::shared_log(model.options_.log, *model.ranks_);
}

}  // namespace norn::run
