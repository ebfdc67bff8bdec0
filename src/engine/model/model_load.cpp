// SPDX-License-Identifier: Apache-2.0
// Reading the parameters of model files, ours and DSSTNE's.
#include "norn/base/error.h"
#include "norn/base/fixed_point.h"
#include "src/engine/model/model_file.h"
#include "src/engine/model/model_parts.h"
#include "src/nn/naming.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

namespace norn {
namespace {

void check_size(const TensorFileReader& file, const std::string& item, Index expected) {
  if (!file.has_variable(item))
    throw DataError(
        fmt::format("{}: variable \"{}\" is missing; the file is damaged or of another network",
                    file.path().string(), item));
  const Index size = file.size(item);
  if (size != expected)
    throw DataError(fmt::format(
        "{}: variable \"{}\" has {} elements, but the network needs {}; it is a model of "
        "another network",
        file.path().string(), item, size, expected));
}

// Filters of other dimensions may have as many weights: compared where the file says them.
void check_filters(const TensorFileReader& file, const Graph& graph, int edge, int place) {
  const Edge& e = graph.edges[std::size_t(edge)];
  const LayerDescriptor& layer = graph.network.layers[std::size_t(e.destination)];
  if (layer.type != LayerType::convolutional) return;
  const auto needed = weight_extents(graph, edge);
  auto found = needed;
  for (std::size_t axis = 0; axis < found.size(); ++axis)
    found[axis] =
        file.integer_or(fmt::format("weight{}_{}", place, kWeightAxes[axis]), needed[axis]);
  if (found == needed) return;
  const auto text = [](const auto& extents) {
    return fmt::format("{} filters over {} channels of {}", extents[0], extents[1],
                       extent_text(extents.data() + 2, 3));
  };
  throw DataError(fmt::format(
      "{}: weights from layer \"{}\" to layer \"{}\" are {} (length x depth x breadth), but the "
      "network needs {}; it is a model of another network",
      file.path().string(), graph.network.layers[std::size_t(e.source)].name, layer.name,
      text(found), text(needed)));
}

// Which weight{w} of the file each edge is: by the names of the layers, in order where several
// have the same. -1: it has no weights, or leads to no output, and files have none of it.
std::vector<int> places_of_edges(const TensorFileReader& file, const Graph& graph) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> named;
  const std::int64_t weights = file.integer("weights");
  for (std::int64_t w = 0; w < weights; ++w)
    named[{file.text(fmt::format("weight{}_inputLayer", w)),
           file.text(fmt::format("weight{}_outputLayer", w))}]
        .push_back(int(w));
  std::vector<int> places(graph.edges.size(), -1);
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const Edge& edge = graph.edges[e];
    if (!edge.has_weights() ||
        std::count(graph.unused.begin(), graph.unused.end(), edge.destination) > 0)
      continue;
    const std::string& source = graph.network.layers[std::size_t(edge.source)].name;
    const std::string& destination = graph.network.layers[std::size_t(edge.destination)].name;
    std::vector<int>& candidates = named[{source, destination}];
    if (candidates.empty())
      throw DataError(fmt::format(
          "{}: has no weights from layer \"{}\" to layer \"{}\"; it is a model of another "
          "network",
          file.path().string(), source, destination));
    places[e] = candidates.front();
    candidates.erase(candidates.begin());
  }
  return places;
}

class ModelReader {
 public:
  ModelReader(const TensorFileReader* file, const ModelInfo& info, Network& network)
      : file_(file), info_(info), network_(network) {}

  void read() {
    const std::vector<int> places = broadcast_places();
    for (std::size_t e = 0; e < places.size(); ++e) {
      if (!network_.weights(int(e))) continue;
      read_weights(int(e), places[e]);
    }
    for (int layer : network_.order()) {
      if (network_.weights_features(layer))
        network_.set_feature_weights(
            layer, broadcast_vector(feature_weights_item(layer),
                                    network_.descriptor().layers[std::size_t(layer)].units()));
      if (!network_.unit_layer(layer)) continue;
      if (!network_.graph().matrices(layer).empty()) read_bias(layer, places);
      read_vectors(layer);
    }
  }

 private:
  bool with_state() const { return info_.has_training_state; }

  std::vector<int> broadcast_places() const {
    const Graph& graph = network_.graph();
    std::vector<int> places(graph.edges.size(), -1);
    if (file_) places = places_of_edges(*file_, graph);
    network_.context().communicator.broadcast(std::as_writable_bytes(std::span(places)), 0);
    return places;
  }

  void read_part(int edge, int part, const std::string& item) {
    const WeightShape& shape = network_.weights(edge)->shape();
    if (file_) check_size(*file_, item, shape.sources * shape.destinations);
    scatter_rows(network_, edge, part, [&](Index first, MatrixView<float> rows) {
      file_->read(item, first * rows.cols, std::span(rows.data, std::size_t(rows.size())));
      require_finite(item, first * rows.cols,
                     std::span<const float>(rows.data, std::size_t(rows.size())));
    });
  }

  void read_weights(int edge, int place) {
    read_part(edge, 0, fmt::format("weight{}_weights", place));
    Weights& weights = *network_.weights(edge);
    if (with_state())
      for (int slot = 0; slot < weights.slots(); ++slot)
        read_part(edge, slot + 1, fmt::format("weight{}_slot{}", place, slot));
    weights.set_steps_done(with_state() ? info_.state.step : 0);
  }

  std::vector<float> broadcast_vector(const std::string& item, Index units) {
    std::vector<float> whole(static_cast<std::size_t>(units));
    if (file_) {
      check_size(*file_, item, units);
      file_->read(item, 0, std::span(whole));
    }
    network_.context().communicator.broadcast(std::as_writable_bytes(std::span(whole)), 0);
    return whole;
  }

  void read_bias(int layer, const std::vector<int>& places) {
    UnitLayer& unit = *network_.unit_layer(layer);
    const Index units = unit.partition().width();
    std::vector<float> sum(static_cast<std::size_t>(units), 0.0f);
    for (int edge : network_.graph().matrices(layer)) {
      const std::vector<float> bias =
          broadcast_vector(fmt::format("weight{}_bias", places[std::size_t(edge)]), units);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += bias[i];
    }
    scatter_units(network_, layer, sum, unit.bias.value);
  }

  template <typename T>
  void require_finite(const std::string& item, Index first, std::span<const T> values) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i]))
        throw DataError(fmt::format(
            "{}: variable \"{}\" holds {} at element {}; the model has diverged or is damaged",
            file_->path().string(), item, values[i], first + Index(i)));
  }

  void read_arrays(int layer) {
    const std::vector<Range>& shares = network_.shares(layer);
    for (const SavedArray& array : layer_arrays(network_, layer)) {
      const std::string item = layer_item(layer, *array.tensor);
      if (file_) check_size(*file_, item, whole_size(array, shares));
      scatter_array(network_.context().communicator, shares, array, [&](Index first, Values all) {
        std::visit(
            [&]<typename T>(std::span<T> values) {
              file_->read(item, first, values);
              require_finite(item, first, std::span<const T>(values));
            },
            all);
      });
    }
  }

  void read_vectors(int layer) {
    UnitLayer& unit = *network_.unit_layer(layer);
    for (HeldBuffer<float>* vector : layer_vectors(network_, layer, with_state()))
      scatter_units(network_, layer,
                    broadcast_vector(layer_item(layer, vector->tensor()), unit.partition().width()),
                    *vector);
    if (with_state()) read_arrays(layer);
    if (!with_state() || !unit.delta_sum.allocated()) return;
    std::int32_t bits = file_ ? fine_bits(fmt::format("layer{}_deltaFineBits", layer)) : 0;
    network_.context().communicator.broadcast(std::as_writable_bytes(std::span(&bits, 1)), 0);
    unit.delta_sum.set_fine_bits(bits);
  }

  // Of a format that sums have: between those of the largest and the smallest number.
  std::int32_t fine_bits(const std::string& item) const {
    using Limits = std::numeric_limits<double>;
    const std::int64_t bits = file_->integer(item);
    const int least = FixedFormat::for_maximum(Limits::max(), 1).fine_bits;
    const int most = FixedFormat::for_maximum(Limits::denorm_min(), 1).fine_bits;
    if (bits < least || bits > most)
      throw DataError(
          fmt::format("{}: attribute \"{}\" is {}, expected {} to {}; use an older checkpoint",
                      file_->path().string(), item, bits, least, most));
    return std::int32_t(bits);
  }

  const TensorFileReader* file_;
  const ModelInfo& info_;
  Network& network_;
};

}  // namespace

void check_sizes(const TensorFileReader& file, const Graph& graph) {
  const std::vector<int> places = places_of_edges(file, graph);
  for (std::size_t e = 0; e < places.size(); ++e) {
    if (places[e] < 0) continue;
    const EdgeMatrix matrix = matrix_of(graph, int(e));
    if (graph.edges[e].shared_with < 0) {
      check_filters(file, graph, int(e), places[e]);
      check_size(file, fmt::format("weight{}_weights", places[e]), matrix.size());
    }
    check_size(file, fmt::format("weight{}_bias", places[e]), matrix.outputs);
  }
}

void load_weights(const TensorFileReader* file, const ModelInfo& info, Network& network) {
  network.context().communicator.set_place({"loading the model"});
  ModelReader(file, info, network).read();
}

void load_weights(const std::filesystem::path& file, const ModelInfo& info, Network& network) {
  std::optional<TensorFileReader> reader;
  if (network.context().communicator.rank() == 0) reader.emplace(file);
  load_weights(reader ? &*reader : nullptr, info, network);
}

}  // namespace norn
