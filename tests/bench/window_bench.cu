// SPDX-License-Identifier: Apache-2.0
// Products of windows by themselves, of layers of VGG-16, AlexNet and the strawman: the sums alone,
// what becomes of them, and gradients. Images are larger than the second-level cache.
#include "kernels/cuda/device/memory.h"
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
    {"vgg 1.2", 256, 224, 64, 64, 3},     {"vgg 2.1", 256, 112, 64, 128, 3},
    {"vgg 2.2", 256, 112, 128, 128, 3},   {"vgg 3.2", 256, 56, 256, 256, 3},
    {"vgg 4.2", 256, 28, 512, 512, 3},    {"vgg 5.1", 256, 14, 512, 512, 3},
    {"alexnet 2", 1024, 27, 96, 256, 5},  {"alexnet 4", 1024, 13, 384, 384, 3},
    {"strawman 2", 1024, 32, 96, 96, 3},  {"strawman 3", 1024, 32, 96, 96, 3, 2},
    {"strawman 5", 1024, 16, 192, 192, 3}};

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

void time_layer(const cuda::Stream& stream, Memory& memory, const Layer& layer) {
  const Window window = layer.window();
  const Index depth = window.taps() * window_pieces::padded_channels<Bfloat16>(window);
  const Index windows = layer.examples * window.out_places();
  const double flops = 2.0 * double(windows * layer.filters * window.taps() * layer.channels);
  Matrix<Bfloat16> x(layer.examples, window.places() * layer.channels, memory);
  Matrix<Bfloat16> filters(layer.filters, depth, memory);
  Matrix<float> y(windows, layer.filters, memory), outputs(windows, layer.filters, memory);
  Matrix<Bfloat16> bf16(windows, layer.filters, memory);
  Matrix<float> bias(1, layer.filters, memory);
  const auto report = [&](const char* what, double time) {
    std::printf("%-10s %-28s %8.1f us %5.0f TFLOP/s\n", layer.name, what, time * 1e6,
                flops / time * 1e-12);
    std::fflush(stdout);
  };
  const auto product = [&](const char* what, const cuda::WindowResult& to) {
    report(what,
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
    Matrix<float> parts(runs * slices * layer.filters, depth, memory);
    report(what, seconds([&] {
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
    std::printf("%-10s %-28s %8.1f us %5.0f TFLOP/s\n", layer.name, what, time * 1e6,
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

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  int multiprocessors = 0;
  cuda::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
              "cudaDeviceGetAttribute");
  cuda::DeviceMemory memory(nullptr, true);
  const cuda::Stream stream{nullptr, memory, Precision::bf16, multiprocessors};
  for (const Layer& layer : kLayers)
    if (std::string(layer.name).starts_with(only)) {
      time_layer(stream, memory, layer);
      time_floats({nullptr, memory, Precision::tf32, multiprocessors}, memory, layer);
    }
}
