// SPDX-License-Identifier: Apache-2.0
// Opening what a run validates with.
#include "src/run/validation_data.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/run/training_start.h"
#include "src/run/validation_values.h"

#include <fmt/format.h>

namespace norn::run {
namespace {

int layer_to_rank(const NetworkDescriptor& network) {
  std::vector<std::string> names;
  int chosen = -1;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const LayerDescriptor& layer = network.layers[i];
    if (layer.kind != LayerKind::output) continue;
    names.push_back(layer.name);
    if (chosen < 0 || layer.name == "Output") chosen = int(i);
  }
  if (names.size() > 1 && network.layers[std::size_t(chosen)].name != "Output")
    throw UsageError(fmt::format(
        "validation evaluates one output layer, and the network has {}: {}; name the one "
        "that counts \"Output\"",
        names.size(), join(names)));
  return chosen;
}

// Before the length is chosen there must be something to choose it by.
void require_refit(const TrainingDescriptor& training) {
  if (!training.refits_later()) return;
  const ValidationDescriptor& asked = training.validation;
  if (training.epochs == 0)
    throw UsageError(
        "`refit` needs an epoch at least, whose model may be the best; give `epochs` 1 or more, or "
        "leave `refit` out");
  if (asked.split == 0.0f)
    throw UsageError(
        "`refit` needs a part of the training data to choose the length by; give "
        "`validation_split` 0.1");
  if (asked.early_stop.empty() && asked.keep_best.empty())
    throw UsageError(
        "`refit` needs a metric to choose the length by; give `keep_best`, or `early_stop`");
}

void require_no_wishes(const ValidationDescriptor& asked, bool values) {
  const char* needed =
      "needs data to validate with; give `validation_split` 0.1, or `validation_input`";
  if (!asked.early_stop.empty())
    throw UsageError(fmt::format("`early_stop` {} {}", asked.early_stop, needed));
  if (!asked.keep_best.empty())
    throw UsageError(fmt::format("`keep_best` {} {}", asked.keep_best, needed));
  if (values) throw UsageError(fmt::format("`validation_values` {}", needed));
}

}  // namespace

RunValidation open_validation(const TrainOptions& options, const NetworkDescriptor& network,
                              DataBinding& training, const Log& log) {
  RunValidation validation;
  const ValidationDescriptor& asked = network.training.validation;
  require_refit(network.training);
  const ValidationSettings& given = options.validation;
  if (!given.has_data() && (asked.split == 0.0f || is_refit(network.training))) {
    require_no_wishes(asked, options.validation_values && !is_refit(network.training));
    return validation;
  }
  validation.output_layer = layer_to_rank(network);
  if (!given.has_data()) {
    const HoldOutRule rule{asked.split,
                           asked.by == ValidationBy::user ? HoldOutBy::user : HoldOutBy::entry,
                           network.training.validation_seed()};
    validation.data = training.hold_out(network, rule, validation.output_layer);
    if (options.validation_values) require_values(network, validation.view());
    return validation;
  }
  const std::int64_t memory = options.memory_bytes - training.held_bytes();
  const ModelUnits units = training.units(options.trust_index);
  validation.data.data = std::make_unique<DataBinding>(
      network,
      DataSources{given.inputs,
                  given.outputs.empty() ? given.inputs : given.outputs,
                  memory,
                  {},
                  &units,
                  log,
                  given.sets},
      DataBinding::Layers::inputs_and_outputs);
  if (options.validation_values) require_values(network, validation.view());
  return validation;
}

void check_validation(const RunValidation& validation, const NetworkDescriptor& network,
                      const DataBinding& training) {
  if (!validation.data.data) return;
  for (const DatasetShape& shape : validation.data.data->shapes()) {
    const Index width = shape.extent[0] * shape.extent[1] * shape.extent[2];
    for (const LayerDescriptor& layer : network.layers)
      if (layer.dataset == shape.name && width > layer.units())
        throw DataError(fmt::format(
            "`validation_input`: data set \"{}\" is {} units wide, but layer \"{}\" has {}; import "
            "both data with the same feature index",
            shape.name, width, layer.name, layer.units()));
    for (const DatasetShape& trained : training.shapes())
      if (trained.name == shape.name && trained.gives_sparse_batches != shape.gives_sparse_batches)
        throw DataError(
            fmt::format("`validation_input`: data set \"{}\" is {}, but that of the training data "
                        "is {}; import "
                        "both in the same way",
                        shape.name, shape.gives_sparse_batches ? "sparse" : "dense",
                        trained.gives_sparse_batches ? "sparse" : "dense"));
  }
}

}  // namespace norn::run
