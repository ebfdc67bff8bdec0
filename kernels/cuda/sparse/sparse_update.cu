// SPDX-License-Identifier: Apache-2.0
// Row-wise updates of a sparse source's weights: only the rows of a batch are visited, and a row
// that was left alone goes through the steps that it missed first. The bits are those of an update
// of all rows at every step. A row that is past the step already cannot be seen by the host; it is
// updated as if it were not.
#include "kernels/cuda/sparse/missed_steps.cuh"
#include "kernels/cuda/sparse/sparse_slices.cuh"

namespace norn::cuda {
namespace {

/// The step of one batch for the rows that it holds.
template <int kWidth, class Rule>
struct UpdateSink {
  Rule rule;
  StepSettings settings;
  UpdateStep now;  // the settings of `step`
  bool rests;      // no row needs the steps that it missed
  bool regularised;
  std::int64_t step;
  float scale;
  MatrixView<float> w;
  SlotMatrices<Rule> slot;
  const std::int64_t* steps_done;

  using State = Weights<kWidth, Rule>;
  __device__ State load(Index row, Index column) const {
    State weights{};
    weights.w = load_lane_once<kWidth>(w.row(row) + column);
    weights.load_state([&](int s) { return load_lane_once<kWidth>(slot.of[s].row(row) + column); });
    return weights;
  }
  /// The lower half of the row's steps: it differs from that of `step` where the row lags behind.
  __device__ std::uint32_t progress(Index row) const {
    return rests ? std::uint32_t(step) : std::uint32_t(steps_done[row]);
  }
  __device__ void store(State& weights, Lane<kWidth> sum, Index row, std::uint32_t progress,
                        LaneColumn at) const {
    if (progress != std::uint32_t(step)) {
      const std::int64_t done = steps_done[row];
      if (done < step) replay(rule, settings, regularised, done, step, weights);
    }
    for (int j = 0; j < kWidth; ++j) sum.v[j] *= scale;
    clip_some(now, sum.v);
    weights.step(rule, now, sum);
    if (!at.active) return;
    store_lane_once<kWidth>(w.row(row) + at.column, weights.w);
    weights.store_state([&](int s, const Lane<kWidth>& lane) {
      store_lane_once<kWidth>(slot.of[s].row(row) + at.column, lane);
    });
  }
};

template <class Rule>
bool in_fours(const RowState& rows) {
  bool fours = cuda::in_fours(rows.w);
  for (int s = 0; s < Rule::slots; ++s) fours = fours && cuda::in_fours(rows.slot[std::size_t(s)]);
  return fours;
}

}  // namespace

void update_touched_rows(const Stream& stream, SparseWorkspace& workspace, const UpdateRule& rule,
                         const UpdateSchedule& schedule, std::int64_t step,
                         const TransposedBatch& xt, const DenseOperand& delta, float scale,
                         const RowState& rows) {
  if (xt.touched == 0) return;
  const SegmentSums segments = sum_segments(stream, workspace, xt, delta);
  std::visit(
      [&](const auto& r) {
        using Rule = std::remove_cvref_t<decltype(r)>;
        constexpr int kThreads = Rule::slots == 0 ? 1024 : 768;  // there are registers for them
        StepSettings settings{schedule, {}};
        if constexpr (Rule::times > 0) settings.times = workspace.times.up_to(r, step);
        const auto launch = [&]<int kWidth>(std::integral_constant<int, kWidth>) {
          const UpdateSink<kWidth, Rule> sink{r,
                                              settings,
                                              schedule.at(r, step),
                                              rests(r, schedule),
                                              settings.regularised(),
                                              step,
                                              scale,
                                              rows.w,
                                              SlotMatrices<Rule>(rows.slot),
                                              rows.steps_done.data};
          with_rows_of(delta, [&](auto view) {
            if constexpr (kWidth == 4)
              if (has_many_entries(xt.example.size(), xt.cols))
                return launch_sum_slices<4, kThreads>(stream, workspace, xt, view, segments, sink);
            launch_sum_units<kWidth>(stream, xt, view, segments, sink);
          });
        };
        bool fours = in_fours<Rule>(rows);
        with_rows_of(delta, [&](auto view) { fours = fours && cuda::in_fours(view); });
        if (fours)
          launch(std::integral_constant<int, 4>{});
        else
          launch(std::integral_constant<int, 1>{});
      },
      rule);
}

}  // namespace norn::cuda
