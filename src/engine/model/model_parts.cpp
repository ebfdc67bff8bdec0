// SPDX-License-Identifier: Apache-2.0
// Collecting and handing out parameters over ranks, in bounded memory.
#include "src/engine/model/model_parts.h"

#include "norn/base/error.h"
#include "src/nn/stored_weights.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
namespace {

constexpr const char* kFeatureWeights = "featureWeights";
constexpr Index kRunElements = Index(1) << 21;  // 8 MiB of floats

// A matrix as files see it: rows of source units; of filters a row for each, which then takes the
// part of a source unit.
WeightShape in_files(const Network& network, int edge, WeightShape shape) {
  if (!matrix_of(network.graph(), edge).rows_are_outputs) return shape;
  std::swap(shape.sources, shape.destinations);
  shape.by_destination = false;
  shape.by_source = true;
  return shape;
}

// Where the rows of each rank stand in a run of `count` rows from `first` on.
std::vector<Range> row_shares(Network& network, int edge, Index first, Index count) {
  const Edge& e = network.graph().edges[std::size_t(edge)];
  const bool filters = matrix_of(network.graph(), edge).rows_are_outputs;
  std::vector<Range> shares = network.shares(filters ? e.destination : e.source);
  for (Range& share : shares)
    share = {std::clamp<Index>(share.begin - first, 0, count),
             std::clamp<Index>(share.end - first, 0, count)};
  return shares;
}

// The part of these source rows that a rank stores: all of them, but for weights by source.
Range stored_rows(const WeightShape& shape, Index first, Index count) {
  if (!shape.by_source) return {first, first + count};
  const Index begin = std::clamp(shape.mine.begin, first, first + count);
  return {begin, std::clamp(shape.mine.end, begin, first + count)};
}

// Source rows of this rank's weights, in main memory as they are stored: all of it when that is
// where they are.
class OwnRows {
 public:
  OwnRows(const WeightShape& shape, Memory& memory, const WeightView& stored, Range rows)
      : memory_(memory),
        device_(shape.by_destination
                    ? stored.columns(rows.begin, rows.count())
                    : stored.row_range(rows.begin - (shape.by_source ? shape.mine.begin : 0),
                                       rows.count())),
        is_copy_(!memory.is_host() || stored.is_split()),
        host_(device_.floats) {
    if (!is_copy_) return;
    copy_ = Matrix<float>(device_.rows(), device_.cols());
    host_ = copy_.view();
  }
  MatrixView<float> host() const { return host_; }
  void read() {
    if (is_copy_) read_weights(memory_, device_, host_);
  }
  void write() {
    if (is_copy_) write_weights(memory_, host_, device_);
  }

 private:
  Memory& memory_;
  WeightView device_;
  bool is_copy_;
  MatrixView<float> host_;
  Matrix<float> copy_;
};

// Through tiles, so that every line of memory is fetched once.
void transpose(MatrixView<const float> from, MatrixView<float> to) {
  constexpr Index kSide = 32;
  float tile[kSide][kSide];
  for (Index r = 0; r < from.rows; r += kSide)
    for (Index c = 0; c < from.cols; c += kSide) {
      const Index rows = std::min(kSide, from.rows - r);
      const Index columns = std::min(kSide, from.cols - c);
      for (Index i = 0; i < rows; ++i)
        for (Index k = 0; k < columns; ++k) tile[k][i] = from(r + i, c + k);
      for (Index k = 0; k < columns; ++k) std::copy_n(tile[k], rows, to.row(c + k) + r);
    }
}

void copy(MatrixView<const float> from, MatrixView<float> to) {
  for (Index r = 0; r < from.rows; ++r) std::copy_n(from.row(r), from.cols, to.row(r));
}

// Between this rank's weights as stored and the same rows whole.
void copy_own(const WeightShape& shape, MatrixView<float> stored, MatrixView<float> rows,
              bool to_rows) {
  const Range mine = shape.by_source ? Range{0, shape.destinations} : shape.mine;
  const MatrixView<float> whole = rows.columns(mine.begin, mine.count());
  if (whole.empty()) return;
  const auto& bring = shape.by_destination ? transpose : copy;
  to_rows ? bring(stored, whole) : bring(whole, stored);
}

template <typename Body>
void for_runs(const WeightShape& shape, const Body& body) {
  const Index run = std::max<Index>(1, kRunElements / std::max<Index>(1, shape.destinations));
  Matrix<float> rows(std::min(run, shape.sources), shape.destinations);
  for (Index first = 0; first < shape.sources; first += run)
    body(first, rows.first_rows(std::min(run, shape.sources - first)));
}

}  // namespace

std::vector<HeldBuffer<float>*> layer_vectors(Network& network, int layer, bool with_state) {
  std::vector<HeldBuffer<float>*> vectors = network.unit_vectors(layer);
  const bool has_matrices = !network.graph().matrices(layer).empty();
  std::erase_if(vectors, [&](const HeldBuffer<float>* vector) {
    return (has_matrices && vector == &network.unit_layer(layer)->bias.value) ||
           (!with_state && vector->tensor().purpose == Purpose::state);
  });
  return vectors;
}

std::vector<SavedArray> layer_arrays(Network& network, int layer) {
  std::vector<SavedArray> arrays;
  for (const NetworkArray& array : network.state_arrays(layer))
    arrays.push_back({array.tensor, array.data, &network.context().compute.memory});
  return arrays;
}

std::string layer_item(int layer, const Tensor& array) {
  return fmt::format("layer{}_{}", layer, array.item);
}

std::string feature_weights_item(int layer) {
  return fmt::format("layer{}_{}", layer, kFeatureWeights);
}

std::string feature_weights_name(const std::string& layer) {
  return fmt::format("{} {}", layer, kFeatureWeights);
}

std::array<Index, kWeightAxes.size()> weight_extents(const Graph& graph, int edge) {
  const Edge& e = graph.edges[std::size_t(edge)];
  const LayerDescriptor& layer = graph.network.layers[std::size_t(e.destination)];
  const EdgeMatrix matrix = matrix_of(graph, edge);
  if (layer.type != LayerType::convolutional) return {matrix.outputs, matrix.inputs, 1, 1, 1};
  const Window window = window_of(layer, graph.network.layers[std::size_t(e.source)]);
  std::array<Index, kWeightAxes.size()> extents = {matrix.outputs, window.channels, 1, 1, 1};
  const auto axes = std::size_t(layer.dimensions - 1);
  std::reverse_copy(window.kernel.begin(), window.kernel.begin() + axes, extents.begin() + 2);
  return extents;
}

std::vector<Index> array_extent(const Graph& graph, int edge) {
  const EdgeMatrix matrix = matrix_of(graph, edge);
  if (!matrix.rows_are_outputs) return {matrix.inputs, matrix.outputs};
  const auto extents = weight_extents(graph, edge);
  const int destination = graph.edges[std::size_t(edge)].destination;
  return {extents.begin(),
          extents.begin() + 1 + graph.network.layers[std::size_t(destination)].dimensions};
}

namespace {

// The units of a layer of which this rank has such a vector.
Range own_units(Network& network, int layer, const HeldBuffer<float>& mine) {
  if (mine.tensor().layout == Layout::whole) return {0, mine.size()};
  return network.shares(layer)[std::size_t(network.context().communicator.rank())];
}

}  // namespace

std::vector<float> gather_units(Network& network, int layer, const HeldBuffer<float>& mine) {
  UnitLayer& unit = *network.unit_layer(layer);
  std::vector<float> whole(std::size_t(unit.partition().width()));
  const Range own = own_units(network, layer, mine);
  if (network.is_factored(layer) && &mine == &unit.bias.value) {
    const Index bias = unit.connections[0].sources();
    network.factored_columns(layer, {bias, bias + 1},
                             {whole.data() + own.begin, own.count(), 1, 1});
  } else {
    mine.read(whole.data() + own.begin, own.count());
  }
  if (mine.tensor().layout == Layout::whole) return whole;
  const MatrixView<float> row{whole.data(), 1, Index(whole.size()), Index(whole.size())};
  network.context().communicator.all_gather_columns(row, network.shares(layer));
  return whole;
}

void scatter_units(Network& network, int layer, const std::vector<float>& whole,
                   HeldBuffer<float>& mine) {
  const Range own = own_units(network, layer, mine);
  mine.write(whole.data() + own.begin, own.count());
  network.restart_factors(layer);
}

void gather_rows(Network& network, int edge, int part,
                 const std::function<void(Index, MatrixView<const float>)>& take) {
  Weights& weights = *network.weights(edge);
  const WeightShape shape = in_files(network, edge, weights.shape_of(part));
  Communicator& communicator = network.context().communicator;
  const int layer = network.graph().edges[std::size_t(edge)].destination;
  for_runs(shape, [&](Index first, MatrixView<float> rows) {
    const Range here = stored_rows(shape, first, rows.rows);
    const MatrixView<float> to = rows.row_range(here.begin - first, here.count());
    if (network.is_factored(layer)) {
      Matrix<float> product(shape.mine.count(), here.count());
      network.factored_columns(layer, here, product.view());
      copy_own(shape, product.view(), to, true);
    } else {
      OwnRows own(shape, network.context().compute.memory, weights.part(part), here);
      own.read();
      copy_own(shape, own.host(), to, true);
    }
    if (shape.by_source && !shape.replicated)
      communicator.all_gather_rows(rows, row_shares(network, edge, first, rows.rows));
    else if (!shape.replicated)
      communicator.all_gather_columns(
          rows, network.shares(network.graph().edges[std::size_t(edge)].destination));
    take(first, rows);
  });
}

void scatter_rows(Network& network, int edge, int part,
                  const std::function<void(Index, MatrixView<float>)>& give) {
  Weights& weights = *network.weights(edge);
  const WeightShape shape = in_files(network, edge, weights.shape_of(part));
  Communicator& communicator = network.context().communicator;
  for_runs(shape, [&](Index first, MatrixView<float> rows) {
    if (communicator.rank() == 0) give(first, rows);
    communicator.broadcast(
        {reinterpret_cast<std::byte*>(rows.data), std::size_t(rows.size()) * sizeof(float)}, 0);
    const Range here = stored_rows(shape, first, rows.rows);
    OwnRows own(shape, network.context().compute.memory, weights.part(part), here);
    copy_own(shape, own.host(), rows.row_range(here.begin - first, here.count()), false);
    own.write();
  });
  weights.cast_to_bf16(network.context().compute);
  network.restart_factors(network.graph().edges[std::size_t(edge)].destination);
}

}  // namespace norn
