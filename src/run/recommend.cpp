// SPDX-License-Identifier: Apache-2.0
// Recommending: requests in, batch by batch, lists out.
#include "norn/run/recommend.h"

#include "norn/base/error.h"
#include "src/engine/predict/predictor.h"
#include "src/run/model_access.h"
#include "src/run/model_session.h"
#include "src/run/requests.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

namespace norn::run {
namespace {

// Rows of a filter, gathered for each batch.
class FilterRows {
 public:
  FilterRows(const MemorySet& set, const char* setting, Index width, Index examples) {
    if (!set.dense.empty())
      throw UsageError(fmt::format(
          "{}: is dense; give sparse rows, with what they name for each example", setting));
    if (set.row_begin.empty()) return;
    set_ = open_memory_set(set, Role::target);
    const DatasetInfo& info = set_->info();
    if (info.examples != examples || info.width() > width)
      throw UsageError(fmt::format(
          "{}: has {} examples of {} units, but there are {} examples and {} units; give a row for "
          "each example",
          setting, info.examples, info.width(), examples, width));
  }
  // Valid until the next call; no rows where there is no filter.
  CsrView of(std::span<const Index> examples, Index width) {
    if (!set_) return {};
    set_->gather(examples, batch_);
    CsrView rows = batch_.csr();
    rows.cols = width;
    return rows;
  }
  bool is_set() const { return set_ != nullptr; }

 private:
  std::unique_ptr<Dataset> set_;
  HostBatch batch_;
};

std::unique_ptr<DatasetRequests> open_requests(const Model& model, const RecommendOptions& options,
                                               int layer, const ModelUnits& units) {
  DatasetRequestSettings settings;
  settings.network = &ModelAccess::info(model).network;
  settings.files = options.inputs;
  settings.sets = options.sets;
  settings.memory_bytes = options.memory_bytes;
  settings.tell_seen = options.exclude_seen;
  settings.output_layer = layer;
  settings.units = &units;
  settings.log = ModelAccess::shared_log(model);
  return std::make_unique<DatasetRequests>(settings);
}

Index candidates(const Model& model, const RecommendOptions& options, int layer) {
  const Index width = ModelAccess::info(model).network.layers[std::size_t(layer)].units();
  if (options.units > 0) return std::min(options.units, width);
  const LabelTable& labels = ModelAccess::info(model).unit_labels[std::size_t(layer)];
  return labels.known() ? std::min(labels.size(), width) : width;
}

void require_layer(const Network& network, int layer, bool hidden) {
  const LayerDescriptor& chosen = network.descriptor().layers[std::size_t(layer)];
  if ((chosen.kind == LayerKind::output) == hidden)
    throw UsageError(fmt::format("`layer`: \"{}\" is {} output layer; {}", chosen.name,
                                 hidden ? "an" : "no",
                                 hidden ? "embeddings are of hidden ones, and an output layer has "
                                          "recommendations"
                                        : "a hidden one has embeddings, but no recommendations"));
  if (!network.unit_layer(layer))
    throw UsageError(
        fmt::format("`layer`: \"{}\" leads to no output layer: it is not computed", chosen.name));
}

// Both of what is excluded by hand and of what was seen.
CsrView joined(const CsrView& given, const SparseRows& seen, Index width, SparseRows& rows) {
  if (seen.rows() == 0) return given;
  if (given.rows == 0) return seen.view(width);
  rows.clear();
  for (Index r = 0; r < given.rows; ++r) {
    for (RowOffset i = given.row_begin[r]; i < given.row_begin[r + 1]; ++i)
      rows.add(given.column[i]);
    for (const Column unit : seen.columns(r)) rows.add(unit);
    rows.end_row();
  }
  return rows.view(width);
}

// Appends the lists of a batch.
void append(const TopK& best, Index examples, Recommendations& all) {
  for (Index e = 0; e < examples; ++e)
    for (Index rank = 0; rank < all.k; ++rank) {
      const bool filled = rank < best.count.data()[e];
      all.units.push_back(filled ? best.unit.view()(e, rank) : -1);
      all.scores.push_back(filled ? best.score.view()(e, rank) : std::nanf(""));
    }
  all.examples += examples;
}

}  // namespace

Recommendations recommend(Model& model, const RecommendOptions& options) {
  if (options.k < 1)
    throw UsageError(fmt::format("`k` {} is out of range: it must be at least 1", options.k));
  const int layer = choose_layer(ModelAccess::info(model).network, options.layer);
  const ModelUnits model_units = ModelAccess::units(model);
  const auto requests = open_requests(model, options, layer, model_units);
  const Index width = ModelAccess::info(model).network.layers[std::size_t(layer)].units();
  const Index units = candidates(model, options, layer);
  if (!options.allowed.empty() && Index(options.allowed.size()) < units)
    throw UsageError(fmt::format("`allowed`: has {} units, but there are {} to choose of",
                                 options.allowed.size(), units));
  FilterRows excluded(options.excluded, "`excluded`", width, requests->examples());
  FilterRows factors(options.factors, "`factors`", width, requests->examples());
  Network& network = ModelAccess::network(model, requests->shapes());
  requests->begin(network);
  require_layer(network, layer, false);
  Predictor predictor(network, layer, options.k, units);
  Recommendations all;
  all.k = options.k;
  all.units.reserve(std::size_t(requests->examples() * options.k));
  all.scores.reserve(std::size_t(requests->examples() * options.k));
  SparseRows both;
  std::vector<Index> examples;
  for_requests(*requests, ModelAccess::ranks(model), [&](const RequestBatch& batch) {
    examples.clear();
    for (Index e = 0; e < batch.examples(); ++e) examples.push_back(all.examples + e);
    ScoreFilter filter;
    filter.excluded = joined(excluded.of(examples, units), batch.seen, units, both);
    filter.factors = factors.of(examples, units);
    if (!options.allowed.empty()) filter.allowed = {options.allowed.data(), units};
    append(predictor.predict(batch.bound, filter), batch.examples(), all);
    if (options.on_batch) options.on_batch(all.examples, requests->examples());
  });
  return all;
}

Embeddings embed(Model& model, const RecommendOptions& options) {
  const int layer = choose_layer(ModelAccess::info(model).network, options.layer);
  const ModelUnits model_units = ModelAccess::units(model);
  RecommendOptions plain = options;
  plain.exclude_seen = false;
  const auto requests = open_requests(model, plain, layer, model_units);
  Network& network = ModelAccess::network(model, requests->shapes());
  requests->begin(network);
  require_layer(network, layer, true);
  Embeddings all;
  all.units = ModelAccess::info(model).network.layers[std::size_t(layer)].units();
  all.values.reserve(std::size_t(requests->examples() * all.units));
  for_requests(*requests, ModelAccess::ranks(model), [&](const RequestBatch& batch) {
    const MatrixView<const float> values = network.activations(batch.bound, layer);
    for (Index e = 0; e < batch.examples(); ++e)
      all.values.insert(all.values.end(), values.row(e), values.row(e) + values.cols);
    all.examples += batch.examples();
    if (options.on_batch) options.on_batch(all.examples, requests->examples());
  });
  return all;
}

}  // namespace norn::run
