// SPDX-License-Identifier: Apache-2.0
// The list of metrics, for those who cannot read C++.
#include "norn/engine/metric.h"

#include "src/nn/json_value.h"

namespace norn {
namespace {

// Every metric says what it is, and none is called as another.
constexpr bool are_told_apart() {
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    const MetricInfo& one = kMetrics[i];
    if (one.name.empty() || one.title.empty() || one.help.empty()) return false;
    for (const MetricInfo& other : kMetrics.subspan(i + 1))
      if (one.name == other.name || one.title == other.title) return false;
  }
  return true;
}
static_assert(are_told_apart(), "a metric has no name, title or help, or those of another");

}  // namespace

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const MetricInfo& metric : kMetrics)
    if (metric.use == MetricUse::always) names.emplace_back(metric.name);
  return names;
}

std::string metric_reference_json() {
  JsonValue list = JsonValue::array();
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    const MetricInfo& metric = kMetrics[i];
    if (metric.use != MetricUse::always) continue;
    JsonValue one = JsonValue::object();
    one.set("name", std::string(metric.name)).set("title", std::string(metric.title));
    one.set("chart", std::string(metric.chart.empty() ? metric.title : metric.chart));
    one.set("better", metric.better == Better::larger ? "larger" : "smaller");
    one.set("most", metric.most).set("mean", kAreMeans[i]);
    list.push(one.set("help", std::string(metric.help)));
  }
  return list.text();
}

}  // namespace norn
