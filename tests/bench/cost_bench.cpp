// SPDX-License-Identifier: Apache-2.0
// Time an element of the cost, SoftMax, pointwise and fixed-point kernels on one block, verified
// first.
#include "kernels/cpu/families.h"
#include "norn/base/error.h"
#include "norn/base/fixed_point.h"

#include <cmath>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

namespace {

using namespace norn;

constexpr Index kRows = 256;
constexpr Index kWidth = 2048;
constexpr Index kStored = 12;  ///< targets of a row within the block

/// One block of an output layer with sparse boolean targets.
struct Block {
  Block() : z(std::size_t(kRows * kWidth)) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-9.0f, 2.0f);
    for (float& x : z) x = uniform(random);
    for (Index r = 0; r < kRows; ++r) {
      for (Index i = 0; i < kStored; ++i)
        column.push_back(Column(i * (kWidth / kStored) + Index(random() % 100)));
      row_begin.push_back(RowOffset(column.size()));
    }
  }
  TargetView target() const {
    TargetView view;
    view.sparse = {row_begin.data(), column.data(), nullptr, kRows, kWidth};
    return view;
  }
  std::vector<float> z;
  std::vector<RowOffset> row_begin{0};
  std::vector<Column> column;
};

MatrixView<float> view_of(std::vector<float>& x) {
  return {x.data(), kRows, kWidth, kWidth};
}

void count(benchmark::State& state, double elements, double bytes_an_element) {
  const double all = elements * double(state.iterations());
  state.counters["ns_per_element"] =
      benchmark::Counter(all * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["GB/s"] =
      benchmark::Counter(all * bytes_an_element * 1e-9, benchmark::Counter::kIsRate);
}

/// The block's cost in float64, binary cross entropy of sigmoids.
double expected_cost(const Block& block) {
  double cost = 0;
  for (float x : block.z) cost += std::log1p(std::exp(double(x)));
  for (Index r = 0; r < kRows; ++r)
    for (RowOffset i = block.row_begin[std::size_t(r)]; i < block.row_begin[std::size_t(r) + 1];
         ++i)
      cost -= double(block.z[std::size_t(r * kWidth + Index(block.column[std::size_t(i)]))]);
  return cost;
}

void run_delta(benchmark::State& state, const UnitCost& rule, bool is_verified) {
  Executor executor(1);
  const std::unique_ptr<CostKernels> kernels = make_cpu_cost(executor);
  const Block block;
  std::vector<float> z = block.z;
  double cost = 0;
  kernels->delta(rule, block.target(), 0, view_of(z), &cost);
  if (is_verified && std::abs(cost / expected_cost(block) - 1) > 1e-6)
    state.SkipWithError("the cost is wrong");
  // Deltas of one pass are the pre-activations of the next: the work does not depend on them.
  for (auto _ : state) {
    kernels->delta(rule, block.target(), 0, view_of(z), &cost);
    benchmark::DoNotOptimize(cost);
  }
  count(state, double(kRows * kWidth), 8);
}

void sigmoid_marginal_cross_entropy(benchmark::State& state) {
  run_delta(state, {Sigmoid{}, ScaledMarginalCrossEntropy{.one_target = 1, .zero_target = 0}},
            true);
}
void sigmoid_cross_entropy(benchmark::State& state) {
  run_delta(state, {Sigmoid{}, CrossEntropy{}}, true);
}
void tanh_squared_error(benchmark::State& state) {
  run_delta(state, {Tanh{}, SquaredError{}}, false);
}
void softsign_cross_entropy(benchmark::State& state) {
  run_delta(state, {SoftSign{}, CrossEntropy{}}, false);
}

void softmax_statistics(benchmark::State& state) {
  Executor executor(1);
  const std::unique_ptr<CostKernels> kernels = make_cpu_cost(executor);
  Block block;
  std::vector<float> maximum(kRows);
  std::vector<float> sum(kRows);
  const VectorView<float> maximum_view{maximum.data(), kRows};
  const VectorView<float> sum_view{sum.data(), kRows};
  kernels->softmax_statistics(view_of(block.z), maximum_view, sum_view);
  double expected = 0;
  for (Index c = 0; c < kWidth; ++c) expected += std::exp(double(block.z[std::size_t(c)]));
  if (std::abs(double(sum[0]) * std::exp(double(maximum[0])) / expected - 1) > 1e-6)
    state.SkipWithError("the sum is wrong");
  for (auto _ : state) kernels->softmax_statistics(view_of(block.z), maximum_view, sum_view);
  count(state, double(kRows * kWidth), 4);
}

void softmax_delta(benchmark::State& state) {
  Executor executor(1);
  const std::unique_ptr<CostKernels> kernels = make_cpu_cost(executor);
  const Block block;
  std::vector<float> z = block.z;
  std::vector<float> maximum(kRows);
  std::vector<float> sum(kRows);
  std::vector<std::int64_t> total(kRows, 0);
  std::vector<std::int64_t> coupling(kRows, 0);
  std::int64_t out_of_range = 0;
  const SoftMaxCost rule{CrossEntropy{}, TargetWeight::one};
  kernels->softmax_statistics(view_of(z), {maximum.data(), kRows}, {sum.data(), kRows});
  kernels->softmax_total({maximum.data(), 1, kRows, kRows}, {sum.data(), 1, kRows, kRows},
                         {maximum.data(), kRows}, {total.data(), kRows}, &out_of_range);
  kernels->softmax_coupling(rule, block.target(), {coupling.data(), kRows}, &out_of_range);
  const SoftMaxRows rows{{maximum.data(), kRows}, {total.data(), kRows}, {coupling.data(), kRows}};
  double cost = 0;
  kernels->softmax_delta(rule, block.target(), 0, rows, view_of(z), &cost);
  double row_sum = 0;  // deltas of a row sum to 0
  for (Index c = 0; c < kWidth; ++c) row_sum += double(z[std::size_t(c)]);
  if (std::abs(row_sum) > 1e-4) state.SkipWithError("the deltas are wrong");
  for (auto _ : state) {
    kernels->softmax_delta(rule, block.target(), 0, rows, view_of(z), &cost);
    benchmark::DoNotOptimize(cost);
  }
  count(state, double(kRows * kWidth), 8);
}

void fixed_add(benchmark::State& state) {
  constexpr Index kHidden = 128;
  constexpr Index kBatch = 512;
  Executor executor(1);
  const std::unique_ptr<FixedKernels> kernels = make_cpu_fixed(executor);
  std::vector<float> term(std::size_t(kBatch * kHidden));
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (float& x : term) x = uniform(random);
  std::vector<std::int64_t> fine(term.size(), 0);
  std::vector<std::int64_t> coarse(term.size(), 0);
  std::int64_t coarse_used = 0;
  std::int64_t out_of_range = 0;
  const FixedFormat format{.fine_bits = 30, .term_bits = 20};
  const FixedMatrixView sum{{fine.data(), kBatch, kHidden, kHidden},
                            {coarse.data(), kBatch, kHidden, kHidden},
                            &coarse_used,
                            &out_of_range};
  const MatrixView<const float> terms{term.data(), kBatch, kHidden, kHidden};
  kernels->add(&format, terms, sum);
  for (std::size_t i = 0; i < term.size(); ++i)
    if (fine[i] != std::llrint(double(term[i]) * 0x1p30)) state.SkipWithError("a word is wrong");
  for (auto _ : state) kernels->add(&format, terms, sum);
  count(state, double(kBatch * kHidden), 4 + 16);
}

void activate_sigmoid(benchmark::State& state) {
  Executor executor(1);
  const std::unique_ptr<PointwiseKernels> kernels = make_cpu_pointwise(executor);
  const Block block;
  std::vector<float> y = block.z;
  kernels->activate(Sigmoid{}, view_of(y));
  for (std::size_t i = 0; i < y.size(); ++i)
    if (std::abs(double(y[i]) - 1 / (1 + std::exp(-double(block.z[i])))) > 1e-6)
      state.SkipWithError("an output is wrong");
  for (auto _ : state) kernels->activate(Sigmoid{}, view_of(y));
  count(state, double(kRows * kWidth), 8);
}

void sum_columns(benchmark::State& state) {
  Executor executor(1);
  const std::unique_ptr<PointwiseKernels> kernels = make_cpu_pointwise(executor);
  Block block;
  std::vector<float> sum(kWidth);
  kernels->sum_columns(view_of(block.z), 1.0f, {sum.data(), kWidth});
  double expected = 0;
  for (Index r = 0; r < kRows; ++r) expected += double(block.z[std::size_t(r * kWidth)]);
  if (sum[0] != float(expected)) state.SkipWithError("a sum is wrong");
  for (auto _ : state) kernels->sum_columns(view_of(block.z), 1.0f, {sum.data(), kWidth});
  count(state, double(kRows * kWidth), 4);
}

BENCHMARK(sigmoid_marginal_cross_entropy);
BENCHMARK(sigmoid_cross_entropy);
BENCHMARK(tanh_squared_error);
BENCHMARK(softsign_cross_entropy);
BENCHMARK(softmax_statistics);
BENCHMARK(softmax_delta);
BENCHMARK(fixed_add);
BENCHMARK(activate_sigmoid);
BENCHMARK(sum_columns);

}  // namespace

BENCHMARK_MAIN();
