// SPDX-License-Identifier: Apache-2.0
// Sums over runs of examples on the CPU: a run in the order of its rows.
#include "kernels/run_sums.h"

#include "kernels/cpu/families.h"

#include <algorithm>

namespace norn {
namespace {

constexpr Index kElementsOfTask = 4096;

class CpuRunSumKernels final : public RunSumKernels {
 public:
  explicit CpuRunSumKernels(Executor& executor) : executor_(executor) {}

 private:
  static void add_values(const float* a, Index units, double* sums) {
    for (Index c = 0; c < units; ++c) sums[c] += double(a[c]);
  }
  static void add_products(const float* a, const float* b, Index units, double* sums) {
    for (Index c = 0; c < units; ++c) {
      sums[c] += double(a[c]);
      sums[units + c] += double(a[c]) * double(b[c]);
    }
  }

  void do_sum_columns(const DenseOperand& operand, MatrixView<const float> b,
                      std::span<const Range> runs, MatrixView<double> of_runs,
                      VectorView<FixedSum> sums) override {
    const MatrixView<const float> a = operand.values;
    const bool multiplies = sums.size > a.cols;
    executor_.for_each(Index(runs.size()), [&](Index run, int /*lane*/) {
      double* const sum = of_runs.row(run);
      std::fill_n(sum, sums.size, 0.0);
      const Range& rows = runs[std::size_t(run)];
      for (Index r = rows.begin; r < rows.end; ++r)
        multiplies ? add_products(a.row(r), b.row(r), a.cols, sum)
                   : add_values(a.row(r), a.cols, sum);
    });
    std::fill(sums.begin(), sums.end(), FixedSum());
    for (Index run = 0; run < Index(runs.size()); ++run)
      for (Index c = 0; c < sums.size; ++c) sums[c].add(of_runs(run, c));
  }

  void do_to_float(VectorView<const FixedSum> sums, double factor,
                   VectorView<float> values) override {
    for (Index c = 0; c < sums.size; ++c) values[c] = float(sums[c].value() * factor);
  }

  void do_add_terms(std::span<const VectorView<const float>> terms,
                    VectorView<float> sum) override {
    executor_.for_ranges(sum.size, kElementsOfTask, [&](Index begin, Index end, int /*lane*/) {
      for (Index i = begin; i < end; ++i) {
        double all = 0.0;
        for (const VectorView<const float>& term : terms) all += double(term[i]);
        sum[i] = float(all);
      }
    });
  }

  Executor& executor_;
};

}  // namespace

std::unique_ptr<RunSumKernels> make_cpu_run_sums(Executor& executor) {
  return std::make_unique<CpuRunSumKernels>(executor);
}

}  // namespace norn
