// SPDX-License-Identifier: Apache-2.0
// Time an element of merging the scores of a catalogue, block by block, into the best K.
#include "kernels/cpu/families.h"

#include <algorithm>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

namespace {

using namespace norn;

constexpr Index kRows = 64;
constexpr Index kWidth = 2048;
constexpr Index kBlocks = 16;

std::vector<float> random_scores() {
  std::vector<float> score(std::size_t(kRows * kWidth * kBlocks));
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-9.0f, 2.0f);
  for (float& x : score) x = uniform(random);
  return score;
}

void merge_all(SelectKernels& kernels, const std::vector<float>& score, Index k, TopK& best) {
  kernels.begin(kRows, k, best);
  for (Index block = 0; block < kBlocks; ++block)
    kernels.merge({score.data() + block * kWidth, kRows, kWidth, kWidth * kBlocks}, block * kWidth,
                  {}, best);
}

void merge_scores(benchmark::State& state) {
  const Index k = state.range(0);
  Executor executor(1);
  const std::unique_ptr<SelectKernels> kernels = make_cpu_select(executor);
  const std::vector<float> score = random_scores();
  TopK best;
  merge_all(*kernels, score, k, best);
  std::vector<float> row(score.begin(), score.begin() + kWidth * kBlocks);
  std::sort(row.begin(), row.end(), std::greater<>());
  if (!std::equal(row.begin(), row.begin() + k, best.score.view().row(0)))
    state.SkipWithError("the best are wrong");
  for (auto _ : state) merge_all(*kernels, score, k, best);
  const double elements = double(state.iterations()) * double(kRows * kWidth * kBlocks);
  state.counters["ns_per_element"] = benchmark::Counter(
      elements * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["GB/s"] = benchmark::Counter(elements * 4e-9, benchmark::Counter::kIsRate);
}

BENCHMARK(merge_scores)->ArgName("k")->Arg(10)->Arg(100)->Arg(1000);

}  // namespace

BENCHMARK_MAIN();
