// SPDX-License-Identifier: Apache-2.0
// Sums over runs of examples on the GPU: a run as column_sums.cuh adds up as many rows, then one
// run after the other.
#include "kernels/cuda/elements/column_sums.cuh"
#include "kernels/cuda/families.h"
#include "kernels/run_sums.h"

namespace norn::cuda {
namespace {

constexpr int kMost = int(RunSumKernels::kMostTerms);

/// Takes what a run gives.
struct KeepSums {
  double* sums;
  Index units;
  __device__ void operator()(Index c, const double (&total)[1]) const { sums[c] = total[0]; }
  __device__ void operator()(Index c, const double (&total)[2]) const {
    sums[c] = total[0];
    sums[units + c] = total[1];
  }
};

/// One row of sums.
struct AddRunsWork {
  MatrixView<const double> of_runs;
  FixedSum* sums;
  template <int n, int kStep>
  __device__ void at(Index, Index c) const {
    static_assert(n == 1);
    FixedSum sum;
    for (Index first = 0; first < of_runs.rows; first += kMost) {
      double of_run[kMost];  // on their way together
#pragma unroll
      for (int i = 0; i < kMost; ++i)
        if (first + i < of_runs.rows) of_run[i] = of_runs(first + i, c);
#pragma unroll
      for (int i = 0; i < kMost; ++i)
        if (first + i < of_runs.rows) sum.add(of_run[i]);
    }
    sums[c] = sum;
  }
};

struct ToFloatWork {
  const FixedSum* sums;
  double factor;
  float* values;
  template <int n, int kStep>
  __device__ void at(Index, Index c) const {
    static_assert(n == 1);
    values[c] = float(sums[c].value() * factor);
  }
};

struct AddTermsWork {
  const float* terms[kMost];
  int count;
  float* sum;
  template <int n, int kStep>
  __device__ void at(Index, Index c) const {
    Pack<float, n> term[kMost];  // on their way together
#pragma unroll
    for (int t = 0; t < kMost; ++t)
      if (t < count) term[t] = load<n, kStep>(terms[t] + c);
    double all[n] = {};
#pragma unroll
    for (int t = 0; t < kMost; ++t)
#pragma unroll
      for (int i = 0; i < n; ++i)
        if (t < count) all[i] += double(term[t].value[i]);
    Pack<float, n> result;
#pragma unroll
    for (int i = 0; i < n; ++i) result.value[i] = float(all[i]);
    store<n, kStep>(sum + c, result);
  }
};

class CudaRunSums final : public RunSumKernels {
 public:
  explicit CudaRunSums(const Stream& stream) : stream_(stream), partial_(stream.memory) {}

 private:
  template <typename MakeTerm>
  void sum_runs(std::span<const Range> runs, MatrixView<double> of_runs, Index units, bool packed,
                const MakeTerm& term_of) {
    using Term = decltype(term_of(Range()));
    for (std::size_t first = 0; first < runs.size(); first += kMost) {
      const auto count = int(std::min<std::size_t>(kMost, runs.size() - first));
      ColumnSumsList<Term, KeepSums, kMost> list{};
      for (int i = 0; i < count; ++i) {
        const Range& run = runs[first + std::size_t(i)];
        list.of[i] = {term_of(run), KeepSums{of_runs.row(Index(first) + i), units}, run.count(),
                      units, packed};
      }
      sum_over_columns(stream_, partial_, "sum_columns", list, count);
    }
  }

  void do_sum_columns(const DenseOperand& a, MatrixView<const float> b, std::span<const Range> runs,
                      MatrixView<double> of_runs, VectorView<FixedSum> sums) override {
    const auto part = []<typename T>(const MatrixView<T>& m, const Range& run) {
      return m.row_range(run.begin, run.count());
    };
    const MatrixView<const float> x = a.values;
    if (a.is_bf16_alone())
      sum_runs(runs, of_runs, x.cols, is_packable<Bf16Term::kColumns>(a.bf16),
               [&](const Range& run) { return Bf16Term{part(a.bf16, run)}; });
    else if (sums.size > x.cols)
      sum_runs(runs, of_runs, x.cols, is_packable<4>(x) && is_packable<4>(b),
               [&](const Range& run) {
                 return ProductTerm{part(x, run), part(b, run)};
               });
    else
      sum_runs(runs, of_runs, x.cols, is_packable<4>(x),
               [&](const Range& run) { return ValueTerm{part(x, run)}; });
    const MatrixView<const double> of_all{of_runs.data, Index(runs.size()), sums.size,
                                          of_runs.stride};
    run_elements<1>(stream_, "add_runs", {1, sums.size, false}, AddRunsWork{of_all, sums.data});
  }

  void do_to_float(VectorView<const FixedSum> sums, double factor,
                   VectorView<float> values) override {
    run_elements<1>(stream_, "to_float", {1, sums.size, false},
                    ToFloatWork{sums.data, factor, values.data});
  }

  void do_add_terms(std::span<const VectorView<const float>> terms,
                    VectorView<float> sum) override {
    const auto is_aligned = [](const float* data) {
      return reinterpret_cast<std::uintptr_t>(data) % (4 * sizeof(float)) == 0;
    };
    AddTermsWork work{{}, int(terms.size()), sum.data};
    bool packed = is_aligned(sum.data);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      work.terms[i] = terms[i].data;
      packed = packed && is_aligned(terms[i].data);
    }
    run_elements<4>(stream_, "add_terms", {1, sum.size, packed}, work);
  }

  Stream stream_;
  Workspace<double> partial_;
};

}  // namespace

std::unique_ptr<RunSumKernels> make_run_sums(const Stream& stream) {
  return std::make_unique<CudaRunSums>(stream);
}

}  // namespace norn::cuda
