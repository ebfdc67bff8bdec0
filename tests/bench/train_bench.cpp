// SPDX-License-Identifier: Apache-2.0
// Training steps of whole networks on synthetic power-law data: samples a second, share of the
// floor that dense products alone would set, working memory. The cost of the first batch is checked
// in float64 before anything is timed.
#include "norn/base/text.h"
#include "norn/engine/network.h"
#include "tests/bench/synthetic.h"

#include <chrono>
#include <cstdio>
#include <numeric>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

namespace {

using namespace norn;

struct Shape {
  const char* name;
  Index width;  // inputs and outputs
  std::vector<Index> hidden;
  Activation activation;
  bool softmax;
  UpdateRule optimizer;
  Index batch;
  Index per_example;
  float denoising;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"debian_packages/softmax/Adam", 7421, {128}, Tanh{}, true, Adam{}, 512, 10, 0.5f},
      {"wide27k/sigmoid/SGD", 27278, {512}, Relu{}, false, Sgd{}, 256, 150, 0.0f},
      {"wide27k/sigmoid/Adam", 27278, {512}, Relu{}, false, Adam{}, 256, 150, 0.0f},
      {"wide500k/sigmoid/SGD", 500000, {128}, Relu{}, false, Sgd{}, 256, 100, 0.0f},
      {"wide500k/softmax/Adam", 500000, {128}, Tanh{}, true, Adam{}, 256, 100, 0.0f},
  };
  return all;
}

NetworkDescriptor descriptor_of(const Shape& shape) {
  NetworkDescriptor network;
  network.loss = shape.softmax ? Loss(CrossEntropy{})
                               : Loss(ScaledMarginalCrossEntropy{1.0f, 0.0f, 1.0f, 1.0f});
  network.target_weight = TargetWeight::one;
  network.denoising = shape.denoising;
  network.training.optimizer = shape.optimizer;
  network.training.rate = 1e-3f;
  network.training.lambda = 0.0f;
  network.training.batch = shape.batch;
  LayerDescriptor input;
  input.name = "Input";
  input.kind = LayerKind::input;
  input.dataset = "input";
  input.extent[0] = shape.width;
  input.sparse = true;
  network.layers.push_back(input);
  for (Index units : shape.hidden) {
    LayerDescriptor hidden;
    hidden.name = fmt::format("Hidden{}", network.layers.size());
    hidden.extent[0] = units;
    hidden.activation = shape.activation;
    hidden.sources = {network.layers.back().name};
    network.layers.push_back(hidden);
  }
  LayerDescriptor output;
  output.name = "Output";
  output.kind = LayerKind::output;
  output.dataset = "output";
  output.extent[0] = shape.width;
  output.sources = {network.layers.back().name};
  output.init.bias = shape.softmax ? 0.0f : -5.0f;
  if (shape.softmax) output.activation = SoftMax{};
  network.layers.push_back(output);
  return network;
}

// One network with a few batches to rotate.
class Bench {
 public:
  explicit Bench(const Shape& shape) : shape_(shape), one_(make_single_process()) {
    const std::vector<DatasetShape> sets = {{"input", 1, {shape.width, 1, 1}, true},
                                            {"output", 1, {shape.width, 1, 1}, true}};
    data_ =
        bench::power_law_dataset("data", shape.batch * kBatches, shape.width, shape.per_example, 7);
    batches_.resize(kBatches);
    for (Index b = 0; b < kBatches; ++b) {
      std::vector<Index> examples(std::size_t(shape.batch));
      std::iota(examples.begin(), examples.end(), b * shape.batch);
      data_->gather(examples, batches_[std::size_t(b)]);
    }
    network_ = std::make_unique<Network>(make_graph(descriptor_of(shape), sets, shape.name), sets,
                                         runtime_.context(*one_), shape.batch, Pass::training);
    network_->initialise(1);
  }

  BoundBatch batch(std::int64_t step) const {
    const HostBatch* host = &batches_[std::size_t(step % kBatches)];
    BoundBatch bound;
    bound.of_layer.assign(shape_.hidden.size() + 2, nullptr);
    bound.ignore_absent.assign(shape_.hidden.size() + 2, false);
    bound.of_layer.front() = bound.of_layer.back() = host;
    bound.examples = host->examples;
    return bound;
  }

  // Mean cost of the first examples by float64 loops over the network's outputs.
  double expected_cost(Index examples) {
    double cost = 0.0;
    std::vector<std::vector<double>> y(std::size_t(shape_.batch),
                                       std::vector<double>(std::size_t(shape_.width)));
    network_->predict(batch(0), int(shape_.hidden.size()) + 1,
                      [&](Range units, MatrixView<const float> block, int) {
                        for (Index e = 0; e < examples; ++e)
                          for (Index u = 0; u < units.count(); ++u)
                            y[std::size_t(e)][std::size_t(units.begin + u)] = double(block(e, u));
                      });
    const CsrView target = batches_[0].csr();
    for (Index e = 0; e < examples; ++e) {
      const auto& row = y[std::size_t(e)];
      if (!shape_.softmax)
        for (double p : row) cost -= std::log1p(-p);
      for (RowOffset i = target.row_begin[e]; i < target.row_begin[e + 1]; ++i) {
        const double p = row[target.column[i]];
        cost -= shape_.softmax ? std::log(p) : std::log(p) - std::log1p(-p);
      }
    }
    return cost / double(examples);
  }

  // The next step; returns the mean cost of its batch.
  double step() {
    const std::int64_t number = number_++;
    return network_->train_step(batch(number), {number, number / kBatches, 1}).value() /
           double(shape_.batch);
  }

  // The mean cost of the batches, each once more, after at least 32 steps in all.
  double rotation() {
    while (number_ < 32 || number_ % kBatches != 0) step();
    double cost = 0.0;
    for (Index b = 0; b < kBatches; ++b) cost += step();
    return cost / double(kBatches);
  }

  // Dense products of the step: three for every dense connection.
  double flops() const {
    double flops = 0.0;
    Index below = shape_.hidden.front();
    for (std::size_t i = 1; i < shape_.hidden.size(); ++i) {
      flops += 6.0 * double(shape_.batch) * double(below) * double(shape_.hidden[i]);
      below = shape_.hidden[i];
    }
    return flops + 6.0 * double(shape_.batch) * double(below) * double(shape_.width);
  }
  Network& network() { return *network_; }
  const Shape& shape() const { return shape_; }

 private:
  static constexpr Index kBatches = 4;
  std::int64_t number_ = 0;
  const Shape& shape_;
  CpuRuntime runtime_;
  std::unique_ptr<Communicator> one_;
  std::unique_ptr<Dataset> data_;
  std::vector<HostBatch> batches_;
  std::unique_ptr<Network> network_;
};

void train(benchmark::State& state, const Shape& shape) {
  Bench bench(shape);
  double expected = 0.0;
  const bool check = shape.denoising == 0.0f && shape.width < 100000;
  if (check) expected = bench.expected_cost(shape.batch);
  const double first = bench.step();
  if (check && std::abs(first - expected) > 1e-4 * std::abs(expected)) {
    state.SkipWithError(fmt::format("cost {} differs from float64's {}", first, expected).c_str());
    return;
  }
  for (auto _ : state) bench.step();
  if (!(bench.rotation() < first)) state.SkipWithError("the cost does not fall");
  state.counters["samples/s"] = benchmark::Counter(double(state.iterations()) * double(shape.batch),
                                                   benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(double(state.iterations()) * bench.flops() * 1e-9,
                                                 benchmark::Counter::kIsRate);
  state.counters["working_MB"] = double(bench.network().working_bytes()) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
  for (const Shape& shape : shapes())
    benchmark::RegisterBenchmark(shape.name,
                                 [&shape](benchmark::State& state) { train(state, shape); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime()
        ->MeasureProcessCPUTime();
  benchmark::Initialize(&argc, argv);
  std::printf("%s, %d threads\n", describe_cpu_kernels().c_str(), available_cores());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
