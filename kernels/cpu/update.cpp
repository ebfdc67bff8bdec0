// SPDX-License-Identifier: Apache-2.0
// Dense updates of weights, their initial values and their norms.

#include "kernels/cpu/families.h"
#include "kernels/cpu/philox_lanes.h"
#include "kernels/cpu/rule_run.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace norn {
namespace {

constexpr Index kTaskElements = 1 << 14;
constexpr Index kSumLanes = 16;  // accumulators of a sum: enough to keep vectors busy

/// Calls task(row, first column, columns) for runs of at most kTaskElements elements that together
/// make up the matrix: a matrix of one long row is shared by the lanes as one of many rows is.
template <typename Task>
void for_each_run(Executor& executor, Index rows, Index cols, const Task& task) {
  const Index run = std::min(cols, kTaskElements);
  const Index runs = (cols + run - 1) / run;
  executor.for_ranges(rows * runs, kTaskElements / run, [&](Index begin, Index end, int) {
    for (Index i = begin; i < end; ++i) {
      const Index first = i % runs * run;
      task(i / runs, first, std::min(run, cols - first));
    }
  });
}

/// Adds a fixed tree of the accumulators.
double total_of(const double (&lane)[kSumLanes]) {
  double sum[kSumLanes];
  std::copy_n(lane, kSumLanes, sum);
  for (Index half = kSumLanes / 2; half > 0; half /= 2)
    for (Index i = 0; i < half; ++i) sum[i] += sum[i + half];
  return sum[0];
}

/// lane[c % kSumLanes] += term(x[c]) for every c.
template <typename Term>
void add_terms(const float* x, Index count, double (&lane)[kSumLanes], const Term& term) {
  Index c = 0;
  for (; c + kSumLanes <= count; c += kSumLanes)
    for (Index i = 0; i < kSumLanes; ++i) lane[i] += term(double(x[c + i]));
  for (Index i = 0; c + i < count; ++i) lane[i] += term(double(x[c + i]));
}

constexpr auto kSquare = [](double x) { return x * x; };
constexpr auto kMagnitude = [](double x) { return std::abs(x); };

class CpuUpdate final : public UpdateKernels {
 public:
  explicit CpuUpdate(Executor& executor) : executor_(executor) {}

 private:
  void do_update(const UpdateRule& rule, const UpdateStep& step, WeightView w,
                 MatrixView<const float> g, SlotViews slot) override {
    std::visit(
        [&](const auto& r) {
          using Rule = std::remove_cvref_t<decltype(r)>;
          for_each_run(executor_, w.rows(), w.cols(), [&](Index row, Index first, Index count) {
            float joined[kTaskElements];
            float* run = w.is_split() ? joined : w.floats.row(row) + first;
            if (w.is_split()) join_run(w, row, first, count, run);
            step_run(r, step, count, run, g.row(row) + first, slots_at<Rule>(slot, row, first));
            if (w.is_split()) split_run(run, w, row, first, count);
          });
        },
        rule);
  }

  /// Weights [first, first + count) of a row.
  static void join_run(const WeightView& w, Index row, Index first, Index count, float* floats) {
    for (Index c = 0; c < count; ++c)
      floats[c] = FloatHalves{w.high(row, first + c), w.low(row, first + c)}.joined();
  }
  static void split_run(const float* floats, const WeightView& w, Index row, Index first,
                        Index count) {
    for (Index c = 0; c < count; ++c) {
      const FloatHalves halves = FloatHalves::of(floats[c]);
      w.high(row, first + c) = halves.high;
      w.low(row, first + c) = halves.low;
    }
  }
  void do_join(WeightView w, MatrixView<float> floats) override {
    for_each_run(executor_, w.rows(), w.cols(), [&](Index row, Index first, Index count) {
      join_run(w, row, first, count, floats.row(row) + first);
    });
  }
  void do_split(MatrixView<const float> floats, WeightView w) override {
    for_each_run(executor_, w.rows(), w.cols(), [&](Index row, Index first, Index count) {
      split_run(floats.row(row) + first, w, row, first, count);
    });
  }

  void do_update_vectors(const UpdateRule& rule, const UpdateStep& step,
                         std::span<const VectorUpdate> vectors) override {
    for (const VectorUpdate& vector : vectors) {
      const Index n = vector.w.size;
      if (n == 0) continue;
      SlotViews slots;
      for (std::size_t s = 0; s < slots.size(); ++s) slots[s] = {vector.slot[s].data, 1, n, n};
      const MatrixView<float> w{vector.w.data, 1, n, n};
      do_update(rule, step, w, {vector.g.data, 1, n, n}, slots);
    }
  }

  void do_initialise(const Initializer& initializer, Philox random, const WeightPlace& place,
                     MatrixView<float> w) override {
    const Fan fan = place.fans();
    std::visit(
        [&](const auto& scheme) {
          for_each_run(executor_, w.rows, w.cols, [&](Index row, Index first, Index count) {
            draw_run(scheme, fan, random, place, row, first, count, w.row(row) + first);
          });
        },
        initializer);
  }

  /// Weights [first, first + count) of a stored row.
  template <typename Scheme>
  static void draw_run(const Scheme& scheme, const Fan& fan, const Philox& random,
                       const WeightPlace& place, Index row, Index first, Index count, float* w) {
    const Index source = place.first_source + (place.by_destination ? first : row);
    const Index destination = place.first_destination + (place.by_destination ? row : first);
    const Index stride = place.by_destination ? place.destinations : 1;
    std::uint64_t position = std::uint64_t(source * place.destinations + destination);
    PhiloxBlocks blocks;
    for (Index begin = 0; begin < count; begin += kPhiloxLanes) {
      const int drawn = int(std::min<Index>(kPhiloxLanes, count - begin));
      philox_blocks(random, position, std::uint64_t(stride), 0, drawn, blocks);
      for (int i = 0; i < drawn; ++i)
        w[begin + i] = scheme.value(fan, blocks.word[0][i], blocks.word[1][i]);
      position += std::uint64_t(drawn * stride);
    }
  }

  void do_clip_row_norms(float limit, MatrixView<float> w) override {
    const Index chunk = std::max<Index>(1, kTaskElements / w.cols);
    executor_.for_ranges(w.rows, chunk, [&](Index begin, Index end, int) {
      for (Index r = begin; r < end; ++r) {
        float* row = w.row(r);
        double lane[kSumLanes] = {};
        add_terms(row, w.cols, lane, kSquare);
        const double norm = std::sqrt(total_of(lane));
        if (norm <= double(limit)) continue;
        const float factor = float(double(limit) / norm);
        for (Index c = 0; c < w.cols; ++c) row[c] *= factor;
      }
    });
  }

  void do_clip_column_norms(float limit, MatrixView<float> w) override {
    std::vector<double> squares(std::size_t(w.cols));
    do_add_column_squares(w, {squares.data(), w.cols});
    do_scale_columns(limit, {squares.data(), w.cols}, w);
  }

  void do_add_row_squares(MatrixView<const float> w, VectorView<double> squares) override {
    executor_.for_ranges(w.rows, std::max<Index>(1, kTaskElements / w.cols),
                         [&](Index begin, Index end, int) {
                           for (Index r = begin; r < end; ++r) {
                             double lane[kSumLanes] = {};
                             add_terms(w.row(r), w.cols, lane, kSquare);
                             squares.data[r] += total_of(lane);
                           }
                         });
  }

  void do_add_column_squares(MatrixView<const float> w, VectorView<double> squares) override {
    // Squares are summed down runs of rows, then over the runs in order: a column's sum does not
    // depend on how many columns there are, so it is the same wherever the columns are cut.
    constexpr Index kRun = 512;
    const Index runs = (w.rows + kRun - 1) / kRun;
    std::vector<double> sums(std::size_t(runs * w.cols));
    executor_.for_ranges(w.rows, kRun, [&](Index begin, Index end, int) {
      double* sum = sums.data() + begin / kRun * w.cols;
      for (Index r = begin; r < end; ++r) {
        const float* row = w.row(r);
        for (Index c = 0; c < w.cols; ++c) sum[c] += double(row[c]) * double(row[c]);
      }
    });
    for (Index i = 1; i < runs; ++i)
      for (Index c = 0; c < w.cols; ++c) sums[std::size_t(c)] += sums[std::size_t(i * w.cols + c)];
    for (Index c = 0; c < w.cols; ++c) squares.data[c] += sums[std::size_t(c)];
  }

  /// What brings weights with this sum of squares down to the limit.
  static float factor_of(float limit, double squares) {
    const double norm = std::sqrt(squares);
    return norm > double(limit) ? float(double(limit) / norm) : 1.0f;
  }

  void do_scale_rows(float limit, VectorView<const double> squares, MatrixView<float> w) override {
    for_each_run(executor_, w.rows, w.cols, [&](Index r, Index first, Index count) {
      const float factor = factor_of(limit, squares.data[r]);
      float* row = w.row(r) + first;
      for (Index c = 0; c < count; ++c) row[c] *= factor;
    });
  }

  void do_scale_columns(float limit, VectorView<const double> squares,
                        MatrixView<float> w) override {
    std::vector<float> factor(std::size_t(w.cols));
    for (Index c = 0; c < w.cols; ++c) factor[std::size_t(c)] = factor_of(limit, squares.data[c]);
    for_each_run(executor_, w.rows, w.cols, [&](Index r, Index first, Index count) {
      float* row = w.row(r) + first;
      const float* f = factor.data() + first;
      for (Index c = 0; c < count; ++c) row[c] *= f[c];
    });
  }

  void do_norms(WeightView w, double* squares, double* magnitudes) override {
    *squares = *magnitudes = 0.0;
    if (w.empty()) return;
    const Index run = std::max<Index>(1, kTaskElements / w.cols());
    const Index runs = (w.rows() + run - 1) / run;
    std::vector<double> square_sum(static_cast<std::size_t>(runs));
    std::vector<double> magnitude_sum(static_cast<std::size_t>(runs));
    executor_.for_ranges(w.rows(), run, [&](Index begin, Index end, int) {
      double square_lane[kSumLanes] = {}, magnitude_lane[kSumLanes] = {};
      std::vector<float> joined(std::size_t(w.is_split() ? w.cols() : 0));
      for (Index r = begin; r < end; ++r) {
        if (w.is_split()) join_run(w, r, 0, w.cols(), joined.data());
        const float* row = w.is_split() ? joined.data() : w.floats.row(r);
        add_terms(row, w.cols(), square_lane, kSquare);
        add_terms(row, w.cols(), magnitude_lane, kMagnitude);
      }
      square_sum[std::size_t(begin / run)] = total_of(square_lane);
      magnitude_sum[std::size_t(begin / run)] = total_of(magnitude_lane);
    });
    for (std::size_t i = 0; i < std::size_t(runs); ++i) {
      *squares += square_sum[i];
      *magnitudes += magnitude_sum[i];
    }
  }

  Executor& executor_;
};

}  // namespace

std::unique_ptr<UpdateKernels> make_cpu_update(Executor& executor) {
  return std::make_unique<CpuUpdate>(executor);
}

}  // namespace norn
