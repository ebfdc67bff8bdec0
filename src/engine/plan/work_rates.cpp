// SPDX-License-Identifier: Apache-2.0
// What this machine does in a second, for the predicted time of a step.
#include "src/engine/plan/memory_plan.h"

#include <algorithm>
#include <chrono>

namespace norn {
namespace {

constexpr double kMeasureSeconds = 0.05;  // for each of the four kinds of work

// Repetitions of `work` a second, after one that warms up. A GPU is waited for after every few.
template <typename Work>
double repetitions_per_second(WorkQueue& queue, const Work& work) {
  using Clock = std::chrono::steady_clock;
  constexpr int kFew = 4;
  work();
  queue.wait_for_all();
  const Clock::time_point start = Clock::now();
  int count = 0;
  double passed = 0.0;
  do {
    for (int i = 0; i < kFew; ++i) work();
    queue.wait_for_all();
    count += kFew;
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (passed < kMeasureSeconds);
  return double(count) / passed;
}

// A sparse batch on the device: `entries` a row, spread over `cols` columns.
class SpreadBatch {
 public:
  SpreadBatch(Memory& memory, Index rows, Index cols, Index entries)
      : begin_(rows + 1, memory), column_(rows * entries, memory), rows_(rows), cols_(cols) {
    std::vector<RowOffset> begin;
    std::vector<Column> column;
    for (Index r = 0; r <= rows; ++r) begin.push_back(r * entries);
    for (Index i = 0; i < rows * entries; ++i) column.push_back(Column((i * 37) % cols));
    begin_.write(begin.data(), begin_.size());
    column_.write(column.data(), column_.size());
  }
  CsrView view() const {
    return {begin_.data(), column_.data(), nullptr, rows_, cols_, column_.size()};
  }

 private:
  Buffer<RowOffset> begin_;
  Buffer<Column> column_;
  Index rows_;
  Index cols_;
};

// The widest dense source, which sets the shape of the products.
Index dense_width(const Graph& graph) {
  Index width = 16;
  for (const Edge& edge : graph.edges)
    if (edge.has_weights() &&
        graph.network.layers[std::size_t(edge.source)].kind != LayerKind::input)
      width = std::max(width, graph.network.layers[std::size_t(edge.source)].units());
  return std::min<Index>(width, 2048);
}

}  // namespace

WorkRates measure_rates(const Compute& compute, const Graph& graph, Index batch) {
  const Index rows = std::min<Index>(batch, 1024);
  const Index width = dense_width(graph);
  Memory& memory = compute.memory;
  WorkQueue& queue = *compute.kernels.queue;
  const Index units = memory.is_host() ? 512 : 8192;  // of a block
  Matrix<float> x = Matrix<float>::zeros(rows, width, memory);
  Matrix<float> w = Matrix<float>::zeros(units, width, memory);
  const UpdateRule& rule = graph.network.training.optimizer;
  std::vector<Matrix<float>> state;
  SlotViews slots;
  for (int s = 0; s < slots_of(rule); ++s) {
    state.push_back(Matrix<float>::zeros(units, width, memory));
    slots[std::size_t(s)] = state.back().view();
  }
  Matrix<float> z = Matrix<float>::zeros(rows, units, memory);
  // A step's tasks work on blocks side by side, one lane each: so does the measurement.
  std::vector<Matrix<float>> lane_z;
  const int lanes = compute.executor.lanes();
  lane_z.reserve(std::size_t(lanes));
  for (int lane = 0; lane < lanes; ++lane)
    lane_z.push_back(Matrix<float>::zeros(rows, units, memory));

  WorkRates rates;
  rates.dense_flops =
      2.0 * double(rows * width * units) * lanes * repetitions_per_second(queue, [&] {
        compute.executor.for_each(lanes, [&](Index i, int) {
          compute.kernels.dense->multiply_transposed(
              x.view(), w.view(), lane_z[std::size_t(i)].view(), Existing::overwrite);
        });
      });
  const Activation sigmoid = Sigmoid{};
  rates.pointwise_elements = double(rows * units) * repetitions_per_second(queue, [&] {
                               compute.kernels.pointwise->activate(sigmoid, z.view());
                             });
  const UpdateStep step{.rate = 1e-3f};
  rates.updated_weights = double(units * width) * repetitions_per_second(queue, [&] {
                            compute.kernels.update->update(rule, step, w.view(), w.view(), slots);
                          });
  constexpr Index kEntries = 16;  // a row
  const SpreadBatch sparse(memory, rows, units, kEntries);
  rates.sparse_flops = 2.0 * double(rows * kEntries * width) * repetitions_per_second(queue, [&] {
                         compute.kernels.sparse->multiply(sparse.view(), w.view(), x.view());
                       });
  return rates;
}

double floor_seconds(const WorkPlan& work, const WorkRates& rates) {
  return work.dense_flops / rates.dense_flops + work.sparse_flops / rates.sparse_flops +
         work.updated_weights / rates.updated_weights;
}

}  // namespace norn
