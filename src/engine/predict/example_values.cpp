// SPDX-License-Identifier: Apache-2.0
// Columns of the metrics of examples.
#include "src/engine/predict/example_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace norn {
namespace {
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

static_assert(std::ranges::all_of(kMetrics,
                                  [](const MetricInfo& info) {
                                    return info.better == Better::larger;
                                  }),
              "Comparison.better of python/norn/_comparison.py takes more for better");
}  // namespace

void ExampleValues::add(Index example, const MetricsAtK& values) {
  auto& columns = by_k_[values.k];
  std::size_t at = 0;
  values.for_each(
      [&](const MetricInfo& info, double value) {
        if (at == columns.size()) columns.push_back({&info, {}});
        ExampleColumn& column = columns[at++].values;
        column.resize(std::max(column.size(), std::size_t(example) + 1), kNone);
        column[std::size_t(example)] = value;
      },
      MetricUse::asked);
}

ExampleValues::Columns ExampleValues::take(Index examples) {
  Columns all;
  for (auto& [k, columns] : by_k_)
    for (auto& [info, values] : columns) {
      if (std::ranges::all_of(values, [](double value) { return std::isnan(value); })) continue;
      values.resize(std::size_t(examples), kNone);
      all.names.push_back({info->name, info->title, k});
      all.values.push_back(std::move(values));
    }
  by_k_.clear();
  return all;
}

}  // namespace norn
