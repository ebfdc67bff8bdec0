// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_index.h"
#include "tools/prediction/prediction_writer.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>

/// The forms of predictions as text: what becomes of one example.
namespace norn::tools {

class PredictionLines {
 public:
  virtual ~PredictionLines() = default;
  /// Appends the lines of an example with its units, best first, their scores and, if there is any,
  /// what explains each.
  virtual void add_ranked(std::string_view example, std::span<const Index> units,
                          std::span<const float> scores, std::span<const Explanation> why,
                          std::string& text) const = 0;
  /// Appends the line of an example with the values of a layer.
  virtual void add_values(std::string_view example, std::span<const float> values,
                          std::string& text) const = 0;
};

/// Throws UsageError naming one of the first `count` labels that has a separator of
/// TextForm::dsstne in it, so that nobody could take its lines apart.
void require_plain_labels(const LabelIndex& units, Index count);

/// Without an index units are written as numbers; the index must outlive this.
std::unique_ptr<PredictionLines> make_prediction_lines(TextForm form, const ScoreFormat& format,
                                                       const LabelIndex* units,
                                                       std::vector<InputUnits> inputs = {});

}  // namespace norn::tools
