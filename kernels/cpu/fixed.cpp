// SPDX-License-Identifier: Apache-2.0
// Fixed-point sums on the CPU.
#include "kernels/fixed.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/mask_row.h"
#include "kernels/cpu/strips.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <vector>

namespace norn {
namespace {

constexpr Index kGroupElements = 8192;  ///< that one lock guards: about 10 microseconds of work

void raise_flag(std::int64_t* flag) {
  std::atomic_ref<std::int64_t>(*flag).store(1, std::memory_order_relaxed);
}

/// Whether every |x| is below the limit; NaN is not.
bool all_below(float limit, const float* x, Index n) {
  int beyond = 0;
  for (Index c = 0; c < n; ++c) beyond |= std::abs(x[c]) < limit ? 0 : 1;
  return beyond == 0;
}

/// fine += round(term * scale) for one strip, halves to even. The product is exact: scale is a
/// power of two. Two loops, because compilers vectorise each but not both in one.
void add_fine(double scale, const float* term, std::int64_t* fine, Index n) {
  double nearest[strips::kWidth];
  for (Index c = 0; c < n; ++c) nearest[c] = std::nearbyint(double(term[c]) * scale);
  for (Index c = 0; c < n; ++c) fine[c] += std::int64_t(nearest[c]);
}

/// A strip in which some partial sums belong to the coarse accumulators, or nowhere.
void add_mixed(const FixedFormat& format, const float* term, std::int64_t* fine,
               std::int64_t* coarse, Index n, const FixedMatrixView& sum) {
  for (Index c = 0; c < n; ++c) {
    const double x = double(term[c]);
    if (std::abs(x) < format.fine_limit()) {
      fine[c] += std::int64_t(std::nearbyint(x * format.fine_scale()));
    } else if (std::abs(x) < format.coarse_limit()) {
      coarse[c] += std::int64_t(std::nearbyint(x * format.coarse_scale()));
      raise_flag(sum.coarse_used);
    } else {
      raise_flag(sum.out_of_range);
    }
  }
}

class CpuFixedKernels final : public FixedKernels {
 public:
  explicit CpuFixedKernels(Executor& executor) : executor_(executor) {}

 private:
  void do_add(const FixedFormat* format, const PartialSums& partial_sums,
              FixedMatrixView sum) override {
    if (sum.fine.empty()) return;
    const Index rows_per_group = std::max<Index>(1, kGroupElements / sum.fine.cols);
    const Index groups = (sum.fine.rows + rows_per_group - 1) / rows_per_group;
    // Lanes that add to one sum at the same time start at different groups and seldom meet.
    const Index first =
        Index(turn_.fetch_add(5, std::memory_order_relaxed) % std::uint64_t(groups));
    executor_.for_each(groups, [&](Index index, int /*lane*/) {
      const Index group = (first + index) % groups;
      const Index begin = group * rows_per_group;
      const Index end = std::min(sum.fine.rows, begin + rows_per_group);
      const std::lock_guard lock(mutex_of(sum, group));
      for (Index r = begin; r < end; ++r) add_row(*format, partial_sums, sum, r, r);
    });
  }

  void do_set(const FixedFormat* format, const PartialSums& partial_sums,
              FixedMatrixView sum) override {
    for_rows(sum.fine.rows, sum.fine.cols, [&](Index r) {
      std::fill_n(sum.fine.row(r), sum.fine.cols, 0);
      add_row(*format, partial_sums, sum, r, r);
    });
  }

  /// Adds row r of the partial sums to row `to` of the sum.
  static void add_row(const FixedFormat& format, const PartialSums& partial_sums,
                      const FixedMatrixView& sum, Index r, Index to) {
    const float limit = float(format.fine_limit());
    const double scale = format.fine_scale();
    for (int t = 0; t < partial_sums.count; ++t)
      strips::for_each_strip(sum.fine.cols, [&](Index first, Index count) {
        const float* x = partial_sums.of[t].row(r) + first;
        std::int64_t* fine = sum.fine.row(to) + first;
        if (all_below(limit, x, count))
          add_fine(scale, x, fine, count);
        else
          add_mixed(format, x, fine, sum.coarse.row(to) + first, count, sum);
      });
  }

  void do_to_float(const FixedFormat* format, FixedMatrixView sum, const PartialSums& partial_sums,
                   MatrixView<float> value, float* maximum) override {
    std::vector<float> row_maximum(std::size_t(value.rows), 0.0f);
    for_rows(value.rows, value.cols, [&](Index r) {
      row_to_float(*format, sum, partial_sums, r, value.cols, value.row(r));
      row_maximum[std::size_t(r)] = largest_magnitude(value.row(r), value.cols);
    });
    *maximum = 0.0f;
    for (float row : row_maximum) *maximum = std::max(*maximum, row);
  }

  void do_to_delta(FixedFormat* format, std::int64_t adapt_count, FixedMatrixView sum,
                   const PartialSums& partial_sums, const OutputSlope& slope,
                   MatrixView<float> delta, MatrixView<Bfloat16> bf16, float* maximum) override {
    std::vector<float> row_maximum(std::size_t(delta.rows), 0.0f);
    const Index cols = delta.cols;
    std::visit(
        [&](const auto& function) {
          for_rows(delta.rows, cols, [&](Index r) {
            const auto f = function;  // a copy that stores to the row cannot alias
            float* row = delta.row(r);
            row_to_float(*format, sum, partial_sums, r, cols, row);
            row_maximum[std::size_t(r)] = largest_magnitude(row, cols);
            if (slope.dropout.drops())
              mask_row(slope.dropout, r, cols, row, row);
            else if (slope.dropout.a != 1.0f)
              for (Index c = 0; c < cols; ++c) row[c] *= slope.dropout.a;
            const float* y = slope.y.row(r);
            for (Index c = 0; c < cols; ++c) row[c] *= f.slope(y[c]);
            if (bf16.data == nullptr) return;
            for (Index c = 0; c < cols; ++c) bf16(r, c) = Bfloat16::rounded(row[c]);
          });
        },
        slope.f);
    *maximum = 0.0f;
    for (float row : row_maximum) *maximum = std::max(*maximum, row);
    if (adapt_count > 0) do_adapt(maximum, adapt_count, format);
  }

  /// Calls body(row) for every row of a matrix with `cols` columns.
  template <typename Body>
  void for_rows(Index rows, Index cols, const Body& body) {
    executor_.for_ranges(rows, strips::rows_per_task(cols),
                         [&](Index begin, Index end, int /*lane*/) {
                           for (Index r = begin; r < end; ++r) body(r);
                         });
  }

  static void row_to_float(const FixedFormat& format, const FixedMatrixView& sum,
                           const PartialSums& partial_sums, Index r, Index n, float* out) {
    if (partial_sums.count == 0) {
      accumulators_to_float(format, sum, r, n, out);
      return;
    }
    std::vector<std::int64_t> accumulators(std::size_t(2 * n), 0);
    std::int64_t coarse_used = 0;
    const FixedMatrixView row{{accumulators.data(), 1, n, n},
                              {accumulators.data() + n, 1, n, n},
                              &coarse_used,
                              sum.out_of_range};
    add_row(format, partial_sums, row, r, 0);
    accumulators_to_float(format, row, 0, n, out);
  }

  static void accumulators_to_float(const FixedFormat& format, const FixedMatrixView& sum, Index r,
                                    Index n, float* out) {
    const double fine_unit = 1.0 / format.fine_scale();
    const std::int64_t* fine = sum.fine.row(r);
    if (*sum.coarse_used == 0) {
      for (Index c = 0; c < n; ++c) out[c] = float(double(fine[c]) * fine_unit);
      return;
    }
    const double coarse_unit = 1.0 / format.coarse_scale();
    std::int64_t* coarse = sum.coarse.row(r);
    for (Index c = 0; c < n; ++c) {
      out[c] = float(double(fine[c]) * fine_unit + double(coarse[c]) * coarse_unit);
      coarse[c] = 0;
    }
  }

  void do_adapt(const float* maximum, std::int64_t partial_sums, FixedFormat* format) override {
    if (*maximum > 0.0f && std::isfinite(*maximum))
      *format = FixedFormat::for_maximum(double(*maximum), partial_sums);
  }

  /// As integers: magnitudes of floats are in the order of their bits.
  static float largest_magnitude(const float* x, Index n) {
    std::int32_t top = 0;
    for (Index i = 0; i < n; ++i)
      top = std::max(top, std::bit_cast<std::int32_t>(x[i]) & 0x7FFFFFFF);
    return std::bit_cast<float>(top);
  }

  std::mutex& mutex_of(const FixedMatrixView& sum, Index group) {
    const auto address = reinterpret_cast<std::uintptr_t>(sum.fine.data) >> 6;
    return mutexes_[(address + std::uintptr_t(group)) % mutexes_.size()];
  }

  Executor& executor_;
  std::array<std::mutex, 64> mutexes_;
  std::atomic<std::uint64_t> turn_{0};
};

}  // namespace

std::unique_ptr<FixedKernels> make_cpu_fixed(Executor& executor) {
  return std::make_unique<CpuFixedKernels>(executor);
}

}  // namespace norn
