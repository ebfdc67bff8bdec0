// SPDX-License-Identifier: Apache-2.0
// Where the stored targets of an output layer's blocks are.
#include "src/step/target_runs.h"

#include <algorithm>

namespace norn {
namespace {

constexpr Index kMostNumbers = Index(1) << 22;  // 16 MB, of which a part stays in a GPU's cache

}  // namespace

TargetRuns::TargetRuns(Range units, Index block_width, Index batch)
    : units_(units), block_width_(block_width), batch_(batch) {}

// Runs of a block that does not end with one belong to it alone.
bool TargetRuns::blocks_are_runs() const {
  return block_width_ % ColumnRuns::kWidth == 0 || block_width_ >= units_.count();
}

bool TargetRuns::fits_at_once() const {
  return blocks_are_runs() && ColumnRuns::size(batch_, units_.count()) <= kMostNumbers;
}

Index TargetRuns::units_at_once() const {
  if (fits_at_once()) return units_.count();
  if (!blocks_are_runs()) return block_width_;
  const Index of_block = block_width_ / ColumnRuns::kWidth * ColumnRuns::stride_of(batch_);
  return std::max<Index>(1, kMostNumbers / of_block) * block_width_;
}

Index TargetRuns::planned_numbers() const {
  return ColumnRuns::size(batch_, units_at_once()) * (fits_at_once() ? 2 : 1);
}

void TargetRuns::begin(const Compute& compute, const CsrView& targets) {
  const Kernels& kernels = compute.kernels;
  Buffer<int>& workspace = workspace_[turn_];
  if (workspace.empty())
    workspace = Buffer<int>(ColumnRuns::size(batch_, units_at_once()), *kernels.prefetch_memory);
  targets_ = targets;
  runs_ = {};
  if (!fits_at_once()) return;
  turn_ = 1 - turn_;
  runs_ = kernels.prefetch_batch->find_runs(targets, units_, workspace.view());
}

const ColumnRuns& TargetRuns::find(const Compute& compute, Range block) {
  if (!runs_.cover(block)) {
    const Range units{block.begin, std::min(units_.end, block.begin + units_at_once())};
    runs_ = compute.kernels.batch->find_runs(targets_, units, workspace_[turn_].view());
  }
  return runs_;
}

}  // namespace norn
