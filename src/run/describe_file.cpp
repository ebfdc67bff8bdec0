// SPDX-License-Identifier: Apache-2.0
// What a file is, for people and programs that ask.
#include "norn/base/error.h"
#include "norn/run/data.h"
#include "src/data/contents_checksum.h"
#include "src/data/dataset.h"
#include "src/engine/model/model_file.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/json_value.h"
#include "src/parallel/communicator.h"
#include "src/run/model_session.h"

#include <array>
#include <memory>
#include <span>
#include <system_error>

namespace norn::run {
namespace {

JsonValue labels_json(const LabelTable& labels) {
  if (!labels.known()) return {};
  JsonValue value = JsonValue::object();
  value.set("count", labels.size()).set("numbers", labels.are_numbers());
  if (!labels.are_numbers()) value.set("sha256", labels.stored().sha256);
  value.set("kept", labels.has_words());
  return value;
}

JsonValue axes_json(std::span<const Index> extent, int dimensions) {
  JsonValue value = JsonValue::array();
  for (const Index units : extent.first(std::size_t(dimensions))) value.push(units);
  return value;
}

JsonValue set_json(const DatasetInfo& info) {
  constexpr std::array<const char*, 10> kTypes = {"uint",   "int",  "int64", "uint64", "float",
                                                  "double", "rgb8", "rgb16", "ubyte",  "byte"};
  JsonValue value = JsonValue::object();
  value.set("name", info.name);
  value.set("storage", info.sparse ? "sparse" : info.boolean ? "classes" : "dense");
  value.set("values", info.boolean ? JsonValue() : kTypes[std::size_t(info.type)]);
  value.set("width", info.width());
  value.set("extent", axes_json(info.extent, info.dimensions));
  value.set("examples", info.examples).set("rows", info.unique_examples);
  value.set("entries", info.sparse ? JsonValue(info.entries) : JsonValue());
  value.set("density", info.density());
  value.set("weighted", info.weighted).set("ignores_absent", info.sparse_ignore_zero);
  value.set("own_units", info.own_units).set("example_labels", info.label_set >= 0);
  value.set("labels", labels_json(info.unit_labels));
  // The one that models keep of what they were trained on, so that the two can be compared.
  const auto set = open_dataset(info, Residency::stream, Role::input);
  value.set("checksum", checksum_text(contents_checksum(*set, kTrainedParts)));
  return value;
}

JsonValue training_json(const TrainingState& state) {
  JsonValue value = JsonValue::object();
  value.set("step", state.step).set("epoch", state.epoch).set("batch", state.batch);
  if (!state.watched.empty()) {
    value.set("watched", state.watched).set("best", state.search.best);
    value.set("best_epoch", state.search.best_epoch);
    value.set("validated_epoch", state.search.validated_epoch);
  }
  JsonValue sets = JsonValue::array();
  for (const TrainedSet& set : state.sets)
    sets.push(JsonValue::object()
                  .set("name", set.name)
                  .set("examples", set.examples)
                  .set("checksum", set.checksum));
  return value.set("sets", sets);
}

JsonValue model_json(const ModelInfo& info) {
  JsonValue value = JsonValue::object();
  value.set("kind", "model").set("format", info.format);
  value.set("network", JsonValue::verbatim(to_json(info.network)));
  JsonValue layers = JsonValue::array();
  for (std::size_t i = 0; i < info.network.layers.size(); ++i) {
    const LayerDescriptor& layer = info.network.layers[i];
    layers.push(JsonValue::object()
                    .set("name", layer.name)
                    .set("units", layer.units())
                    .set("extent", axes_json(layer.extent, layer.dimensions))
                    .set("labels", labels_json(info.unit_labels[i])));
  }
  value.set("layers", layers);
  value.set("training", info.has_training_state ? training_json(info.state) : JsonValue());
  return value;
}

}  // namespace

std::string describe_file(const std::filesystem::path& file) {
  JsonValue value;
  const bool is_model = TensorFileReader(file).has_attribute("layers");
  if (is_model) {
    const auto alone = make_single_process();
    value = model_json(open_model_info(file, *alone));
  } else {
    JsonValue sets = JsonValue::array();
    for (const DatasetInfo& info : list_datasets(file)) sets.push(set_json(info));
    value = JsonValue::object().set("kind", "data").set("sets", sets);
  }
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(file, ignored);
  value.set("file", file).set("bytes", std::uint64_t(bytes));
  value.set("sealed", TensorFileReader(file).is_sealed());
  return value.text();
}

}  // namespace norn::run
