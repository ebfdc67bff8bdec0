// SPDX-License-Identifier: Apache-2.0
// What this machine does in a second, for the predicted time of a step.
#include "norn/engine/memory_plan.h"

#include <algorithm>
#include <chrono>

namespace norn {
namespace {

constexpr double kMeasureSeconds = 0.05;  // for each of the four kinds of work

// Repetitions of `work` a second, after one that warms up.
template <typename Work>
double repetitions_per_second(const Work& work) {
  using Clock = std::chrono::steady_clock;
  work();
  const Clock::time_point start = Clock::now();
  int count = 0;
  double passed = 0.0;
  do {
    work();
    ++count;
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (passed < kMeasureSeconds);
  return double(count) / passed;
}

// The widest dense source, which sets the shape of the products.
Index dense_width(const Graph& graph) {
  Index width = 16;
  for (const Edge& edge : graph.edges)
    if (graph.network.layers[std::size_t(edge.source)].kind != LayerKind::input)
      width = std::max(width, graph.network.layers[std::size_t(edge.source)].units());
  return std::min<Index>(width, 2048);
}

}  // namespace

WorkRates measure_rates(const Compute& compute, const Graph& graph, Index batch) {
  const Index rows = std::min<Index>(batch, 1024);
  const Index width = dense_width(graph);
  constexpr Index kUnits = 512;
  Matrix<float> x = Matrix<float>::zeros(rows, width);
  Matrix<float> w = Matrix<float>::zeros(kUnits, width);
  Matrix<float> state0 = Matrix<float>::zeros(kUnits, width);
  Matrix<float> state1 = Matrix<float>::zeros(kUnits, width);
  Matrix<float> z = Matrix<float>::zeros(rows, kUnits);
  // A step's tasks work on blocks side by side, one lane each: so does the measurement.
  std::vector<Matrix<float>> lane_z;
  const int lanes = compute.executor.lanes();
  lane_z.reserve(std::size_t(lanes));
  for (int lane = 0; lane < lanes; ++lane) lane_z.push_back(Matrix<float>::zeros(rows, kUnits));

  WorkRates rates;
  rates.dense_flops =
      2.0 * double(rows * width * kUnits) * lanes * repetitions_per_second([&] {
        compute.executor.for_each(lanes, [&](Index i, int) {
          compute.kernels.dense->multiply_transposed(
              x.view(), w.view(), lane_z[std::size_t(i)].view(), Existing::overwrite);
        });
      });
  const Activation sigmoid = Sigmoid{};
  rates.pointwise_elements = double(rows * kUnits) * repetitions_per_second([&] {
                               compute.kernels.pointwise->activate(sigmoid, z.view());
                             });
  const UpdateStep step{.rate = 1e-3f};
  rates.updated_weights =
      double(kUnits * width) * repetitions_per_second([&] {
        compute.kernels.update->update(graph.network.training.optimizer, step, w.view(), w.view(),
                                       {state0.view(), state1.view()});
      });
  constexpr Index kEntries = 16;  // a row
  std::vector<RowOffset> begin;
  std::vector<Column> column;
  for (Index r = 0; r <= rows; ++r) begin.push_back(r * kEntries);
  for (Index i = 0; i < rows * kEntries; ++i) column.push_back(Column((i * 37) % kUnits));
  const CsrView sparse{begin.data(), column.data(), nullptr, rows, kUnits};
  rates.sparse_flops = 2.0 * double(rows * kEntries * width) * repetitions_per_second([&] {
                         compute.kernels.sparse->multiply(sparse, w.view(), x.view());
                       });
  return rates;
}

double predicted_seconds(const WorkPlan& work, const WorkRates& rates) {
  return work.dense_flops / rates.dense_flops + work.sparse_flops / rates.sparse_flops +
         work.pointwise_elements / rates.pointwise_elements +
         work.updated_weights / rates.updated_weights;
}

}  // namespace norn
