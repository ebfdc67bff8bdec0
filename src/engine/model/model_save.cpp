// SPDX-License-Identifier: Apache-2.0
// Writing model files: DSSTNE's items, then ours.
#include "norn/base/error.h"
#include "src/engine/model/model_arrays.h"
#include "src/engine/model/model_features.h"
#include "src/engine/model/model_file.h"
#include "src/engine/model/model_labels.h"
#include "src/engine/model/model_numbers.h"
#include "src/engine/model/model_parts.h"
#include "src/nn/descriptor_json.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

namespace norn {
namespace {

// Position of the first value that is NaN or infinite, or the number of values.
template <typename T>
std::size_t first_not_finite(std::span<const T> values) {
  constexpr std::size_t kRun = 4096;  // without a branch for each value, so that vectors are used
  for (std::size_t begin = 0; begin < values.size(); begin += kRun) {
    const auto run = values.subspan(begin, std::min(kRun, values.size() - begin));
    bool all = true;
    for (T value : run) all &= std::isfinite(value);
    if (all) continue;
    const auto bad = std::ranges::find_if_not(run, [](T v) { return std::isfinite(v); });
    return begin + std::size_t(bad - run.begin());
  }
  return values.size();
}

std::uint32_t flag(bool value) {
  return value ? 1u : 0u;
}

// DSSTNE's items for the parameters of all activations or losses: of those that the value at hand
// does not have, the default.
template <typename Variant>
void write_parameters(TensorFileWriter& file, const std::string& prefix, const Variant& value) {
  for (const SharedParameter& parameter : parameters_of<Variant>()) {
    const ParameterKey& key = *parameter.key;
    if (key.item)
      file.attribute(prefix + std::string(key.item->name),
                     parameter_of(value, key.name).value_or(parameter.defaults.front().second));
  }
}

void write_network(TensorFileWriter& file, const NetworkDescriptor& network, std::size_t weights) {
  file.attribute("version", 0.9f);
  file.attribute("name", network.name);
  file.attribute("kind", std::uint32_t(network.kind));
  file.attribute("errorFunction", loss_number(network.loss));
  file.attribute("maxout_k", std::int32_t(network.maxout_k));
  file.attribute("decay", network.decay);
  file.attribute("LRN_k", network.lrn.k);
  file.attribute("LRN_n", std::int32_t(network.lrn.n));
  file.attribute("LRN_alpha", network.lrn.alpha);
  file.attribute("LRN_beta", network.lrn.beta);
  file.attribute("bSparsenessPenalty", flag(network.sparseness.beta > 0.0f));
  file.attribute("sparsenessPenalty_p", network.sparseness.p);
  file.attribute("sparsenessPenalty_beta", network.sparseness.beta);
  file.attribute("bDenoising", flag(network.denoising > 0.0f));
  file.attribute("denoising_p", network.denoising);
  file.attribute("deltaBoost_one", network.boost_one);
  file.attribute("deltaBoost_zero", network.boost_zero);
  write_parameters(file, "", network.loss);
  file.attribute("ShuffleIndices", flag(network.shuffle));
  file.attribute("checkpoint_name", std::string("checkpoint"));
  file.attribute("checkpoint_interval", std::int32_t(0));
  file.attribute("checkpoint_epochs", std::int32_t(0));
  file.attribute("layers", std::uint32_t(network.layers.size()));
  file.attribute("weights", std::uint32_t(weights));
}

void write_names(TensorFileWriter& file, const std::string& count, const std::string& item,
                 const std::vector<std::string>& names) {
  file.attribute(count, std::uint32_t(names.size()));
  for (std::size_t k = 0; k < names.size(); ++k)
    file.attribute(fmt::format("{}{}", item, k), names[k]);
}

void write_activation(TensorFileWriter& file, const std::string& p,
                      const LayerActivation& activation) {
  const Activation* pointwise = std::get_if<Activation>(&activation);
  file.attribute(p + "activation", activation_number(activation));
  write_parameters(file, p, pointwise ? *pointwise : Activation(Linear{}));
}

void write_geometry(TensorFileWriter& file, const std::string& p, const LayerDescriptor& layer) {
  constexpr std::array<const char*, 4> kAxes = {"Nx", "Ny", "Nz", "Nw"};
  constexpr std::array<const char*, 3> kNames = {"X", "Y", "Z"};
  for (std::size_t a = 0; a < 4; ++a) file.attribute(p + kAxes[a], std::uint32_t(layer.extent[a]));
  file.attribute(p + "dimensions", std::uint32_t(layer.dimensions));
  file.attribute(p + "kernelDimensions", std::uint32_t(layer.kernel_dimensions));
  for (std::size_t a = 0; a < 3; ++a) {
    file.attribute(p + "kernel" + kNames[a], std::uint32_t(layer.kernel[a]));
    file.attribute(p + "kernelStride" + kNames[a], std::uint32_t(layer.stride[a]));
    file.attribute(p + "kernelPadding" + kNames[a], std::uint32_t(layer.padding[a]));
  }
}

void write_layer(TensorFileWriter& file, const LayerDescriptor& layer, std::size_t number,
                 float denoising) {
  const std::string p = fmt::format("layer{}_", number);
  file.attribute(p + "name", layer.name);
  file.attribute(p + "kind", std::uint32_t(layer.kind));
  file.attribute(p + "type", std::uint32_t(layer.type));
  file.attribute(p + "poolingfunction", std::uint32_t(layer.function));
  file.attribute(p + "dataSet", layer.dataset);
  write_geometry(file, p, layer);
  file.attribute(p + "pDropout", layer.dropout);
  file.attribute(p + "weightInit", std::uint32_t(layer.init.scheme.index()));
  file.attribute(p + "weightInitScale", initializer_scale(layer.init.scheme));
  file.attribute(p + "biasInit", layer.init.bias);
  file.attribute(p + "weightNorm", layer.weight_norm);
  file.attribute(p + "deltaNorm", layer.delta_norm);
  write_activation(file, p, layer.activation);
  const SparsenessPenalty penalty = layer.sparseness.value_or(SparsenessPenalty{});
  file.attribute(p + "sparsenessPenalty_p", penalty.p);
  file.attribute(p + "sparsenessPenalty_beta", penalty.beta);
  const bool denoises = denoising > 0.0f && layer.kind == LayerKind::input && layer.sparse;
  file.attribute(p + "attributes", flag(layer.sparse) | (flag(denoises) << 1) |
                                       (flag(layer.batch_normalization) << 2));
  write_names(file, p + "sources", p + "source", layer.sources);
  write_names(file, p + "skips", p + "skip", layer.skips);
}

// The weight matrices that files hold, in their order: those of layers that take part.
std::vector<int> saved_edges(const Network& network) {
  std::vector<int> edges;
  for (std::size_t e = 0; e < network.graph().edges.size(); ++e)
    if (const Edge& edge = network.graph().edges[e];
        edge.has_weights() && network.unit_layer(edge.destination))
      edges.push_back(int(e));
  return edges;
}

class ModelWriter {
 public:
  ModelWriter(Network& network, const std::optional<TrainingState>& state)
      : network_(network), state_(state), edges_(saved_edges(network)) {}

  void describe(TensorFileWriter& file) const {
    write_network(file, network_.descriptor(), edges_.size());
    for (std::size_t i = 0; i < network_.descriptor().layers.size(); ++i)
      write_layer(file, network_.descriptor().layers[i], i, network_.descriptor().denoising);
    for (std::size_t w = 0; w < edges_.size(); ++w) describe_weight(file, w);
    for (int layer : network_.order()) describe_layer(file, layer);
    file.attribute("norn_format", std::int32_t(1));
    file.attribute("norn_descriptor", to_json(network_.descriptor()));
    define_features(file, network_.descriptor());
    define_unit_labels(file, network_.unit_labels());
    if (!network_.chosen().empty()) file.attribute("norn_chosen", network_.chosen());
    if (!state_) return;
    file.attribute("norn_step", state_->step);
    file.attribute("norn_epoch", state_->epoch);
    file.attribute("norn_batch", state_->batch);
    file.attribute("norn_epoch_cost_high", state_->epoch_cost.high());
    file.attribute("norn_epoch_cost_low", state_->epoch_cost.low());
    file.attribute("norn_epoch_cost_magnitude", state_->epoch_cost.magnitude());
    file.attribute("norn_epoch_examples", state_->epoch_examples);
    describe_search(file);
    describe_plateau(file);
    describe_sets(file);
  }

  /// Where runs of an item's values go, on rank 0.
  using Take = std::function<void(const std::string& item, Index first, ConstValues values)>;

  /// Hands out all values, which every rank sees as a whole: each ends here when one is not finite.
  void write(const Take& file) const {
    const auto take = [&](const std::string& item, Index first, ConstValues values) {
      std::visit(
          [&](auto of_type) {
            const std::size_t bad = first_not_finite(of_type);
            if (bad < of_type.size())
              throw divergence(item, first + Index(bad), double(of_type[bad]));
          },
          values);
      if (file) file(item, first, values);
    };
    write_features(network_.descriptor(), take);
    for (std::size_t w = 0; w < edges_.size(); ++w) {
      write_bias(take, w);
      const int edge = edges_[w];
      if (!network_.weights(edge)) continue;
      for (int part = 0; part <= parts(edge); ++part) {
        gather_rows(network_, edge, part, [&](Index first, MatrixView<const float> rows) {
          take(weight_item(w, part), first * rows.cols,
               std::span<const float>(rows.data, std::size_t(rows.size())));
        });
      }
    }
    for (int layer : network_.order()) {
      if (network_.weights_features(layer))
        take(feature_weights_item(layer), 0,
             std::span<const float>(network_.feature_weights(layer)));
      if (!network_.unit_layer(layer)) continue;
      for (const HeldBuffer<float>* vector : layer_vectors(network_, layer, state_.has_value()))
        take(layer_item(layer, vector->tensor()), 0,
             std::span<const float>(gather_units(network_, layer, *vector)));
      if (!state_) continue;
      for (const SavedArray& array : layer_arrays(network_, layer))
        gather_array(network_.context().communicator, network_.shares(layer), array,
                     [&](Index first, ConstValues values) {
                       take(layer_item(layer, *array.tensor), first, values);
                     });
    }
  }

 private:
  void describe_search(TensorFileWriter& file) const {
    if (state_->watched.empty()) return;
    const SearchState& search = state_->search;
    file.attribute("norn_search_watched", state_->watched);
    file.attribute("norn_search_validated_epoch", search.validated_epoch);
    file.attribute("norn_search_best", search.best);
    file.attribute("norn_search_best_epoch", search.best_epoch);
    file.attribute("norn_search_best_step", search.best_step);
    file.attribute("norn_search_since_best", search.since_best);
    file.attribute("norn_search_ended_epoch", search.ended_epoch);
    file.attribute("norn_search_ended_since_best", search.ended_since_best);
  }

  void describe_plateau(TensorFileWriter& file) const {
    const PlateauState& plateau = state_->plateau;
    if (plateau.evaluated == 0) return;
    file.attribute("norn_plateau_factor", plateau.factor);
    file.attribute("norn_plateau_since_better", plateau.since_better);
    file.attribute("norn_plateau_judged", plateau.evaluated);
    file.attribute("norn_plateau_best_cost", plateau.best_cost);
  }

  void describe_sets(TensorFileWriter& file) const {
    file.attribute("norn_sets", std::int64_t(state_->sets.size()));
    for (std::size_t i = 0; i < state_->sets.size(); ++i) {
      const std::string p = fmt::format("norn_set{}_", i);
      file.attribute(p + "name", state_->sets[i].name);
      file.attribute(p + "examples", state_->sets[i].examples);
      file.attribute(p + "checksum", state_->sets[i].checksum);
    }
  }

  int parts(int edge) const { return state_ ? network_.weights(edge)->slots() : 0; }
  static std::string weight_item(std::size_t w, int part) {
    return part == 0 ? fmt::format("weight{}_weights", w)
                     : fmt::format("weight{}_slot{}", w, part - 1);
  }

  void describe_weight(TensorFileWriter& file, std::size_t w) const {
    const std::string p = fmt::format("weight{}_", w);
    const Edge& edge = network_.graph().edges[std::size_t(edges_[w])];
    const auto& layers = network_.descriptor().layers;
    const LayerDescriptor& source = layers[std::size_t(edge.source)];
    const LayerDescriptor& destination = layers[std::size_t(edge.destination)];
    file.attribute(p + "inputLayer", source.name);
    file.attribute(p + "outputLayer", destination.name);
    const EdgeMatrix matrix = matrix_of(network_.graph(), edges_[w]);
    const auto extents = weight_extents(network_.graph(), edges_[w]);
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      file.attribute(p + kWeightAxes[axis], std::uint64_t(extents[axis]));
    file.attribute(p + "bShared", flag(edge.shared_with >= 0));
    file.attribute(p + "bLocked", 0u);
    file.attribute(p + "norm", destination.weight_norm);
    file.define_float(p + "bias", p + "biasDim", matrix.outputs);
    if (edge.shared_with >= 0) {
      const Edge& owner = network_.graph().edges[std::size_t(edge.shared_with)];
      file.attribute(p + "bTransposed", flag(edge.transposed));
      file.attribute(p + "sourceInputLayer", layers[std::size_t(owner.source)].name);
      file.attribute(p + "sourceOutputLayer", layers[std::size_t(owner.destination)].name);
      return;
    }
    for (int part = 0; part <= parts(edges_[w]); ++part)
      file.define_float(weight_item(w, part), p + "weightDim", matrix.size());
  }

  void describe_layer(TensorFileWriter& file, int layer) const {
    UnitLayer* unit = network_.unit_layer(layer);
    const std::string p = fmt::format("layer{}_", layer);
    if (network_.weights_features(layer))
      file.define_float(feature_weights_item(layer), p + "featureDim",
                        network_.descriptor().layers[std::size_t(layer)].units());
    if (!unit) return;
    if (state_ && unit->delta_sum.allocated())
      file.attribute(p + "deltaFineBits", std::int32_t(unit->delta_sum.fine_bits()));
    for (const HeldBuffer<float>* vector : layer_vectors(network_, layer, state_.has_value()))
      file.define_float(layer_item(layer, vector->tensor()), p + "bnDim",
                        unit->partition().width());
    if (!state_) return;
    for (const SavedArray& array : layer_arrays(network_, layer)) {
      const std::string item = layer_item(layer, *array.tensor);
      const Index size = whole_size(array, network_.shares(layer));
      if (array.tensor->element_bytes == Index(sizeof(double)))
        file.define_double(item, item + "Dim", size);
      else
        file.define_float(item, item + "Dim", size);
    }
  }

  // A layer has one bias; DSSTNE keeps one for each source and adds them up, so the others are
  // zero.
  void write_bias(const Take& take, std::size_t w) const {
    const int edge = edges_[w];
    const int layer = network_.graph().edges[std::size_t(edge)].destination;
    std::vector<float> bias = gather_units(network_, layer, network_.unit_layer(layer)->bias.value);
    if (network_.graph().matrices(layer).front() != edge) bias.assign(bias.size(), 0.0f);
    take(fmt::format("weight{}_bias", w), 0, std::span<const float>(bias));
  }

  DivergenceError divergence(const std::string& item, Index element, double value) const {
    const std::string when = state_ ? fmt::format(" after step {} (epoch {})", state_->step,
                                                  state_->epoch + (state_->batch > 0 ? 1 : 0))
                                    : "";
    return DivergenceError(
        fmt::format("\"{}\" is {} at element {}{}, so nothing is saved; lower the learning rate",
                    item, value, element, when));
  }

  Network& network_;
  const std::optional<TrainingState>& state_;
  std::vector<int> edges_;
};

}  // namespace

void save_model(const std::filesystem::path& path, Network& network,
                const std::optional<TrainingState>& state, BackgroundWork& writer,
                std::int64_t memory) {
  const ModelWriter model(network, state);
  if (network.context().communicator.rank() != 0) return model.write({});
  const auto file = std::make_shared<TensorFileWriter>(path);
  model.describe(*file);
  write_unit_labels(*file, network.unit_labels());
  const std::int64_t limit = std::max(memory, kBytesToDisk / 2);
  model.write([&](const std::string& item, Index first, ConstValues values) {
    std::visit(
        [&]<typename T>(std::span<const T> of_type) {
          const auto copy = std::make_shared<Buffer<T>>(Index(of_type.size()));
          copy->write(of_type.data(), copy->size());
          writer.add(
              [=] {
                file->write(item, first,
                            std::span<const T>(copy->data(), std::size_t(copy->size())));
              },
              copy->bytes(), limit);
        },
        values);
  });
  writer.add([=] { file->commit(); }, 0, limit);
}

void save_model(const std::filesystem::path& path, Network& network,
                const std::optional<TrainingState>& state) {
  BackgroundWork writer;
  save_model(path, network, state, writer, 0);
  writer.wait();
  network.context().communicator.barrier();
}

void require_finite(Network& network, const TrainingState& state) {
  ModelWriter(network, state).write({});
}

}  // namespace norn
