// SPDX-License-Identifier: Apache-2.0
// Shape inference of Convolutional and Pooling layers, as in DSSTNE's network descriptor.
#include "src/nn/shapes.h"

#include "src/nn/key.h"
#include "src/nn/naming.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
namespace {

struct Shape {
  std::array<Index, 4> extent = {1, 1, 1, 1};
  int dimensions = 1;
  std::array<Index, 3> padding = {0, 0, 0};
};

std::string text_of(const LayerDescriptor& layer) {
  return extent_text(layer.extent.data(), layer.dimensions);
}

// The window over the first `axes` axes of the source; the other axes stay.
std::string slide_window(const LayerDescriptor& layer, const LayerDescriptor& source, int axes,
                         Shape& shape) {
  shape = {source.extent, source.dimensions, {0, 0, 0}};
  for (int axis = 0; axis < axes; ++axis) {
    const auto at = std::size_t(axis);
    const Index width = source.extent[at], kernel = layer.kernel[at];
    if (width > kernel && layer.stride[at] == 1 && kernel % 2 == 0)
      return fmt::format(
          "Kernel is {} along {}, where source \"{}\" is {} wide and KernelStride is 1: an even "
          "window has no middle to keep that width by; make it {} or {}, or give KernelStride",
          kernel, "xyz"[axis], source.name, width, kernel - 1, kernel + 1);
    const WindowAxis window = window_axis(width, kernel, layer.stride[at]);
    shape.extent[at] = window.extent;
    shape.padding[at] = window.padding;
  }
  return "";
}

std::string convolution(const LayerDescriptor& layer, const LayerDescriptor& source, Shape& shape) {
  const int axes = layer.kernel_dimensions > 0 ? layer.kernel_dimensions
                                               : std::clamp(source.dimensions - 1, 1, 3);
  if (source.dimensions > axes + 1)
    return fmt::format(
        "Kernel has {} {}, but source \"{}\" is {}; give Kernel an array of {} numbers", axes,
        axes == 1 ? "number" : "numbers", source.name, text_of(source), source.dimensions - 1);
  if (std::string fault = slide_window(layer, source, axes, shape); !fault.empty()) return fault;
  shape.dimensions = axes + 1;
  const auto channels = std::size_t(axes);
  shape.extent[channels] = layer.dimensions == 1 ? layer.extent[0] : layer.extent[channels];
  return "";
}

std::string pooling(const LayerDescriptor& layer,
                    const std::vector<const LayerDescriptor*>& sources, std::size_t source,
                    Shape& shape) {
  const LayerDescriptor& from = *sources[source];
  switch (layer.function) {
    case PoolingFunction::none:
      return "a Pooling layer needs Function; expected Max, Average, LRN, Maxout, DotProduct or "
             "Cosine";
    case PoolingFunction::max:
    case PoolingFunction::average:
      if (layer.kernel_dimensions > from.dimensions)
        return fmt::format("Kernel has {} numbers, but source \"{}\" is {}",
                           layer.kernel_dimensions, from.name, text_of(from));
      return slide_window(layer, from, layer.kernel_dimensions, shape);
    case PoolingFunction::lrn:
    case PoolingFunction::maxout:
      shape = {from.extent, from.dimensions, {0, 0, 0}};
      return "";
    case PoolingFunction::dot_product:
    case PoolingFunction::cosine:
      break;
  }
  if (sources.size() < 2)
    return "Function DotProduct or Cosine needs at least two sources: the first is compared with "
           "each other one";
  if (from.units() != sources[0]->units())
    return fmt::format("source \"{}\" has {} units, but source \"{}\" has {}", sources[0]->name,
                       sources[0]->units(), from.name, from.units());
  shape = {{Index(sources.size()) - 1, 1, 1, 1}, 1, {0, 0, 0}};
  return "";
}

// What gives a size, and what of N is then left out.
struct SizeWords {
  const char* by;
  const char* left_out;
};

// find(number of a source, shape) gives what does not fit, or nothing and the shape. `given`: the
// descriptor says a size.
template <typename Find>
std::string infer(LayerDescriptor& layer, const std::vector<const LayerDescriptor*>& sources,
                  bool given, const SizeWords& words, const Find& find) {
  if (sources.empty()) return "";
  Shape result;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    Shape shape;
    if (const std::string fault = find(s, shape); !fault.empty()) return fault;
    if (s > 0 && shape.extent != result.extent)
      return fmt::format("source \"{}\" gives {} units, but source \"{}\" gives {}",
                         sources[0]->name, extent_text(result.extent.data(), result.dimensions),
                         sources[s]->name, extent_text(shape.extent.data(), shape.dimensions));
    if (s == 0) result = shape;
  }
  if (given && layer.extent != result.extent)
    return fmt::format("N is {}, but {} gives {}; leave {} out", text_of(layer), words.by,
                       extent_text(result.extent.data(), result.dimensions), words.left_out);
  layer.extent = result.extent;
  layer.dimensions = result.dimensions;
  layer.padding = result.padding;
  return "";
}

}  // namespace

WindowAxis window_axis(Index width, Index kernel, Index stride) {
  if (width <= kernel) return {1, (kernel - width + 1) / 2};
  if (stride == 1) return {width, kernel / 2};
  return {(width - kernel) / stride + 1, 0};
}

std::string infer_convolution(LayerDescriptor& layer,
                              const std::vector<const LayerDescriptor*>& sources) {
  const bool given = layer.dimensions > 1;
  const SizeWords words{"the convolution", "all but the channels"};
  return infer(layer, sources, given, words,
               [&](std::size_t s, Shape& shape) { return convolution(layer, *sources[s], shape); });
}

std::string infer_pooling(LayerDescriptor& layer,
                          const std::vector<const LayerDescriptor*>& sources) {
  const bool given = layer.units() != 1 || layer.dimensions > 1;
  const SizeWords words{"the pooling", "N"};
  const std::string fault = infer(layer, sources, given, words, [&](std::size_t s, Shape& shape) {
    return pooling(layer, sources, s, shape);
  });
  if (fault.empty()) {  // what DSSTNE passes over
    layer.dropout = layer.weight_norm = layer.delta_norm = 0.0f;
    layer.batch_normalization = false;
  }
  return fault;
}

bool has_window(const LayerDescriptor& layer) {
  using enum PoolingFunction;
  return layer.type == LayerType::convolutional ||
         (layer.type == LayerType::pooling &&
          (layer.function == max || layer.function == average || layer.function == lrn));
}

bool is_comparison(PoolingFunction function) {
  return function == PoolingFunction::dot_product || function == PoolingFunction::cosine;
}

Window window_of(const LayerDescriptor& layer, const LayerDescriptor& source) {
  const bool slides = layer.function != PoolingFunction::lrn;
  int axes = 0;
  if (layer.type == LayerType::convolutional)
    axes = layer.dimensions - 1;
  else if (has_window(layer))
    axes =
        slides ? std::max(layer.kernel_dimensions, source.dimensions - 1) : source.dimensions - 1;
  Window window;
  window.channels = source.units();
  for (int axis = 0; axis < axes; ++axis) {
    const auto at = std::size_t(axis);
    window.in[at] = source.extent[at];
    window.out[at] = layer.extent[at];
    window.channels /= source.extent[at];
    if (!slides) continue;
    window.kernel[at] = layer.kernel[at];
    window.stride[at] = layer.stride[at];
    window.padding[at] = window_axis(window.in[at], layer.kernel[at], layer.stride[at]).padding;
  }
  return window;
}

EdgeMatrix matrix_between(const LayerDescriptor& layer, const LayerDescriptor& source) {
  if (layer.type != LayerType::convolutional)
    return {source.units(), layer.units(), {double(source.units()), double(layer.units())}, false};
  const Window window = window_of(layer, source);
  const Index inputs = window.channels * window.taps();
  const Index channels = channels_of(layer);
  return {inputs, channels, {double(inputs), double(channels * window.taps())}, true};
}

}  // namespace norn
