// SPDX-License-Identifier: Apache-2.0
// Speed of dense products. Some elements are compared with float64 sums before anything is timed.

#include "kernels/kernels.h"

#include <cmath>

#include <benchmark/benchmark.h>

namespace norn {
namespace {

Matrix<float> random_matrix(Index rows, Index cols) {
  Matrix<float> m(rows, cols);
  std::uint32_t word = 12345;
  for (Index i = 0; i < rows * cols; ++i) {
    word = word * 1664525u + 1013904223u;
    m.view().data[i] = float(word >> 8) * 0x1p-24f - 0.5f;
  }
  return m;
}

/// Whether an element of a product is what float64 makes of it.
template <typename Term>
bool is_right(float actual, Index terms, const Term& term) {
  double sum = 0.0;
  for (Index k = 0; k < terms; ++k) sum += term(k);
  return std::abs(double(actual) - sum) < 1e-6 * double(terms) + 1e-5;
}

/// The three products of a block of units: B examples, M units of the block, N source units.
struct Products {
  explicit Products(const benchmark::State& state)
      : batch(state.range(0)),
        units(state.range(1)),
        sources(state.range(2)),
        executor(int(state.range(3))),
        kernels(make_cpu_kernels(executor)),
        x(random_matrix(batch, sources)),
        w(random_matrix(units, sources)),
        delta(random_matrix(batch, units)) {}
  Index batch, units, sources;
  Executor executor;
  Kernels kernels;
  Matrix<float> x, w, delta;

  void count(benchmark::State& state) const {
    state.counters["flops"] =
        benchmark::Counter(2.0 * double(batch * units * sources) * double(state.iterations()),
                           benchmark::Counter::kIsRate);
  }
};

void forward(benchmark::State& state) {
  Products p(state);
  Matrix<float> z(p.batch, p.units);
  const auto run = [&] {
    p.kernels.dense->multiply_transposed(p.x.view(), p.w.view(), z.view(), Existing::overwrite);
  };
  run();
  for (Index r = 0; r < p.batch; r += 31) {
    const Index c = (r * 7) % p.units;
    if (!is_right(z.view()(r, c), p.sources,
                  [&](Index k) { return double(p.x.view()(r, k)) * double(p.w.view()(c, k)); }))
      return state.SkipWithError("wrong");
  }
  for (auto _ : state) run();
  p.count(state);
}

void input_delta(benchmark::State& state) {
  Products p(state);
  Matrix<float> dx(p.batch, p.sources);
  const auto run = [&] { p.kernels.dense->multiply(p.delta.view(), p.w.view(), dx.view()); };
  run();
  for (Index r = 0; r < p.batch; r += 31) {
    const Index c = (r * 7) % p.sources;
    if (!is_right(dx.view()(r, c), p.units,
                  [&](Index k) { return double(p.delta.view()(r, k)) * double(p.w.view()(k, c)); }))
      return state.SkipWithError("wrong");
  }
  for (auto _ : state) run();
  p.count(state);
}

void gradient(benchmark::State& state) {
  Products p(state);
  Matrix<float> g(p.units, p.sources);
  const auto run = [&] { p.kernels.dense->gradient(p.delta.view(), p.x.view(), 1.0f, g.view()); };
  run();
  for (Index r = 0; r < p.units; r += 31) {
    const Index c = (r * 7) % p.sources;
    if (!is_right(g.view()(r, c), p.batch,
                  [&](Index k) { return double(p.delta.view()(k, r)) * double(p.x.view()(k, c)); }))
      return state.SkipWithError("wrong");
  }
  for (auto _ : state) run();
  p.count(state);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"B", "M", "N", "lanes"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int lanes : {1, 0})  // 0: all cores
    for (const int batch : {256, 1024})
      for (const int units : {512, 2048})
        for (const int sources : {128, 1536}) bench->Args({batch, units, sources, lanes});
}

BENCHMARK(forward)->Apply(sizes);
BENCHMARK(input_delta)->Apply(sizes);
BENCHMARK(gradient)->Apply(sizes);

}  // namespace
}  // namespace norn

int main(int argc, char** argv) {
  benchmark::AddCustomContext("blas", norn::describe_cpu_kernels());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
