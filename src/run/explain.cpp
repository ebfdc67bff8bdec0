// SPDX-License-Identifier: Apache-2.0
// Explaining scores: requests in, batch by batch, effects of their entries out.
#include "norn/base/error.h"
#include "norn/run/recommend.h"
#include "src/engine/predict/explainer.h"
#include "src/run/model_access.h"
#include "src/run/model_session.h"
#include "src/run/requests.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace norn::run {
namespace {

int output_layer(const NetworkDescriptor& network, const std::string& name) {
  const int layer = choose_layer(network, name);
  const LayerDescriptor& chosen = network.layers[std::size_t(layer)];
  if (chosen.kind != LayerKind::output)
    throw UsageError(fmt::format("`layer`: \"{}\" is no output layer: it has no scores to explain",
                                 chosen.name));
  return layer;
}

void require_units(std::span<const Index> units, Index examples, Index width) {
  if (Index(units.size()) % examples != 0)
    throw UsageError(fmt::format("`units`: has {} units for {} examples; give as many for each",
                                 units.size(), examples));
  const auto wrong = std::ranges::find_if(units, [&](Index u) { return u < -1 || u >= width; });
  if (wrong == units.end()) return;
  const Index asked = Index(units.size()) / examples;
  throw UsageError(
      fmt::format("`units`: example {}: unit {} is out of range, expected 0 to {}, or -1 for none",
                  (wrong - units.begin()) / asked, *wrong, width - 1));
}

}  // namespace

std::vector<Explanation> explain(Model& model, const ExplainOptions& options) {
  if (options.n < 1)
    throw UsageError(fmt::format("`n` {} is out of range: it must be at least 1", options.n));
  const NetworkDescriptor& network_of = ModelAccess::info(model).network;
  const ModelUnits units = ModelAccess::units(model);
  DatasetRequestSettings settings;
  settings.network = &network_of;
  settings.files = options.inputs;
  settings.sets = options.sets;
  settings.memory_bytes = options.memory_bytes;
  settings.output_layer = output_layer(network_of, options.layer);
  settings.whole = true;
  settings.units = &units;
  settings.log = ModelAccess::shared_log(model);
  DatasetRequests requests(settings);
  require_entries(network_of, requests.shapes());
  require_units(options.units, requests.examples(),
                network_of.layers[std::size_t(settings.output_layer)].units());
  const Index asked = Index(options.units.size()) / requests.examples();
  Network& network = ModelAccess::network(model, requests.shapes());
  requests.begin(network);
  Explainer explainer(network, settings.output_layer, options.n);
  std::vector<Explanation> all;
  all.reserve(options.units.size());
  Index done = 0;
  for_requests(requests, ModelAccess::ranks(model), [&](const RequestBatch& batch) {
    std::vector<Explanation> some = explainer.explain(
        batch.bound,
        options.units.subspan(std::size_t(done * asked), std::size_t(batch.examples() * asked)));
    std::ranges::move(some, std::back_inserter(all));
    done += batch.examples();
    if (options.on_batch) options.on_batch(done, requests.examples());
  });
  return all;
}

}  // namespace norn::run
