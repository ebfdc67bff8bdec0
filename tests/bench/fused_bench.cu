// SPDX-License-Identifier: Apache-2.0
// Fused products beside the same work in separate kernels: cuBLASLt's product, then the update or
// the costs. Operands rotate, so that weights come from memory.
//
//   fused_bench [output]      only the output layer's
#include "kernels/cost.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/dense.h"
#include "kernels/fused.h"
#include "kernels/update.h"
#include "tests/bench/device_timing.cuh"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace norn;

constexpr double kPeak = 790e12;       // dense bfloat16 products of an H200, FLOP/s
constexpr double kBandwidth = 4.3e12;  // bytes/s
constexpr int kCopies = 3;

struct Shape {
  const char* name;
  Index examples;
  Index units;
  Index width;
  int stored;         ///< targets of an example in the block
  double skew = 1.0;  ///< the units that are drawn are those of this power of a uniform number
};
constexpr Shape kShapes[] = {
    {"shop500k", 1024, 8192, 1024, 2}, {"shop500k", 1024, 16384, 1024, 3},
    {"shop500k", 8192, 8192, 1024, 2}, {"shop500k", 8192, 16384, 1024, 3},
    {"wide", 1024, 65536, 128, 6},     {"wide", 1024, 65536, 1024, 6},
    {"shop10m", 1024, 131072, 256, 1}, {"ml20m", 1024, 6912, 1536, 36},
    {"ml20m", 1024, 27272, 1536, 144}, {"popular", 1024, 6912, 1536, 140, 8.0},
    {"hidden", 1024, 1536, 1536, 0},   {"wide500k", 1024, 125056, 128, 25},
    {"wide1m", 1024, 125056, 256, 12}, {"wide2m", 1024, 131072, 64, 7}};

/// A matrix in both formats, some copies one below the other.
struct Both {
  Both(Index all_rows, Index all_cols, int copies, Memory& memory, float scale, float offset = 0)
      : rows(all_rows),
        cols(all_cols),
        values(rows * cols * copies, memory),
        bf16(rows * cols * copies, memory) {
    bench::fill<<<2048, 256>>>(values.data(), bf16.data(), values.size(), scale, offset);
    cuda::check_launch("fill");
  }
  MatrixView<float> view(int copy = 0) {
    return {values.data() + copy * rows * cols, rows, cols, cols};
  }
  MatrixView<Bfloat16> bf16_view(int copy = 0) {
    return {bf16.data() + copy * rows * cols, rows, cols, cols};
  }
  DenseOperand operand(int copy = 0) { return {view(copy), bf16_view(copy)}; }
  Index rows, cols;
  Buffer<float> values;
  Buffer<Bfloat16> bf16;
};

/// Median seconds of work(copy).
template <class Work>
double seconds(const Work& work) {
  return bench::seconds_of(11, [&](int run) { work((run + kCopies) % kCopies); });
}

void report(bool done, const Shape& shape, const char* what, double fused, double separate,
            double bytes) {
  if (!done) {
    std::printf("%s %s: not supported\n", shape.name, what);
    return;
  }
  const double flops = 2.0 * double(shape.examples) * double(shape.units) * double(shape.width);
  const double floor = std::max(flops / kPeak, bytes / kBandwidth);
  std::printf(
      "%-8s B %5lld W %6lld N %5lld  %-18s %8.1f us %5.0f TFLOP/s %5.0f GB/s %3.0f %% of floor, "
      "separate %8.1f us, %.2fx\n",
      shape.name, (long long)shape.examples, (long long)shape.units, (long long)shape.width, what,
      fused * 1e6, flops / fused * 1e-12, bytes / fused * 1e-9, 100 * floor / fused, separate * 1e6,
      separate / fused);
  std::fflush(stdout);
}

struct Device {
  explicit Device(int multiprocessors)
      : memory(nullptr, true),
        stream{nullptr, memory, Precision::bf16, multiprocessors},
        fused(cuda::make_fused(stream)),
        dense(cuda::make_dense(stream)),
        update(cuda::make_update(stream)),
        cost(cuda::make_cost(stream)) {}
  cuda::DeviceMemory memory;
  cuda::Stream stream;
  std::unique_ptr<FusedKernels> fused;
  std::unique_ptr<DenseKernels> dense;
  std::unique_ptr<UpdateKernels> update;
  std::unique_ptr<CostKernels> cost;
};

void time_update(Device& gpu, const Shape& shape, const UpdateRule& rule, const char* name) {
  const Index rows = shape.units;
  const Index cols = shape.width;
  Both delta(shape.examples, rows, 1, gpu.memory, 1.0f);
  Both x(shape.examples, cols, 1, gpu.memory, 1.0f);
  Both w(rows, cols, kCopies, gpu.memory, 1.0f);
  Both slot0(rows, cols, kCopies, gpu.memory, 0.1f);
  Both slot1(rows, cols, kCopies, gpu.memory, 0.1f, 0.2f);
  Buffer<std::int16_t> lower(kCopies * rows * cols, gpu.memory);
  lower.fill_zero();
  const auto weights = [&](int i) {
    return WeightView{w.bf16_view(i), {lower.data() + i * rows * cols, rows, cols, cols}};
  };
  Buffer<float> gradient(rows * cols, gpu.memory);
  const MatrixView<float> g{gradient.data(), rows, cols, cols};
  const UpdateStep step{0.01f, 0.0f, 0.0f, 1.5f, 2.0f};
  const float scale = 1.0f / float(shape.examples);
  bool done = true;
  const double fused = seconds([&](int i) {
    done = gpu.fused->update(rule, step, delta.operand(), x.operand(), scale, weights(i),
                             {slot0.view(i), slot1.view(i)}) &&
           done;
  });
  const double separate = seconds([&](int i) {
    gpu.dense->gradient(delta.operand(), x.operand(), scale, g);
    gpu.update->update(rule, step, weights(i), g, {slot0.view(i), slot1.view(i)});
  });
  const double per_weight = 8.0 + 8.0 * slots_of(rule);
  const double bytes =
      per_weight * double(rows * cols) + 2.0 * double(shape.examples * (rows + cols));
  report(done, shape, name, fused, separate, bytes);
}

/// An output layer: what stands on the GPU, and the call's block.
struct Layer {
  Layer(Device& gpu, const Shape& shape)
      : x(shape.examples, shape.width, 1, gpu.memory, 1.0f),
        w(shape.units, shape.width, kCopies, gpu.memory, 0.1f),
        delta(shape.examples, shape.units, 1, gpu.memory, 0.0f),
        bias(1, shape.units, 1, gpu.memory, 0.1f, -5.0f),
        cost(1, gpu.memory),
        bias_gradient(shape.units, gpu.memory) {
    draw_targets(gpu, shape);
    block.x = x.operand();
    block.bias = {bias.values.data(), shape.units};
    block.target.sparse = {row_begin.data(), column.data(), nullptr,
                           shape.examples,   shape.units,   column.size()};
    block.delta = delta.view();
    block.bf16_delta = delta.bf16_view();
    block.cost = cost.data();
    block.bias_gradient = bias_gradient.view();
  }
  void draw_targets(Device& gpu, const Shape& shape) {
    std::mt19937 random(5);
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    std::vector<RowOffset> begins{0};
    std::vector<Column> columns;
    for (Index b = 0; b < shape.examples; ++b) {
      std::vector<Column> row;
      for (int i = 0; i < shape.stored; ++i)
        row.push_back(Column(std::pow(uniform(random), shape.skew) * double(shape.units)));
      std::sort(row.begin(), row.end());
      row.erase(std::unique(row.begin(), row.end()), row.end());
      columns.insert(columns.end(), row.begin(), row.end());
      begins.push_back(RowOffset(columns.size()));
    }
    row_begin = Buffer<RowOffset>(Index(begins.size()), gpu.memory);
    column = Buffer<Column>(Index(columns.size()), gpu.memory);
    row_begin.write(begins.data(), row_begin.size());
    column.write(columns.data(), column.size());
  }
  Both x, w, delta, bias;
  Buffer<double> cost;
  Buffer<float> bias_gradient;
  Buffer<RowOffset> row_begin;
  Buffer<Column> column;
  OutputBlock block;
};

/// Median seconds of the delta of the layer, a copy of its weights after the other.
double output_seconds(Device& gpu, Layer& layer, bool& done) {
  return seconds([&](int i) {
    layer.block.w = layer.w.operand(i);
    done = gpu.fused->output_delta(layer.block) && done;
    gpu.fused->add_totals();
  });
}

void multiply(Device& gpu, Layer& layer, int run) {
  gpu.dense->multiply_transposed(layer.x.operand(), layer.w.operand(run), layer.delta.view(),
                                 Existing::overwrite);
}

double output_bytes(const Shape& shape) {
  return 2.0 * double(shape.examples * (shape.width + shape.units) + shape.units * shape.width);
}

void time_output(Device& gpu, const Shape& shape, Layer& layer) {
  const UnitCost rule{Sigmoid{}, ScaledMarginalCrossEntropy{1.0f, 0.0f, 1.0f, 1.0f}, 1.0f, 1.0f};
  layer.block.rule = rule;
  bool done = true;
  const double fused = output_seconds(gpu, layer, done);
  const double separate = seconds([&](int i) {
    multiply(gpu, layer, i);
    gpu.cost->delta(rule, layer.block.target, 0, layer.delta.view(), layer.cost.data(),
                    layer.delta.bf16_view());
  });
  report(done, shape, "output_delta", fused, separate, output_bytes(shape));
}

/// The second pass over a SoftMax layer, beside the product as floats.
void time_softmax(Device& gpu, const Shape& shape, Layer& layer) {
  const SoftMaxCost rule{CrossEntropy{}};
  layer.block.rule = rule;
  Buffer<float> maximum = Buffer<float>::zeros(shape.examples, gpu.memory);
  const std::vector<std::int64_t> ones(std::size_t(shape.examples), std::int64_t(1) << 40);
  Buffer<std::int64_t> total(shape.examples, gpu.memory);
  total.write(ones.data(), total.size());
  gpu.fused->softmax_rows(rule, layer.block.target, {maximum.view(), total.view(), total.view()});
  bool done = true;
  const double fused = output_seconds(gpu, layer, done);
  const double product = seconds([&](int i) { multiply(gpu, layer, i); });
  report(done, shape, "SoftMax's delta", fused, product, output_bytes(shape));
}

/// The first pass over a SoftMax layer, beside the product as floats and a pass over these.
void time_statistics(Device& gpu, const Shape& shape, Layer& layer) {
  layer.block.rule = SoftMaxCost{CrossEntropy{}};
  Buffer<float> maximum(shape.examples, gpu.memory);
  Buffer<float> sum(shape.examples, gpu.memory);
  bool done = true;
  const double fused = seconds([&](int i) {
    layer.block.w = layer.w.operand(i);
    done = gpu.fused->softmax_statistics(layer.block,
                                         {maximum.data(), 1, shape.examples, shape.examples},
                                         {sum.data(), 1, shape.examples, shape.examples}) &&
           done;
  });
  const double separate = seconds([&](int i) {
    multiply(gpu, layer, i);
    gpu.cost->softmax_statistics(layer.delta.view(), maximum.view(), sum.view());
  });
  const double bytes = 2.0 * double(shape.width * (shape.examples + shape.units));
  report(done, shape, "statistics", fused, separate, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const bool output_only = argc > 1 && std::string(argv[1]) == "output";
  int multiprocessors = 0;
  cuda::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
              "cudaDeviceGetAttribute");
  Device gpu(multiprocessors);
  for (const Shape& shape : kShapes) {
    if (!output_only) {
      time_update(gpu, shape, Adam{}, "update, Adam");
      time_update(gpu, shape, Sgd{}, "update, SGD");
    }
    if (shape.stored == 0) continue;
    Layer layer(gpu, shape);
    time_output(gpu, shape, layer);
    time_softmax(gpu, shape, layer);
    time_statistics(gpu, shape, layer);
  }
}
