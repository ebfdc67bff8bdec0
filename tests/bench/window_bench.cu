// SPDX-License-Identifier: Apache-2.0
// Products of windows by themselves, of layers of VGG-16, AlexNet and the strawman: the sums alone,
// what becomes of them, and gradients, in bfloat16, and gradients in tf32: turning, products of
// what is turned, and all of it. Images are larger than the second-level cache. "taps" are windows
// of 1 and 25 taps: what a tile takes, and each stage of it.
#include "kernels/convolution.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/turned_images.h"
#include "kernels/cuda/windows/turned_product.h"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/window_pieces.h"
#include "tests/bench/device_timing.cuh"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace norn;

struct Layer {
  const char* name;
  Index examples, side, channels, filters, kernel, stride = 1;

  Window window() const {
    Window w;
    for (std::size_t a = 0; a < 2; ++a) {
      w.in[a] = side;
      w.kernel[a] = kernel;
      w.stride[a] = stride;
      w.padding[a] = kernel / 2;
      w.out[a] = (side + 2 * w.padding[a] - kernel) / stride + 1;
    }
    w.channels = channels;
    w.order = UnitOrder::channels_last;
    return w;
  }
};
constexpr Layer kLayers[] = {
    {"vgg 1.2", 256, 224, 64, 64, 3},       {"vgg 2.1", 256, 112, 64, 128, 3},
    {"vgg 2.2", 256, 112, 128, 128, 3},     {"vgg 3.2", 256, 56, 256, 256, 3},
    {"vgg 4.2", 256, 28, 512, 512, 3},      {"vgg 5.2", 256, 14, 512, 512, 3},
    {"alexnet 2", 1024, 27, 96, 256, 5},    {"alexnet 4", 1024, 13, 384, 384, 3},
    {"strawman 2", 1024, 32, 96, 96, 3},    {"strawman 3", 1024, 32, 96, 96, 3, 2},
    {"strawman 4", 1024, 16, 96, 192, 3},   {"strawman 5", 1024, 16, 192, 192, 3},
    {"taps 1, 96", 1024, 32, 96, 96, 1},    {"taps 25, 96", 1024, 32, 96, 96, 5},
    {"taps 1, 128", 1024, 32, 128, 128, 1}, {"taps 25, 128", 1024, 32, 128, 128, 5}};

template <typename T>
struct Matrix {
  Matrix(Index all_rows, Index all_cols, Memory& memory)
      : rows(all_rows), cols(all_cols), values(rows * cols, memory) {
    if constexpr (std::is_same_v<T, float>)
      bench::fill<<<2048, 256>>>(values.data(), nullptr, values.size(), 1.0f, 0.0f);
    else
      bench::fill<<<2048, 256>>>(nullptr, values.data(), values.size(), 1.0f, 0.0f);
    cuda::check_launch("fill");
  }
  MatrixView<T> view() { return {values.data(), rows, cols, cols}; }
  Index rows, cols;
  Buffer<T> values;
};

/// Median seconds of work().
template <class Work>
double seconds(const Work& work) {
  return bench::seconds_of(7, [&](int) { work(); });
}

/// What is a product of a layer, or a part of it.
void report(const Layer& layer, const char* what, double time) {
  const Window window = layer.window();
  const double flops = 2.0 * double(layer.examples * window.out_places() * layer.filters) *
                       double(window.taps() * layer.channels);
  std::printf("%-12s %-28s %8.1f us %5.0f TFLOP/s\n", layer.name, what, time * 1e6,
              flops / time * 1e-12);
  std::fflush(stdout);
}

void time_layer(const cuda::Stream& stream, Memory& memory, const Layer& layer) {
  const Window window = layer.window();
  const Index depth = window.taps() * window_pieces::padded_channels<Bfloat16>(window);
  const Index windows = layer.examples * window.out_places();
  Matrix<Bfloat16> x(layer.examples, window.places() * layer.channels, memory);
  Matrix<Bfloat16> filters(layer.filters, depth, memory);
  Matrix<float> y(windows, layer.filters, memory), outputs(windows, layer.filters, memory);
  Matrix<Bfloat16> bf16(windows, layer.filters, memory);
  Matrix<float> bias(1, layer.filters, memory);
  const auto product = [&](const char* what, const cuda::WindowResult& to) {
    report(layer, what,
           seconds([&] { cuda::multiply_windows(stream, window, x.view(), filters.view(), to); }));
  };
  const cuda::SignedSlopes relu{0.0f, true};
  product("sums alone", {.result = {y.view().data, windows, 0, layer.filters}});
  product("floats", {.result = y.view()});
  product("bias, Relu, bf16 beside", {.result = y.view(),
                                      .bias = {bias.view().data, layer.filters},
                                      .f = relu,
                                      .bf16 = bf16.view()});
  product("slope, bf16 beside",
          {.result = y.view(), .f = relu, .outputs = outputs.view(), .bf16 = bf16.view()});
  const MatrixView<float> none{nullptr, windows, layer.filters, layer.filters};
  product(
      "bias, Relu, bf16 alone",
      {.result = none, .bias = {bias.view().data, layer.filters}, .f = relu, .bf16 = bf16.view()});
  Matrix<Bfloat16> bf16_outputs(windows, layer.filters, memory);
  product("slope, bf16 alone",
          {.result = none, .f = relu, .bf16_outputs = bf16_outputs.view(), .bf16 = bf16.view()});
  const auto gradient = [&](const char* what, Index runs) {
    const Index slices =
        window_pieces::gradient_slices(window, layer.filters, layer.examples / runs);
    Matrix<float> parts(runs * slices * layer.filters,
                        window_pieces::gradient_columns(window, layer.filters), memory);
    report(layer, what, seconds([&] {
             cuda::multiply_window_slices(stream, window, bf16.view(), x.view(), runs, slices,
                                          parts.view());
           }));
  };
  gradient("gradient", 1);
  gradient("gradients of 8 runs", 8);
}

// In tf32. Of the sums alone tiles come to be, but only the first row is the result's.
void time_floats(const cuda::Stream& stream, Memory& memory, const Layer& layer) {
  const Window window = layer.window();
  const Index windows = layer.examples * window.out_places();
  const double flops = 2.0 * double(windows * layer.filters * window.taps() * layer.channels);
  Matrix<float> x(layer.examples, window.places() * layer.channels, memory);
  Matrix<float> filters(layer.filters,
                        window.taps() * window_pieces::padded_channels<float>(window), memory);
  Matrix<float> y(windows, layer.filters, memory), outputs(windows, layer.filters, memory);
  Matrix<float> bias(1, layer.filters, memory);
  const auto product = [&](const char* what, const cuda::WindowResult& to) {
    const double time =
        seconds([&] { cuda::multiply_windows(stream, window, x.view(), filters.view(), to); });
    std::printf("%-12s %-28s %8.1f us %5.0f TFLOP/s\n", layer.name, what, time * 1e6,
                flops / time * 1e-12);
    std::fflush(stdout);
  };
  const cuda::SignedSlopes relu{0.0f, 1.0f, true};
  const VectorView<const float> of_filters{bias.view().data, layer.filters};
  product("tf32: sums alone", {.result = y.view().row_range(0, 1)});
  product("tf32: floats", {.result = y.view()});
  product("tf32: floats added", {.result = y.view(), .existing = Existing::add});
  product("tf32: bias, Relu", {.result = y.view(), .bias = of_filters, .f = relu});
  product("tf32: slope", {.result = y.view(), .f = relu, .outputs = outputs.view()});
  // As many rows and columns, from a place where the copy engine cannot write.
  Buffer<float> shifted(windows * layer.filters + 2, memory);
  product("tf32: slope, from registers",
          {.result = {shifted.data() + 2, windows, layer.filters, layer.filters},
           .f = relu,
           .outputs = outputs.view()});
}

// Of eight runs, as many at a time, or as large a part of one, as are turned; the times are those
// of all.
void time_turned(const cuda::Stream& stream, Memory& memory, const Layer& layer) {
  constexpr Index kRuns = 8;
  const Window window = layer.window();
  const Index run = layer.examples / kRuns;
  if (!window_pieces::can_turn(window, layer.filters, run)) return;
  const Index part = window_pieces::examples_turned(window, layer.filters, run);
  const Index runs = window_pieces::runs_turned(window, layer.filters, run);
  const Index slices = window_pieces::turned_slices(window, layer.filters, run);
  const Index length = window_pieces::turned_length(window, part), examples = runs * part;
  const double times = double(layer.examples) / double(examples);
  Matrix<float> x(layer.examples, window.places() * layer.channels, memory);
  Matrix<float> delta(layer.examples, window.out_places() * layer.filters, memory);
  Matrix<float> of_x(runs * layer.channels, length, memory);
  Matrix<float> of_delta(runs * layer.filters, length, memory);
  Matrix<float> parts(runs * slices * layer.filters,
                      window.taps() * window_pieces::padded_channels<float>(window), memory);
  const double turning = seconds([&] {
    cuda::turn_places(stream, window, window.in[0], window.in[1], runs,
                      x.view().row_range(0, examples), of_x.view());
    cuda::turn_places(stream, window, window.out[0], window.out[1], runs,
                      delta.view().row_range(0, examples), of_delta.view());
  });
  report(layer, "tf32: turning", times * turning);
  const double products = seconds([&] {
    cuda::multiply_turned_slices(stream, window, part, of_delta.view(), of_x.view(), runs, slices,
                                 parts.view());
  });
  report(layer, "tf32: products of turned", times * products);
  const auto dense = cuda::make_dense(stream);
  const auto kernels = cuda::make_convolution(stream, *dense);
  Matrix<float> terms(kRuns, layer.filters * layer.channels * window.taps(), memory);
  const Index depth = layer.channels * window.taps();
  std::vector<Range> of_runs;
  for (Index first = 0; first < layer.examples; first += run)
    of_runs.push_back({first, std::min(layer.examples, first + run)});
  report(layer, "tf32: gradients of 8 runs", seconds([&] {
           if (kernels->gradients(window, delta.view(), x.view(), of_runs, 1.0f, layer.filters,
                                  terms.view()))
             return;
           for (Index r = 0; r < kRuns; ++r)
             kernels->gradient(window, delta.view().row_range(r * run, run),
                               x.view().row_range(r * run, run), 1.0f,
                               {terms.view().row(r), layer.filters, depth, depth});
         }));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  int multiprocessors = 0;
  cuda::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
              "cudaDeviceGetAttribute");
  cuda::DeviceMemory memory(nullptr, true);
  const cuda::Stream in_bf16{nullptr, memory, Precision::bf16, multiprocessors};
  const cuda::Stream in_tf32{nullptr, memory, Precision::tf32, multiprocessors};
  for (const Layer& layer : kLayers)
    if (std::string(layer.name).starts_with(only)) {
      time_layer(in_bf16, memory, layer);
      time_floats(in_tf32, memory, layer);
      time_turned(in_tf32, memory, layer);
    }
}
