// SPDX-License-Identifier: Apache-2.0
#include "python/src/reports.h"

#include <cmath>

#include <fmt/format.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace norn::python {

nb::dict dictionary_of(const run::RunBeginning& report) {
  nb::dict all;
  all["epochs"] = report.epochs;
  all["examples"] = report.examples;
  all["first_examples"] = report.first_examples;
  return all;
}

nb::dict dictionary_of(const StepReport& report) {
  nb::dict all;
  all["step"] = report.step;
  all["epoch"] = report.epoch + 1;
  all["batch"] = report.batch;
  all["batches"] = report.batches;
  all["examples"] = report.examples;
  all["cost"] = report.cost;
  all["seconds"] = report.seconds;
  return all;
}

nb::dict dictionary_of(const EpochReport& report) {
  nb::dict all;
  all["epoch"] = report.epoch;
  all["epochs"] = report.epochs;
  all["step"] = report.step;
  all["rate"] = report.rate;
  all["cost"] = report.training_cost;
  all["regularization"] = report.regularization_cost;
  all["seconds"] = report.seconds;
  all["examples"] = report.examples;
  return all;
}

nb::dict dictionary_of(std::span<const MetricsAtK> metrics) {
  nb::dict all;
  for (const MetricsAtK& at : metrics)
    at.for_each(
        [&](const MetricInfo& info, double value) {
          if (!std::isnan(value)) all[fmt::format("{}@{}", info.name, at.k).c_str()] = value;
        },
        MetricUse::asked);
  return all;
}

nb::dict dictionary_of(const ValidationReport& report) {
  nb::dict all;
  all["epoch"] = report.epoch;
  all["step"] = report.step;
  all["cost"] = report.cost;
  all["metrics"] = dictionary_of(report.metrics);
  all["examples"] = report.examples;
  all["watched"] = report.watched;
  all["value"] = report.value;
  all["best"] = report.best;
  all["since_best"] = report.since_best;
  all["seconds"] = report.seconds;
  return all;
}

nb::dict dictionary_of(const Evaluation& evaluation) {
  nb::dict all;
  all["metrics"] = dictionary_of(evaluation.metrics);
  all["cost"] = evaluation.cost;
  all["units"] = evaluation.units;
  all["examples"] = evaluation.examples;
  all["skipped"] = evaluation.skipped;
  all["hidden"] = evaluation.hidden;
  return all;
}

}  // namespace norn::python
