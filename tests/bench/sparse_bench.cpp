// SPDX-License-Identifier: Apache-2.0
// Speed of the sparse kernels. Every result is compared with a plain loop on some rows before it is
// timed.
//   bytes/s counts what the algorithm must move: entries, the weight rows that they name (again for
//   every entry), results; FLOP/s counts one multiplication and one addition for each.

#include "kernels/kernels.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

namespace norn {
namespace {

/// A batch whose units are as unequally popular as those of catalogues: unit ~ N * u^3.
struct Batch {
  Batch(Index rows, Index cols, Index entries_a_row, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform;
    row_begin.push_back(0);
    for (Index r = 0; r < rows; ++r) {
      std::vector<Column> row;
      while (Index(row.size()) < entries_a_row) {
        for (Index i = Index(row.size()); i < entries_a_row; ++i)
          row.push_back(Column(double(cols) * std::pow(uniform(random), 3.0)));
        std::sort(row.begin(), row.end());
        row.erase(std::unique(row.begin(), row.end()), row.end());
      }
      column.insert(column.end(), row.begin(), row.end());
      row_begin.push_back(RowOffset(column.size()));
    }
    view = {row_begin.data(), column.data(), nullptr, rows, cols};
  }
  std::vector<RowOffset> row_begin;
  std::vector<Column> column;
  CsrView view;
};

Matrix<float> random_matrix(Index rows, Index cols) {
  Matrix<float> m(rows, cols);
  std::uint32_t word = 12345;
  for (Index i = 0; i < rows * cols; ++i) {
    word = word * 1664525u + 1013904223u;
    m.view().data[i] = float(word >> 8) * 0x1p-24f - 0.5f;
  }
  return m;
}

void fail(benchmark::State& state, const char* what) {
  state.SkipWithError(what);
}

struct Setting {
  explicit Setting(const benchmark::State& state)
      : batch(state.range(0)),
        units(state.range(1)),
        width(state.range(2)),
        entries(state.range(3)),
        kernels(make_cpu_kernels(executor)) {
    for (std::uint64_t seed = 0; seed < 4; ++seed)
      batches.emplace_back(batch, units, entries, seed);
  }
  Index batch, units, width, entries;
  Executor executor;
  Kernels kernels;
  std::vector<Batch> batches;  ///< taken in turn
};

void count(benchmark::State& state, double bytes, double flops) {
  const double n = double(state.iterations());
  state.counters["bytes"] = benchmark::Counter(bytes * n, benchmark::Counter::kIsRate);
  state.counters["flops"] = benchmark::Counter(flops * n, benchmark::Counter::kIsRate);
}

void multiply(benchmark::State& state) {
  Setting s(state);
  const Matrix<float> w = random_matrix(s.units, s.width);
  Matrix<float> z = Matrix<float>::zeros(s.batch, s.width);
  const CsrView x = s.batches[0].view;
  s.kernels.sparse->multiply(x, w.view(), z.view());
  for (Index r = 0; r < s.batch; r += 37) {
    double sum = 0.0;
    for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i)
      sum += double(w.view()(Index(x.column[i]), s.width - 1));
    if (!(std::abs(sum - double(z.view()(r, s.width - 1))) < 1e-3)) return fail(state, "wrong");
  }
  std::size_t turn = 0;
  for (auto _ : state) s.kernels.sparse->multiply(s.batches[turn++ % 4].view, w.view(), z.view());
  const double products = double(s.batch * s.entries * s.width);
  count(state, 4.0 * products + 8.0 * double(s.batch * s.width), products);
}

void transpose(benchmark::State& state) {
  Setting s(state);
  TransposedBatch xt;
  s.kernels.sparse->transpose(s.batches[0].view, xt);
  if (!std::is_sorted(xt.unit.data(), xt.unit.data() + xt.touched) ||
      xt.begin.data()[xt.touched] != s.batch * s.entries)
    return fail(state, "wrong");
  std::size_t turn = 0;
  for (auto _ : state) s.kernels.sparse->transpose(s.batches[turn++ % 4].view, xt);
  state.SetItemsProcessed(state.iterations() * s.batch * s.entries);
}

void update_rows(benchmark::State& state, const UpdateRule& rule) {
  Setting s(state);
  Matrix<float> w = random_matrix(s.units, s.width);
  std::vector<Matrix<float>> slots;
  Buffer<std::int64_t> done = Buffer<std::int64_t>::zeros(s.units);
  const Matrix<float> delta = random_matrix(s.batch, s.width);
  RowState rows{w.view(), {}, done.view()};
  for (MatrixView<float>& slot : rows.slot)
    slot = slots.emplace_back(Matrix<float>::zeros(s.units, s.width)).view();
  std::vector<TransposedBatch> xt(4);
  double touched = 0.0;
  for (std::size_t i = 0; i < 4; ++i) {
    s.kernels.sparse->transpose(s.batches[i].view, xt[i]);
    touched += double(xt[i].touched) / 4.0;
  }
  const UpdateSchedule schedule;
  const float scale = 1.0f / float(s.batch);
  {
    const Index unit = Index(xt[0].unit.data()[0]);
    double g = 0.0;
    for (RowOffset i = 0; i < xt[0].begin.data()[1]; ++i)
      g += double(delta.view()(xt[0].example.data()[i], 0)) * double(scale);
    float expected = w.view()(unit, 0);
    float state_of_unit[kMostSlots] = {};
    const UpdateStep first = schedule.at(rule, 0);
    std::visit([&](const auto& r) { r.step(expected, float(g), state_of_unit, first); }, rule);
    s.kernels.sparse->update_rows(rule, schedule, 0, xt[0], delta.view(), scale, rows);
    s.kernels.sparse->mark_done(xt[0], 0, done.view());
    if (!(std::abs(expected - w.view()(unit, 0)) < 1e-3f)) return fail(state, "wrong");
  }
  std::int64_t step = 1;
  for (auto _ : state) {
    const TransposedBatch& batch = xt[std::size_t(step % 4)];
    s.kernels.sparse->update_rows(rule, schedule, step, batch, delta.view(), scale, rows);
    s.kernels.sparse->mark_done(batch, step, done.view());
    ++step;
  }
  const double products = double(s.batch * s.entries * s.width);
  count(state, 8.0 * (1 + slots_of(rule)) * touched * double(s.width) + 4.0 * products, products);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"B", "N", "M", "nnz"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  bench->Args({256, 27'278, 128, 100});
  bench->Args({256, 27'278, 1536, 100});
  bench->Args({1024, 500'000, 128, 30});
  bench->Args({1024, 2'000'000, 128, 300});
}

BENCHMARK(multiply)->Apply(sizes);
BENCHMARK(transpose)->Apply(sizes);
BENCHMARK_CAPTURE(update_rows, sgd, UpdateRule(Sgd{}))->Apply(sizes);
BENCHMARK_CAPTURE(update_rows, momentum, UpdateRule(Momentum{}))->Apply(sizes);
BENCHMARK_CAPTURE(update_rows, adam, UpdateRule(Adam{}))->Apply(sizes);

}  // namespace
}  // namespace norn

BENCHMARK_MAIN();
