// SPDX-License-Identifier: Apache-2.0
// The descriptive part of a model file: attributes to descriptor.
#include "norn/base/error.h"
#include "src/engine/model/model_features.h"
#include "src/engine/model/model_file.h"
#include "src/engine/model/model_labels.h"
#include "src/engine/model/model_numbers.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"

#include <limits>

#include <fmt/format.h>

namespace norn {
namespace {

// DSSTNE keeps the parameters of a loss or an activation beside its number.
template <typename Variant>
void read_parameters(const TensorFileReader& file, const std::string& prefix, Variant& value) {
  visit_parameters(value, [&](const ParameterKey& key, float& parameter) {
    if (key.item)
      parameter = float(file.number_or(prefix + std::string(key.item->name), key.item->otherwise));
  });
}

// A whole number within limits; it may be missing.
std::int64_t bounded(const TensorFileReader& file, const std::string& item, std::int64_t otherwise,
                     std::int64_t low, std::int64_t high) {
  const std::int64_t number = file.integer_or(item, otherwise);
  if (number < low || number > high)
    throw DataError(fmt::format(
        "{}: attribute \"{}\" is {}, expected {} to {}; the file may be damaged or of another kind",
        file.path().string(), item, number, low, high));
  return number;
}

template <typename Enum>
Enum enum_of(const TensorFileReader& file, const std::string& item, Enum last) {
  return Enum(bounded(file, item, 0, 0, std::int64_t(last)));
}

int int_or(const TensorFileReader& file, const std::string& item, int otherwise) {
  return int(bounded(file, item, otherwise, std::numeric_limits<int>::min(),
                     std::numeric_limits<int>::max()));
}

std::vector<std::string> read_names(const TensorFileReader& file, const std::string& count,
                                    const std::string& item) {
  std::vector<std::string> names;
  const std::int64_t n = file.integer_or(count, 0);
  for (std::int64_t k = 0; k < n; ++k) names.push_back(file.text(fmt::format("{}{}", item, k)));
  return names;
}

void read_extent(const TensorFileReader& file, const std::string& p, LayerDescriptor& layer) {
  constexpr std::array<const char*, 4> kAxes = {"Nx", "Ny", "Nz", "Nw"};
  for (std::size_t a = 0; a < 4; ++a) layer.extent[a] = file.integer_or(p + kAxes[a], 1);
  layer.dimensions = int(bounded(file, p + "dimensions", 1, 1, 4));
}

void read_window(const TensorFileReader& file, const std::string& p, LayerDescriptor& layer) {
  constexpr std::array<const char*, 3> kNames = {"X", "Y", "Z"};
  layer.kernel_dimensions = int(bounded(file, p + "kernelDimensions", 0, 0, 3));
  for (std::size_t a = 0; a < 3; ++a) {
    layer.kernel[a] = file.integer_or(p + "kernel" + kNames[a], 1);
    layer.stride[a] = file.integer_or(p + "kernelStride" + kNames[a], 1);
    layer.padding[a] = file.integer_or(p + "kernelPadding" + kNames[a], 0);
  }
}

LayerDescriptor read_layer(const TensorFileReader& file, std::int64_t number) {
  const std::string p = fmt::format("layer{}_", number);
  const std::string where = fmt::format("{}: layer {}", file.path().string(), number);
  LayerDescriptor layer;
  layer.name = file.text(p + "name");
  if (!file.has_attribute(p + "kind"))
    throw DataError(fmt::format("{} has no kind; the file is damaged or of another kind", where));
  layer.kind = enum_of(file, p + "kind", LayerKind(kLayerKinds.size() - 1));
  layer.type = enum_of(file, p + "type", LayerType(kLayerTypes.size() - 1));
  // DSSTNE writes every item for every layer. What is no key of this one's kind means nothing.
  const auto has = [&](const char* key) { return is_layer_key(key, layer.kind, layer.type); };
  if (has("Function"))
    layer.function = enum_of(file, p + "poolingfunction", PoolingFunction::cosine);
  if (has("DataSet")) layer.dataset = file.text_or(p + "dataSet", "");
  read_extent(file, p, layer);
  if (has("Kernel")) read_window(file, p, layer);
  layer.dropout = float(file.number_or(p + "pDropout", 0.0));
  const std::int64_t bits = file.integer_or(p + "attributes", 0);
  layer.sparse = (bits & 1) != 0;
  if (has("WeightInit")) {
    layer.init.scheme =
        initializer_of_number(file.integer_or(p + "weightInit", 0),
                              float(file.number_or(p + "weightInitScale", 1.0)), where);
    layer.init.bias = float(file.number_or(p + "biasInit", 0.0));
  }
  if (has("WeightNorm")) layer.weight_norm = float(file.number_or(p + "weightNorm", 0.0));
  if (has("DeltaNorm")) layer.delta_norm = float(file.number_or(p + "deltaNorm", 0.0));
  if (has("Activation") && !rules_of(layer.type).has_activation) {
    layer.activation = Activation(Linear{});
  } else if (has("Activation")) {
    layer.activation = activation_of_number(file.integer_or(p + "activation", 0), where);
    if (Activation* f = std::get_if<Activation>(&layer.activation)) read_parameters(file, p, *f);
  }
  if (has("BatchNormalization")) layer.batch_normalization = (bits & 4) != 0;
  if (has("SparsenessPenalty")) {
    const SparsenessPenalty penalty{float(file.number_or(p + "sparsenessPenalty_p", 0.0)),
                                    float(file.number_or(p + "sparsenessPenalty_beta", 0.0))};
    if (penalty.beta > 0.0f) layer.sparseness = penalty;
  }
  if (has("Source")) layer.sources = read_names(file, p + "sources", p + "source");
  if (has("Skip")) layer.skips = read_names(file, p + "skips", p + "skip");
  return layer;
}

void read_shared_weights(const TensorFileReader& file, NetworkDescriptor& network) {
  const std::int64_t weights = file.integer_or("weights", 0);
  for (std::int64_t w = 0; w < weights; ++w) {
    const std::string p = fmt::format("weight{}_", w);
    const std::string output = file.text(p + "outputLayer");  // the file ends where this is missing
    if (file.integer_or(p + "bShared", 0) == 0) continue;
    for (LayerDescriptor& layer : network.layers)
      if (layer.name == output)
        layer.shared_weights.push_back(
            {file.text(p + "inputLayer"), file.text(p + "sourceInputLayer"),
             file.text(p + "sourceOutputLayer"), file.integer_or(p + "bTransposed", 0) != 0});
  }
}

// A file of DSSTNE: everything is in attributes.
NetworkDescriptor read_attributes(const TensorFileReader& file) {
  NetworkDescriptor network;
  network.name = file.text_or("name", "");
  network.kind = enum_of(file, "kind", NetworkKind::auto_encoder);
  network.loss = loss_of_number(file.integer("errorFunction"), file.path().string());
  read_parameters(file, "", network.loss);
  network.maxout_k = int_or(file, "maxout_k", 2);
  network.decay = float(file.number_or("decay", 0.0));
  network.lrn.k = float(file.number_or("LRN_k", 2.0));
  network.lrn.n = int_or(file, "LRN_n", 5);
  network.lrn.alpha = float(file.number_or("LRN_alpha", 1e-4));
  network.lrn.beta = float(file.number_or("LRN_beta", 0.75));
  if (file.integer_or("bSparsenessPenalty", 0) != 0)
    network.sparseness = {float(file.number_or("sparsenessPenalty_p", 0.0)),
                          float(file.number_or("sparsenessPenalty_beta", 0.0))};
  if (file.integer_or("bDenoising", 0) != 0)
    network.denoising = float(file.number_or("denoising_p", 0.0));
  network.boost_one = float(file.number_or("deltaBoost_one", 1.0));
  network.boost_zero = float(file.number_or("deltaBoost_zero", 1.0));
  network.shuffle = file.integer_or("ShuffleIndices", 1) != 0;
  const std::int64_t layers = file.integer("layers");
  for (std::int64_t i = 0; i < layers; ++i) network.layers.push_back(read_layer(file, i));
  read_shared_weights(file, network);
  return network;
}

void read_search(const TensorFileReader& file, TrainingState& state) {
  state.watched = file.text_or("norn_search_watched", "");
  if (state.watched.empty()) return;
  SearchState& search = state.search;
  search.validated_epoch = file.integer("norn_search_validated_epoch");
  search.best = file.number("norn_search_best");
  search.best_epoch = file.integer("norn_search_best_epoch");
  search.best_step = file.integer("norn_search_best_step");
  search.since_best = file.integer("norn_search_since_best");
  search.ended_epoch = file.integer("norn_search_ended_epoch");
  search.ended_since_best = file.integer("norn_search_ended_since_best");
}

void read_plateau(const TensorFileReader& file, PlateauState& plateau) {
  plateau.evaluated = file.integer_or("norn_plateau_judged", 0);
  if (plateau.evaluated == 0) return;
  plateau.factor = file.number("norn_plateau_factor");
  plateau.since_better = file.integer("norn_plateau_since_better");
  plateau.best_cost = file.number("norn_plateau_best_cost");
}

// Where a count of a training state is none, the file is no work of ours.
std::int64_t read_count(const TensorFileReader& file, const std::string& name, std::int64_t most) {
  const std::int64_t count = file.integer(name);
  if (count < 0 || count > most)
    throw DataError(fmt::format(
        "{}: attribute \"{}\" is {}, expected 0 to {}; the file is damaged, resume from another",
        file.path().string(), name, count, most));
  return count;
}

void read_sets(const TensorFileReader& file, std::vector<TrainedSet>& sets) {
  if (!file.has_attribute("norn_sets")) return;
  const std::int64_t count = read_count(file, "norn_sets", 1 << 16);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string p = fmt::format("norn_set{}_", i);
    sets.push_back(
        {file.text(p + "name"), file.integer(p + "examples"), file.text(p + "checksum")});
  }
}

void read_state(const TensorFileReader& file, TrainingState& state) {
  constexpr std::int64_t kMostEpochs = std::int64_t(1) << 30;
  constexpr std::int64_t kMostSteps = std::int64_t(1) << 60;
  state.step = read_count(file, "norn_step", kMostSteps);
  state.epoch = read_count(file, "norn_epoch", kMostEpochs);
  state.batch = read_count(file, "norn_batch", kMostSteps);
  state.epoch_cost = FixedSum::from_words(file.integer("norn_epoch_cost_high"),
                                          file.integer("norn_epoch_cost_low"),
                                          file.integer("norn_epoch_cost_magnitude"));
  state.epoch_examples = read_count(file, "norn_epoch_examples", kMostSteps);
  read_search(file, state);
  read_plateau(file, state.plateau);
  read_sets(file, state.sets);
}

}  // namespace

ModelInfo read_model_info(const TensorFileReader& file) {
  if (!file.has_attribute("layers") || !file.has_attribute("errorFunction"))
    throw DataError(fmt::format(
        "{}: is no model file: it has no attributes \"layers\" and \"errorFunction\"; give a "
        "file that trainer wrote",
        file.path().string()));
  ModelInfo info;
  constexpr std::int64_t kFormat = 1;
  const std::int64_t format = file.integer_or("norn_format", 0);
  if (format > kFormat)
    throw DataError(fmt::format(
        "{}: model format {} is newer than this program, which reads up to {}; use a newer Norn",
        file.path().string(), format, kFormat));
  info.format = int(bounded(file, "norn_format", 0, 0, kFormat));
  if (info.format == 0) {
    info.network = read_attributes(file);
    try {
      check_network(info.network, file.path().string());
    } catch (const UsageError& error) {
      throw DataError(error.what());
    }
    info.unit_labels.resize(info.network.layers.size());
    return info;
  }
  try {
    info.network = parse_network_json(file.text("norn_descriptor"), file.path().string());
    // Lines of a text that nobody sees.
    for (LayerDescriptor& layer : info.network.layers) layer.places.clear();
  } catch (const UsageError& error) {
    throw DataError(fmt::format("{}: the descriptor in the model is damaged: {}",
                                file.path().string(), error.what()));
  }
  read_features(file, info.network);
  info.unit_labels = read_unit_labels(file, info.network);
  info.chosen = file.text_or("norn_chosen", "");
  info.has_training_state = file.has_attribute("norn_step");
  if (info.has_training_state) read_state(file, info.state);
  return info;
}

}  // namespace norn
