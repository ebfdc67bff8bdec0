// SPDX-License-Identifier: Apache-2.0
// Metrics of held-out units.
#include "norn/run/evaluate.h"
#include "python/src/arrays.h"
#include "python/src/data.h"
#include "python/src/model.h"
#include "python/src/parts.h"
#include "python/src/reports.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {
namespace {

// The metrics of each example: columns by name, NaN for examples that have none.
class ExampleMetrics {
 public:
  // The same metrics in the same order for every example, of which not all need be told.
  void add(Index example, const MetricsAtK& values) {
    auto& columns = by_k_[values.k];
    std::size_t at = 0;
    values.for_each(
        [&](const MetricInfo& info, double value) {
          if (at == columns.size()) columns.push_back({info.name, {}});
          std::vector<double>& column = columns[at++].second;
          column.resize(std::max(column.size(), std::size_t(example) + 1), kNone);
          column[std::size_t(example)] = value;
        },
        MetricUse::weighted);
  }

  // Without those that are no means over examples.
  nb::dict arrays(std::size_t examples) {
    nb::dict all;
    for (auto& [k, columns] : by_k_)
      for (auto& [name, column] : columns) {
        if (std::ranges::all_of(column, [](double value) { return std::isnan(value); })) continue;
        column.resize(examples, kNone);
        all[fmt::format("{}@{}", name, k).c_str()] = array_of(std::move(column), {examples});
      }
    return all;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::map<Index, std::vector<std::pair<std::string_view, std::vector<double>>>> by_k_;
};

nb::dict evaluate(HeldModel& model, const nb::list& sets, const std::vector<Index>& top,
                  const std::string& layer, bool keep_seen, bool per_example, bool confusion) {
  run::EvaluateOptions options;
  options.sets = sets_of(sets);
  options.top = top;
  options.layer = layer;
  options.seen = keep_seen ? SeenUnits::keep : SeenUnits::leave_out;
  options.confusion = confusion;
  SignalCheck check;
  Index examples = 0;
  options.on_batch = [&](Index, Index of) {
    examples = of;
    check();
  };
  ExampleMetrics of_examples;
  if (per_example)
    options.on_example = [&](std::string_view, Index example, const MetricsAtK& values) {
      of_examples.add(example, values);
    };
  run::EvaluationReport whole =
      model.with([&](run::Model& m) { return run::evaluate(m, options); });
  nb::dict report = dictionary_of(whole.model);
  if (per_example) report["per_example"] = of_examples.arrays(std::size_t(examples));
  if (whole.confusion) {
    const auto classes = std::size_t(whole.confusion->classes);
    report["confusion"] = array_of(std::move(whole.confusion->counts), {classes, classes});
  }
  return report;
}

}  // namespace

void add_evaluation(nb::module_& m) {
  m.def("evaluate", &evaluate, "model"_a, "sets"_a, "top"_a, "layer"_a = "", "keep_seen"_a = false,
        "per_example"_a = false, "confusion"_a = false, "The metrics of lists of these lengths.");
  m.def("metric_names", &metric_names, "Metrics that there are.");
}

}  // namespace norn::python
