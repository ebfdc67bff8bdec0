// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cost.h"

#include <limits>
#include <optional>

/// What targets count for when a SoftMax layer has a cross entropy as its loss: cost = sum over the
/// targets of tau * -ln y, where tau is 0 for a target that its margin lets go of.
namespace norn {

/// The 64-bit sums over a row of a SoftMax layer.
struct FixedFormatOfRows {
  static constexpr double unit = 1.0 / double(std::int64_t(1) << CostKernels::row_fraction_bits);
  static constexpr double limit = 0x1p62 * unit;
};

/// The tau of one loss. `unit` is what a row's target of 1 counts for.
struct SoftMaxTargetRule {
  float scale = 1.0f;                                     ///< factor of every tau
  float margin = std::numeric_limits<float>::infinity();  ///< targets count while y is below it
  bool uses_values = true;      ///< whether a stored entry counts for its value, or for 1
  bool divides_boolean = true;  ///< whether an example without weight shares 1 among its targets

  NORN_HD float unit(const SoftMaxCost& rule, const TargetView& target, Index r) const {
    if (!target.weight.empty()) return scale * target.weight[r];
    const bool is_boolean = target.is_sparse && (!uses_values || target.sparse.value == nullptr);
    if (!is_boolean || !divides_boolean || rule.target_weight == TargetWeight::one) return scale;
    const RowOffset stored = target.sparse.row_begin[r + 1] - target.sparse.row_begin[r];
    return stored == 0 ? 0.0f : scale / float(stored);
  }
  NORN_HD float stored(float unit, const StoredTarget& target) const {
    return (uses_values ? unit * target.value : unit) * target.weight;
  }
  /// tau of a dense target: those that do not use values count exact ones only.
  NORN_HD float dense(float unit, float t) const {
    return uses_values ? unit * t : (t == 1.0f ? unit : 0.0f);
  }
  NORN_HD float gated(float y, float tau) const { return y >= margin ? 0.0f : tau; }
};

/// A margin of 1 or more lets go of nothing, not even of a y that rounds to 1.
inline float softmax_margin(float one_target) {
  return one_target >= 1.0f ? std::numeric_limits<float>::infinity() : one_target;
}

/// The rule of a cross entropy; nothing for the other losses.
inline std::optional<SoftMaxTargetRule> softmax_target_rule(const Loss& loss) {
  return std::visit(
      []<typename L>(const L& l) -> std::optional<SoftMaxTargetRule> {
        if constexpr (L::is_cross_entropy) {
          const CrossEntropyTargets targets = l.softmax_targets();
          return SoftMaxTargetRule{.scale = targets.scale,
                                   .margin = softmax_margin(targets.one_target),
                                   .uses_values = targets.uses_values,
                                   .divides_boolean = targets.divides_boolean};
        } else {
          return std::nullopt;
        }
      },
      loss);
}

}  // namespace norn
