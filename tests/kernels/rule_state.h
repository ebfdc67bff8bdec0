// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/update.h"
#include "tests/kernels/samples.h"

#include <cmath>
#include <vector>

namespace norn::samples {

/// As many state arrays as any rule has, all of the magnitudes of a matrix.
struct RuleState {
  explicit RuleState(const PaddedMatrix<float>& like) : slot(std::size_t(kMostSlots), like) {
    for (auto& m : slot)
      for (Index r = 0; r < m.rows(); ++r)
        for (Index c = 0; c < m.cols(); ++c) m(r, c) = std::abs(m(r, c));
  }
  SlotViews views() {
    SlotViews all;
    for (std::size_t s = 0; s < all.size(); ++s) all[s] = slot[s].view();
    return all;
  }
  SlotViews columns(Index first, Index count) {
    SlotViews all = views();
    for (MatrixView<float>& view : all) view = view.columns(first, count);
    return all;
  }
  bool same_bits(const RuleState& other) const {
    bool same = true;
    for (std::size_t s = 0; s < slot.size(); ++s) same = same && slot[s].same_bits(other.slot[s]);
    return same;
  }
  std::vector<PaddedMatrix<float>> slot;
};

}  // namespace norn::samples
