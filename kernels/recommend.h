// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/dense.h"
#include "kernels/select.h"

#include <algorithm>

/// The best units of an output layer without its scores: products that are compared where they are
/// made. A device may have them for some shapes; callers fall back to writing the scores block by
/// block.
namespace norn {

/// Units of an output layer on their way from the activations before them to the best ones.
struct ScoredUnits {
  DenseOperand x;                ///< [B x N]
  DenseOperand w;                ///< [W x N]
  VectorView<const float> bias;  ///< [W]
  Index first = 0;               ///< number of the first one in its layer
};

/// What a GPU's search takes: lists of so many units, and for each example space for candidates, as
/// keys of 8 bytes.
struct SearchSize {
  static constexpr Index kLongest = 1024;
  static constexpr Index capacity(Index k) { return std::max<Index>(1024, 8 * k); }
};

class RecommendKernels {
 public:
  virtual ~RecommendKernels() = default;
  /// Whether find() takes such operands and lists of k, and it pays for a layer of `units` units,
  /// of which `w` may be a part.
  virtual bool fits(const DenseOperand& x, const DenseOperand& w, Index units, Index k) const = 0;
  /// Fills `best`, which has just been begun, with the units of the highest pre-activations
  /// x * w^T + bias, as SelectKernels::merge would from all of them. *gave_up becomes 1, and the
  /// lists are void, for scores that mostly rise with the unit or candidates that are mostly
  /// forbidden; it is never cleared.
  virtual void find(const ScoredUnits& units, const Candidates& candidates, TopK& best,
                    std::int64_t* gave_up) = 0;
  /// The activation may map different pre-activations to one score, or, being rounded, put close
  /// ones in another order: `best`, chosen by score from the longer lists `found`, is certain where
  /// its last score leads that of found's last unit by more than the rounding, or `found` has all
  /// candidates. *gave_up becomes 1 where neither holds.
  virtual void check_lead(const TopK& found, const TopK& best, std::int64_t* gave_up) = 0;
};

}  // namespace norn
