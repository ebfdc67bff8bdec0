// SPDX-License-Identifier: Apache-2.0
// The index of sparse rows by runs of columns.
#include "kernels/cuda/elements/search.h"
#include "kernels/cuda/sparse/column_runs.h"

#include <algorithm>

namespace norn::cuda {
namespace {

constexpr int kThreads = 128;

/// A thread has one row of some runs.
__global__ void __launch_bounds__(kThreads)
    find_runs_kernel(const CsrView x, const ColumnRuns runs, Index starts, Index starts_a_thread,
                     int* begins) {
  const Index row = Index(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= runs.stride) return;
  const RowOffset begin = row < x.rows ? x.row_begin[row] : 0;
  const RowOffset end = row < x.rows ? x.row_begin[row + 1] : 0;
  const auto column_at = [&](RowOffset i) { return i < end ? Index(x.column[i]) : Index(-1); };
  const auto start_of = [&](Index run) {
    return min(runs.columns.begin + run * ColumnRuns::kWidth, runs.columns.end);
  };
  for (Index first = Index(blockIdx.y) * starts_a_thread; first < starts;
       first += Index(gridDim.y) * starts_a_thread) {
    const Index last = min(first + starts_a_thread, starts);
    RowOffset entry = lower_bound(x.column, begin, end, start_of(first));
    Index next = column_at(entry);
    for (Index run = first; run < last; ++run) {
      const Index column = start_of(run);
      if (next >= 0 && next < column) {
        entry = lower_bound(x.column, entry + 1, end, column);
        next = column_at(entry);
      }
      begins[run * runs.stride + row] = int(entry - begin);
    }
  }
}

}  // namespace

void find_column_runs(const Stream& stream, const CsrView& x, const ColumnRuns& runs, int* begin) {
  const Index starts = ColumnRuns::runs_of(runs.columns.count()) + 1;
  // Few rows and runs: as many threads as there are, for none to have much to do.
  constexpr Index kWanted = 65536;
  const Index each = std::clamp<Index>(starts * runs.stride / kWanted, 1, 8);
  const dim3 grid(blocks_for(runs.stride, kThreads, runs.stride),
                  blocks_for(starts, int(each), Index(65535)));
  find_runs_kernel<<<grid, kThreads, 0, stream.stream>>>(x, runs, starts, each, begin);
  check_launch("find_runs");
}

}  // namespace norn::cuda
