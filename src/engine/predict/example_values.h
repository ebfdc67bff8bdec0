// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/metric.h"
#include "src/engine/predict/certainty.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

/// The metrics of single examples, side by side.
namespace norn {

/// A column for each metric that is a mean over examples, and each K: 8 bytes an example.
class ExampleValues {
 public:
  struct Name {
    std::string_view name;   ///< "hit_rate"
    std::string_view title;  ///< "HitRate"
    Index k = 0;
  };
  struct Columns {
    std::vector<Name> names;            ///< by K, then in the order of kMetrics
    std::vector<ExampleColumn> values;  ///< [names][examples], NaN of those that were not added
  };

  /// The same metrics in the same order for every example, of which not all need be told.
  void add(Index example, const MetricsAtK& values);
  /// Of so many examples. What was added is gone.
  Columns take(Index examples);

 private:
  struct Column {
    const MetricInfo* info;
    ExampleColumn values;
  };
  std::map<Index, std::vector<Column>> by_k_;
};

}  // namespace norn
