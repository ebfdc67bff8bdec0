// SPDX-License-Identifier: Apache-2.0
// Metrics of held-out units.
#include "norn/run/evaluate.h"
#include "python/src/arrays.h"
#include "python/src/data.h"
#include "python/src/model.h"
#include "python/src/parts.h"
#include "python/src/reports.h"
#include "src/engine/predict/certainty.h"
#include "src/engine/predict/example_values.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {
namespace {

// By names such as "ndcg@10".
nb::dict arrays(ExampleValues::Columns columns) {
  nb::dict all;
  for (std::size_t c = 0; c < columns.names.size(); ++c) {
    const std::size_t examples = columns.values[c].size();
    all[fmt::format("{}@{}", columns.names[c].name, columns.names[c].k).c_str()] =
        array_of(std::move(columns.values[c]), {examples});
  }
  return all;
}

// Names of metrics that only who asks gets, and what psp needs.
using AskedMetrics = std::pair<std::vector<std::string>, std::optional<std::pair<double, double>>>;

nb::dict evaluate(HeldModel& model, const nb::list& sets, const std::vector<Index>& top,
                  const std::string& layer, bool keep_seen, bool per_example, bool confusion,
                  const AskedMetrics& also, const MemorySet* trained_on,
                  const std::optional<Vector<std::uint8_t>>& allowed) {
  run::EvaluateOptions options;
  options.sets = sets_of(sets);
  options.top = top;
  options.layer = layer;
  options.seen = keep_seen ? SeenUnits::keep : SeenUnits::leave_out;
  options.confusion = confusion;
  options.also = also.first;
  if (trained_on) options.trained_on = *trained_on;
  options.propensity = also.second;
  if (allowed) options.allowed = {allowed->data(), allowed->size()};
  SignalCheck check;
  Index examples = 0;
  options.on_batch = [&](Index, Index of) {
    examples = of;
    check();
  };
  ExampleValues of_examples;
  if (per_example)
    options.on_example = [&](std::string_view, Index example, const MetricsAtK& values) {
      of_examples.add(example, values);
    };
  run::EvaluationReport whole =
      model.with([&](run::Model& m) { return run::evaluate(m, options); });
  nb::dict report = dictionary_of(whole.model);
  if (per_example) report["per_example"] = arrays(of_examples.take(examples));
  if (whole.confusion) {
    const auto classes = std::size_t(whole.confusion->classes);
    report["confusion"] = array_of(std::move(whole.confusion->counts), {classes, classes});
  }
  return report;
}

using Values = std::vector<Vector<double>>;

std::vector<ExampleColumn> columns_of(const Values& values) {
  std::vector<ExampleColumn> columns;
  for (const Vector<double>& one : values)
    columns.emplace_back(one.data(), one.data() + one.shape(0));
  return columns;
}

using Ends = std::pair<double, double>;

std::vector<Ends> intervals(const Values& values, double level, Index resamples,
                            std::uint64_t seed) {
  const std::vector<ExampleColumn> columns = columns_of(values);
  const nb::gil_scoped_release release;
  std::vector<Ends> found;
  for (const Interval& one : mean_intervals(columns, {level, resamples, seed}))
    found.emplace_back(one.low, one.high);
  return found;
}

using Found = std::tuple<double, double, double, double, double, int>;

std::vector<Found> differences(const Values& a, const Values& b, double level, Index resamples,
                               std::uint64_t seed) {
  const std::vector<ExampleColumn> ours = columns_of(a), theirs = columns_of(b);
  const nb::gil_scoped_release release;
  std::vector<Found> found;
  for (const Difference& one : paired_differences(ours, theirs, {level, resamples, seed}))
    found.emplace_back(one.a, one.b, one.interval.low, one.interval.high, one.p, one.better);
  return found;
}

}  // namespace

void add_evaluation(nb::module_& m) {
  m.def("evaluate", &evaluate, "model"_a, "sets"_a, "top"_a, "layer"_a = "", "keep_seen"_a = false,
        "per_example"_a = false, "confusion"_a = false, "also"_a = AskedMetrics(),
        "trained_on"_a.none() = nb::none(), "allowed"_a.noconvert().none() = nb::none(),
        "The metrics of lists of these lengths.");
  m.def("mean_intervals", &intervals, "values"_a, "level"_a, "resamples"_a, "seed"_a,
        "(low, high) of the mean of each array [examples], by a bootstrap over the examples.");
  m.def(
      "paired_differences", &differences, "a"_a, "b"_a, "level"_a, "resamples"_a, "seed"_a,
      "(a, b, low, high, p, better) of each pair of arrays [examples]: both means, an interval of "
      "b - a, how often chance brings as much, and -1, 1 or 0: a, b or neither is better.");
  m.def("metric_names", &metric_names, "Metrics that there are.");
}

}  // namespace norn::python
