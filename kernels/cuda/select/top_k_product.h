// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/select/select_key.h"
#include "kernels/select.h"
#include "src/base/bfloat16.h"

/// The best units of a wide last layer, whose scores are compared where they are made and never
/// written.
namespace norn::cuda {

class TopKProduct {
 public:
  explicit TopKProduct(const Stream& stream)
      : stream_(stream), candidates_(stream.memory), counts_(stream.memory) {}

  /// Whether find() takes such operands on the current device: a Hopper, bfloat16 with rows at
  /// multiples of 16 bytes, up to 256 wide; lists of up to 1024.
  static bool fits(MatrixView<const Bfloat16> x, MatrixView<const Bfloat16> w, Index k);

  /// Fills `best`, which has just been begun, from the scores x * w^T + bias of units [first_unit,
  /// first_unit + units). Scores of NaN are never chosen.
  ///   x [B x width],  w [units x width],  bias [units] or empty
  /// *gave_up becomes 1, and the lists are void, when a list could not be filled from the first few
  /// thousand units, or when too many of the later ones beat it: scores that mostly rise with the
  /// unit, or most units forbidden. Then the scores have to be written and merged block by block.
  /// It is never cleared.
  void find(MatrixView<const Bfloat16> x, MatrixView<const Bfloat16> w,
            VectorView<const float> bias, Index first_unit, const Candidates& candidates,
            TopK& best, std::int64_t* gave_up);

 private:
  Stream stream_;
  Workspace<Key> candidates_;
  Workspace<int> counts_;
};

}  // namespace norn::cuda
