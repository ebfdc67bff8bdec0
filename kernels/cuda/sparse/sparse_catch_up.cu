// SPDX-License-Identifier: Apache-2.0
// Rows of a sparse source's weights that are put through the steps that they missed.
#include "kernels/cuda/sparse/missed_steps.cuh"
#include "kernels/cuda/sparse/sparse_units.cuh"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;

/// The rows that a kernel goes through: those of a batch, or all.
struct RowsToVisit {
  const Column* unit;      // null: all rows
  const RowOffset* begin;  // of the batch
  Index count;

  /// Whether row number i of the list exists; none follow one that does not.
  __device__ bool has(Index i) const {
    return i < count && (unit == nullptr || begin[i] < begin[i + 1]);
  }
  __device__ Index row(Index i) const { return unit == nullptr ? i : Index(unit[i]); }
};

RowsToVisit rows_to_visit(const TransposedBatch* xt, Index rows) {
  if (xt == nullptr) return {nullptr, nullptr, rows};
  return {xt->unit.data(), xt->begin.data(), xt->touched};
}

template <int kWidth, class Rule>
struct Replay {
  Rule rule;
  StepSettings settings;
  bool regularised;
  std::int64_t step;
  MatrixView<float> w;
  SlotMatrices<Rule> slot;
  const std::int64_t* steps_done;
};

template <int kWidth, class Rule>
__device__ void replay_row(const Replay<kWidth, Rule>& missed, Index row, std::int64_t done,
                           LaneColumn at) {
  Weights<kWidth, Rule> weights = {};
  weights.w = load_lane<kWidth>(missed.w.row(row) + at.column);
  weights.load_state(
      [&](int s) { return load_lane<kWidth>(missed.slot.of[s].row(row) + at.column); });
  replay(missed.rule, missed.settings, missed.regularised, done, missed.step, weights);
  if (!at.active) return;
  store_lane<kWidth>(missed.w.row(row) + at.column, weights.w);
  weights.store_state([&](int s, const Lane<kWidth>& lane) {
    store_lane<kWidth>(missed.slot.of[s].row(row) + at.column, lane);
  });
}

/// Rows of the list that a warp looks at together, one a lane: most need nothing.
constexpr int kLook = 8;

/// A lane's row and the steps that it has been through; `step` for lanes without a row.
struct LookedAt {
  Index row;
  std::int64_t done;
};
template <class Missed>
__device__ LookedAt look_at(const RowsToVisit& list, Index turn, const Missed& missed) {
  const int lane = int(threadIdx.x % kWarp);
  const Index i = turn * kLook + lane;
  if (lane >= kLook || !list.has(i)) return {0, missed.step};
  const Index row = list.row(i);
  return {row, missed.steps_done[row]};
}

/// What a turn needs is looked up while the one before it is worked on.
template <int kWidth, class Rule>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    replay_rows(RowsToVisit list, Index slices, Replay<kWidth, Rule> missed) {
  UnitTurn turn(slices);
  LookedAt next = look_at(list, turn.unit, missed);
  while (list.has(Index(turn.unit) * kLook)) {
    const LookedAt here = next;
    const LaneColumn at = lane_column<kWidth>(turn.slice, missed.w.cols);
    turn.advance();
    next = look_at(list, turn.unit, missed);
    for (unsigned lagging = __ballot_sync(kAllLanes, here.done < missed.step); lagging != 0;
         lagging &= lagging - 1) {
      const int k = __ffs(int(lagging)) - 1;
      replay_row(missed, __shfl_sync(kAllLanes, here.row, k), __shfl_sync(kAllLanes, here.done, k),
                 at);
    }
  }
}

/// steps_done of the listed rows becomes `steps`; those that are further stay there if asked to.
__global__ void record_steps(RowsToVisit list, std::int64_t steps, bool only_forward,
                             std::int64_t* steps_done) {
  for (Index i = blockIdx.x * Index(kThreads) + threadIdx.x; list.has(i);
       i += gridDim.x * Index(kThreads)) {
    std::int64_t& done = steps_done[list.row(i)];
    if (!only_forward || done < steps) done = steps;
  }
}

void launch_record_steps(const Stream& stream, const RowsToVisit& list, std::int64_t steps,
                         bool only_forward, std::int64_t* steps_done) {
  if (list.count == 0) return;
  const unsigned blocks = blocks_for(list.count, kThreads, 16 * Index(stream.multiprocessors));
  record_steps<<<blocks, kThreads, 0, stream.stream>>>(list, steps, only_forward, steps_done);
  check_launch("record_steps");
}

template <int kWidth, class Rule>
void launch_replay(const Stream& stream, const RowsToVisit& list, const Rule& rule,
                   const StepSettings& settings, std::int64_t step, const RowState& rows) {
  const Index slices = slices_of<kWidth>(rows.w.cols);
  const Index turns = (list.count + kLook - 1) / kLook * slices;
  const unsigned blocks = blocks_for(turns, kRowWarps, 16 * Index(stream.multiprocessors));
  replay_rows<kWidth, Rule><<<blocks, kRowWarps * kWarp, 0, stream.stream>>>(
      list, slices,
      {rule, settings, settings.regularised(), step, rows.w, SlotMatrices<Rule>(rows.slot),
       rows.steps_done.data});
  check_launch("replay_rows");
}

template <class Rule>
void replay_with(const Stream& stream, SparseWorkspace& workspace, const Rule& rule,
                 const UpdateSchedule& schedule, std::int64_t step, const RowsToVisit& list,
                 const RowState& rows) {
  if (rests(rule, schedule)) return;
  StepSettings settings{schedule, {}};
  if constexpr (Rule::times > 0) settings.times = workspace.times.up_to(rule, step);
  bool fours = in_fours(rows.w);
  for (int s = 0; s < Rule::slots; ++s) fours = fours && in_fours(rows.slot[std::size_t(s)]);
  if (fours)
    launch_replay<4>(stream, list, rule, settings, step, rows);
  else
    launch_replay<1>(stream, list, rule, settings, step, rows);
}

}  // namespace

void catch_up_rows(const Stream& stream, SparseWorkspace& workspace, const UpdateRule& rule,
                   const UpdateSchedule& schedule, std::int64_t step, const TransposedBatch* xt,
                   const RowState& rows) {
  const RowsToVisit list = rows_to_visit(xt, rows.w.rows);
  if (list.count == 0) return;
  if (rows.w.cols > 0)
    std::visit(
        [&](const auto& r) { replay_with(stream, workspace, r, schedule, step, list, rows); },
        rule);
  launch_record_steps(stream, list, step, true, rows.steps_done.data);
}

void mark_rows_done(const Stream& stream, const TransposedBatch& xt, std::int64_t step,
                    VectorView<std::int64_t> steps_done) {
  launch_record_steps(stream, rows_to_visit(&xt, xt.cols), step + 1, false, steps_done.data);
}

}  // namespace norn::cuda
