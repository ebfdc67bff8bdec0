// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/metric.h"

#include <vector>

/// How well units are ranked.
namespace norn {

/// What the units of an example that are already known mean for its ranking.
enum class SeenUnits {
  leave_out,  ///< those of sparse inputs as wide as the held-out set are never recommended
  keep
};

struct Evaluation {
  std::vector<MetricsAtK> metrics;
  Index units = 0;     ///< size of the catalogue
  Index examples = 0;  ///< with held-out units
  Index skipped = 0;   ///< without
  Index hidden = 0;    ///< held-out units that are left out as seen: nothing can recommend them
  double cost = 0.0;   ///< mean over all examples, summed over units
};

}  // namespace norn
