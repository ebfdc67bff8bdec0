// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_table.h"
#include "norn/engine/metric.h"

#include <cstdint>
#include <vector>

/// How well units are ranked.
namespace norn {

/// What the units of an example that are already known mean for its ranking.
enum class SeenUnits {
  leave_out,  ///< those of sparse inputs as wide as the held-out set are never recommended
  keep
};

/// How often examples of one class were taken for another: the unit that is ranked first is what an
/// example is taken for.
struct ConfusionMatrix {
  Index classes = 0;
  std::vector<std::int64_t> counts;  ///< [classes x classes], a row for each true class
  LabelTable labels;                 ///< of the classes, where they are known
};

struct Evaluation {
  std::vector<MetricsAtK> metrics;
  Index units = 0;     ///< that are ranked: the catalogue, or those that were named
  Index examples = 0;  ///< with held-out units
  Index skipped = 0;   ///< without
  Index hidden = 0;    ///< held-out units that are left out as seen: nothing can recommend them
  double cost = 0.0;   ///< mean over all examples, summed over units
};

}  // namespace norn
