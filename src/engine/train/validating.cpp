// SPDX-License-Identifier: Apache-2.0
// What validations compute and go by.
#include "src/engine/train/validating.h"

#include "norn/base/error.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {

ValidationCriterion validation_criterion(const NetworkDescriptor& network,
                                         const Validation& validation) {
  const ValidationDescriptor& asked = network.training.validation;
  const LayerDescriptor& layer = network.layers[std::size_t(validation.output_layer)];
  ValidationCriterion criterion;
  bool ranks = false;
  for (const Dataset* set : validation.data->data->sets())
    if (set->info().name == layer.dataset) ranks = set->info().gives_sparse_batches();
  if (ranks) criterion.ks = parse_metrics_at(asked.metrics_at);
  const std::string& wish = asked.early_stop.empty() ? asked.keep_best : asked.early_stop;
  if (!asked.early_stop.empty() && !asked.keep_best.empty() &&
      parse_watched_metric(asked.early_stop).name != parse_watched_metric(asked.keep_best).name)
    throw UsageError(fmt::format(
        "the run is to stop early by \"{}\" but to keep the best model by \"{}\"; name one metric",
        asked.early_stop, asked.keep_best));
  const std::string standard = ranks ? fmt::format("ndcg@{}", criterion.ks.front()) : "loss";
  criterion.watched = parse_watched_metric(wish.empty() ? standard : wish);
  if (criterion.watched.is_loss()) return criterion;
  if (!ranks)
    throw UsageError(
        fmt::format("layer \"{}\": its targets are dense, so there is no \"{}\" to watch; watch "
                    "the loss",
                    layer.name, criterion.watched.name));
  if (std::ranges::find(criterion.ks, criterion.watched.k) == criterion.ks.end())
    criterion.ks.push_back(criterion.watched.k);
  return criterion;
}

EvaluationSettings evaluation_settings(const Validation& validation,
                                       const ValidationCriterion& criterion) {
  EvaluationSettings settings;
  settings.output_layer = validation.output_layer;
  settings.ks = criterion.ks;
  settings.unseen_only = validation.data->unseen_only;
  for (const auto& set : validation.data->seen) settings.also_seen.push_back(set.get());
  return settings;
}

void warn_of_hidden(const Evaluation& evaluation, const Log& log) {
  if (evaluation.hidden == 0) return;
  log.warning(fmt::format(
      "{} units of the validation's targets are in its inputs, too, so nothing can find them; "
      "the targets should be the held-out part alone",
      evaluation.hidden));
}

ValidationReport validation_report(const Evaluation& evaluation, const Validation& validation,
                                   const ValidationCriterion& criterion) {
  ValidationReport report;
  report.cost = evaluation.cost;
  report.metrics = evaluation.metrics;
  report.examples = criterion.ks.empty() ? validation.data->data->examples() : evaluation.examples;
  report.watched = criterion.watched.name;
  report.value = criterion.watched.value_of(report.metrics, report.cost);
  return report;
}

}  // namespace norn
