// SPDX-License-Identifier: Apache-2.0
// Row-wise updates of a sparse source's weights: only the rows of a batch are visited, and a row
// that was left alone goes through the steps that it missed first. The bits are those of an update
// of all rows at every step.

#include "kernels/cpu/rule_run.h"
#include "kernels/cpu/sparse_parts.h"
#include "norn/base/error.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace norn {
namespace {

/// Touched rows between the one that is fetched and the one that is updated.
constexpr Index kPrefetchDistance = 4;

/// Weights that are put through missed steps at a time: what stays in registers.
constexpr Index kReplayRun = 64;
/// Steps between two looks at whether anything still changes.
constexpr std::int64_t kLook = 32;

/// Copies of a run of weights and their state, filled up with zeros.
template <typename Rule>
struct RunCopy {
  alignas(64) float w[kReplayRun] = {};
  alignas(64) std::array<std::array<float, kReplayRun>, std::size_t(Rule::slots)> slot = {};

  void load(Index count, const float* from_w, const SlotRuns<Rule>& from_slot) {
    std::copy_n(from_w, count, w);
    for (std::size_t s = 0; s < slot.size(); ++s) std::copy_n(from_slot[s], count, slot[s].begin());
  }
  void store(Index count, float* to_w, const SlotRuns<Rule>& to_slot) const {
    std::copy_n(w, count, to_w);
    for (std::size_t s = 0; s < slot.size(); ++s) std::copy_n(slot[s].begin(), count, to_slot[s]);
  }
  SlotRuns<Rule> slots() {
    SlotRuns<Rule> at;
    for (std::size_t s = 0; s < slot.size(); ++s) at[s] = slot[s].data();
    return at;
  }
  bool has_state() const {
    bool any = false;
    for (const auto& one : slot)
      for (Index j = 0; j < kReplayRun; ++j) any = any | (one[std::size_t(j)] != 0.0f);
    return any;
  }
};

bool is_regularised(const StepTable& table) {
  return table.schedule.l1 != 0.0f || table.schedule.l2 != 0.0f;
}

/// Puts `count` <= kReplayRun weights through steps [from, to) without gradient.
template <typename Rule>
void replay(const Rule& rule, const StepTable& table, std::int64_t from, std::int64_t to,
            Index count, float* w, const SlotRuns<Rule>& slot) {
  const bool regularised = is_regularised(table);
  alignas(64) static constexpr float kNoGradient[kReplayRun] = {};
  RunCopy<Rule> run, before;
  run.load(count, w, slot);
  for (std::int64_t t = from; t < to; ++t) {
    const bool look = !regularised && Rule::idles_alike && (t - from) % kLook == kLook - 1;
    if (look) before = run;
    step_run(rule, table.at(t), kReplayRun, run.w, kNoGradient, run.slots());
    // A row that no batch has touched yet comes to rest here.
    if (!regularised && t == from && !run.has_state()) break;
    // The bits are what must have stopped changing.
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    if (look && std::memcmp(&before, &run, sizeof run) == 0) break;
  }
  run.store(count, w, slot);
}

/// Puts weights [first, first + count) of a row through the steps that it missed.
template <typename Rule>
void replay_row(const Rule& rule, const StepTable& table, std::int64_t from, std::int64_t to,
                const RowState& rows, Index row, Index first, Index count) {
  if (from >= to || (Rule::rests_without_gradient && !is_regularised(table))) return;
  for (Index j = first; j < first + count; j += kReplayRun)
    replay(rule, table, from, to, std::min(kReplayRun, first + count - j), rows.w.row(row) + j,
           slots_at<Rule>(rows.slot, row, j));
}

/// Fetches a run of a row and its state.
[[gnu::always_inline]] inline void fetch(const RowState& rows, int slots, Index row, Index first,
                                         Index count) {
  row_sum::prefetch_to_write(rows.w.row(row) + first, count);
  for (std::size_t s = 0; s < std::size_t(slots); ++s)
    row_sum::prefetch_to_write(rows.slot[s].row(row) + first, count);
}

/// One batch's step for a run of its units.
template <typename Rule>
struct TouchedRows {
  const Rule& rule;
  const StepTable& table;
  std::int64_t step;
  const TransposedBatch& xt;
  MatrixView<const float> delta;
  float scale;
  const RowState& rows;

  void update(Index begin, Index end) const {
    const UpdateStep now = table.at(step);
    for (Index t = begin; t < end; ++t) {
      const Index row = Index(xt.unit.data()[t]);
      const Index next =
          t + kPrefetchDistance < end ? Index(xt.unit.data()[t + kPrefetchDistance]) : row;
      const std::int64_t done = rows.steps_done[row];
      if (done > step)
        throw ShapeError(
            fmt::format("sparse update_rows: row {} has been through {} steps, but step {} was "
                        "asked for; update a batch once, then mark_done",
                        row, done, step));
      for (Index first = 0; first < rows.w.cols; first += kRowRun) {
        const Index count = std::min(kRowRun, rows.w.cols - first);
        fetch(rows, Rule::slots, next, first, count);
        float g[kRowRun];
        unit_gradient(xt, t, delta, scale, first, count, g);
        replay_row(rule, table, done, step, rows, row, first, count);
        step_run(rule, now, count, rows.w.row(row) + first, g,
                 slots_at<Rule>(rows.slot, row, first));
      }
    }
  }
};

}  // namespace

void update_touched_rows(Executor& executor, StepTables& tables, const UpdateRule& rule,
                         const UpdateSchedule& schedule, std::int64_t step,
                         const TransposedBatch& xt, MatrixView<const float> delta, float scale,
                         const RowState& rows) {
  const std::shared_ptr<const StepTable> table = tables.up_to(rule, schedule, step);
  // Reading and writing a row and its state takes as long as adding a few examples.
  const Index unit_cost = 4 * (1 + slots_of(rule));
  std::visit(
      [&](const auto& r) {
        const TouchedRows<std::remove_cvref_t<decltype(r)>> touched{r,     *table, step, xt,
                                                                    delta, scale,  rows};
        for_balanced_units(executor, xt, delta.cols, unit_cost,
                           [&](Index begin, Index end) { touched.update(begin, end); });
      },
      rule);
}

void catch_up_rows(Executor& executor, StepTables& tables, const UpdateRule& rule,
                   const UpdateSchedule& schedule, std::int64_t step, const Column* listed,
                   Index count, const RowState& rows) {
  const std::shared_ptr<const StepTable> table = tables.up_to(rule, schedule, step);
  const Index chunk = std::max<Index>(1, 16384 / std::max<Index>(1, rows.w.cols));
  executor.for_ranges(count, chunk, [&](Index begin, Index end, int) {
    std::visit(
        [&](const auto& r) {
          for (Index i = begin; i < end; ++i) {
            const Index row = listed ? Index(listed[i]) : i;
            if (rows.steps_done[row] >= step) continue;
            replay_row(r, *table, rows.steps_done[row], step, rows, row, 0, rows.w.cols);
            rows.steps_done[row] = step;
          }
        },
        rule);
  });
}

}  // namespace norn
