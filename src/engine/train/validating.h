// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/predict/evaluator.h"
#include "src/engine/train/trainer.h"
#include "src/engine/train/watched_metric.h"

#include <vector>

/// Evaluating what is held back of a run's data, while it is made or after it.
namespace norn {

/// What a validation counts, and what of it decides which model is the best.
struct ValidationCriterion {
  std::vector<Index> ks;  ///< none: targets that are dense have no ranking
  WatchedMetric watched;
};

/// Throws UsageError when the data do not have the metric.
ValidationCriterion validation_criterion(const NetworkDescriptor& network,
                                         const Validation& validation);

/// For evaluate() of what is held back.
EvaluationSettings evaluation_settings(const Validation& validation,
                                       const ValidationCriterion& criterion);

/// Where targets are in the inputs, too.
void warn_of_hidden(const Evaluation& evaluation, const Log& log);

/// What the evaluation came to, without where it stands in a run.
ValidationReport validation_report(const Evaluation& evaluation, const Validation& validation,
                                   const ValidationCriterion& criterion);

}  // namespace norn
