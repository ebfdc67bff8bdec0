// SPDX-License-Identifier: Apache-2.0
// Speed of dense updates, initial weights and dropout, in bytes of weights, gradients and state
// moved. Results are checked before anything is timed.

#include "kernels/kernels.h"
#include "kernels/named_variant.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace norn {
namespace {

constexpr Index kRows = 2048, kCols = 1536;

Matrix<float> filled(float low, float high) {
  Matrix<float> m(kRows, kCols);
  std::uint32_t word = 12345;
  for (Index i = 0; i < kRows * kCols; ++i) {
    word = word * 1664525u + 1013904223u;
    m.view().data[i] = low + (high - low) * float(word >> 8) * 0x1p-24f;
  }
  return m;
}

void set_bytes(benchmark::State& state, double arrays) {
  state.SetBytesProcessed(
      std::int64_t(arrays * 4.0 * double(kRows * kCols) * double(state.iterations())));
}

void update(benchmark::State& state, const UpdateRule& rule) {
  Executor executor;
  const Kernels kernels = make_cpu_kernels(executor);
  Matrix<float> w = filled(-1, 1);
  std::vector<Matrix<float>> state_arrays;
  SlotViews slots;
  float at[kMostSlots];
  for (int s = 0; s < kMostSlots; ++s) {
    slots[std::size_t(s)] = state_arrays.emplace_back(filled(0, 1)).view();
    at[s] = slots[std::size_t(s)](77, 5);
  }
  const Matrix<float> g = filled(-1, 1);
  const UpdateStep step = UpdateSchedule{}.at(rule, 10);
  const auto run = [&] { kernels.update->update(rule, step, w.view(), g.view(), slots); };
  float expected = w.view()(77, 5);
  std::visit([&](const auto& r) { r.step(expected, g.view()(77, 5), at, step); }, rule);
  run();
  if (std::memcmp(&expected, &w.view()(77, 5), 4) != 0) return state.SkipWithError("wrong");
  for (auto _ : state) run();
  set_bytes(state, 3.0 + 2.0 * slots_of(rule));
}

void initialise(benchmark::State& state, const Initializer& initializer) {
  Executor executor;
  const Kernels kernels = make_cpu_kernels(executor);
  Matrix<float> w(kRows, kCols);
  const Philox random = Philox::stream(1, RandomPurpose::weights);
  const WeightPlace place{.by_destination = true, .sources = kCols, .destinations = kRows};
  const auto run = [&] { kernels.update->initialise(initializer, random, place, w.view()); };
  run();
  const Philox::Block block = random.block(std::uint64_t(5 * kRows + 77), 0);
  const float expected = std::visit(
      [&](const auto& i) {
        return i.value(Fan{double(kCols), double(kRows)}, block.word[0], block.word[1]);
      },
      initializer);
  if (!(std::abs(expected - w.view()(77, 5)) < 1e-6f)) return state.SkipWithError("wrong");
  for (auto _ : state) run();
  set_bytes(state, 1.0);
}

void dropout(benchmark::State& state) {
  Executor executor;
  const Kernels kernels = make_cpu_kernels(executor);
  const Matrix<float> y = filled(1, 2);
  Matrix<float> out(kRows, kCols);
  const Philox random = Philox::stream(1, RandomPurpose::dropout);
  const DropoutMask mask = DropoutMask::inverted(0.5f, random, 0, 0);
  const auto run = [&] { kernels.batch->mask(mask, y.view(), out.view()); };
  run();
  for (Index r = 0; r < kRows; ++r)
    if ((out.view()(r, 9) == 0.0f) != (random.uniform(std::uint64_t(r), 9) < 0.5f))
      return state.SkipWithError("wrong");
  for (auto _ : state) run();
  set_bytes(state, 2.0);
}

void register_all() {
  const auto settle = [](benchmark::internal::Benchmark* bench) {
    bench->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  for (const std::string& name : names_of<UpdateRule>())
    settle(benchmark::RegisterBenchmark(("update/" + name).c_str(), update,
                                        *find_named<UpdateRule>(name)));
  for (const std::string& name : names_of<Initializer>())
    settle(benchmark::RegisterBenchmark(("initialise/" + name).c_str(), initialise,
                                        *find_named<Initializer>(name)));
  settle(benchmark::RegisterBenchmark("dropout", dropout));
}

}  // namespace
}  // namespace norn

int main(int argc, char** argv) {
  norn::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
