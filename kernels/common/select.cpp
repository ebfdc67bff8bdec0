// SPDX-License-Identifier: Apache-2.0
// The selection kernels' door: shapes are checked here, once for all devices.
#include "kernels/select.h"

#include "norn/base/error.h"

namespace norn {
namespace {

void require_begun(const TopK& best) {
  require(best.k > 0 && best.score.cols() == best.k && best.unit.cols() == best.k &&
              best.score.rows() == best.count.size() && best.unit.rows() == best.count.size(),
          "select: begin() has not been called for this list");
}

}  // namespace

void SelectKernels::begin(Index rows, Index k, TopK& best) {
  require(rows >= 0 && k > 0, "select: rows must be at least 0 and k at least 1");
  do_begin(rows, k, best);
}

void SelectKernels::merge(MatrixView<const float> score, Index first_unit,
                          const Candidates& candidates, TopK& best) {
  require_begun(best);
  require(score.rows == best.count.size(), "select: scores and list differ in rows");
  require(first_unit >= 0, "select: first_unit is negative");
  require(candidates.excluded.rows == 0 || candidates.excluded.rows == score.rows,
          "select: the excluded lists must be none or one a row");
  require(candidates.allowed.empty() || candidates.allowed.size >= first_unit + score.cols,
          "select: the allowed list ends before the block does");
  do_merge_scores(score, first_unit, candidates, best);
}

void SelectKernels::multiply(const CsrView& factors, Index first_unit, MatrixView<float> score) {
  require(factors.rows == score.rows && factors.value != nullptr,
          "select: the factors must be one list with values a row");
  require(first_unit >= 0, "select: first_unit is negative");
  do_multiply(factors, first_unit, score);
}

void SelectKernels::merge(const TopK& other, TopK& best) {
  require_begun(other);
  require_begun(best);
  require(other.count.size() == best.count.size(), "select: the lists differ in rows");
  do_merge_lists(other, best);
}

}  // namespace norn
