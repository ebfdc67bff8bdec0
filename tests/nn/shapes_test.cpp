// SPDX-License-Identifier: Apache-2.0
// Sizes of Convolutional and Pooling layers.
#include "src/nn/shapes.h"

#include <random>

#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::ElementsAre;

LayerDescriptor source(std::array<Index, 4> extent, int dimensions,
                       const std::string& name = "in") {
  LayerDescriptor d;
  d.name = name;
  d.extent = extent;
  d.dimensions = dimensions;
  return d;
}
LayerDescriptor convolution(Index channels, std::array<Index, 3> kernel, int axes,
                            std::array<Index, 3> stride = {1, 1, 1}) {
  LayerDescriptor d = source({channels, 1, 1, 1}, 1, "conv");
  d.type = LayerType::convolutional;
  d.kernel = kernel;
  d.kernel_dimensions = axes;
  d.stride = stride;
  return d;
}
LayerDescriptor pooling(PoolingFunction function, std::array<Index, 3> kernel = {1, 1, 1},
                        int axes = 0, std::array<Index, 3> stride = {1, 1, 1}) {
  LayerDescriptor d = source({1, 1, 1, 1}, 1, "pool");
  d.type = LayerType::pooling;
  d.function = function;
  d.kernel = kernel;
  d.kernel_dimensions = axes;
  d.stride = stride;
  return d;
}

std::string infer_shape(LayerDescriptor& layer,
                        const std::vector<const LayerDescriptor*>& sources) {
  return rules_of(layer.type).infer_shape(layer, sources);
}

TEST(Shapes, WindowsStayInsideWhatTheyRead) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    const Index width = Index(1 + random() % 300);
    const Index kernel = Index(1 + random() % 20);
    const Index stride = Index(1 + random() % 6);
    const WindowAxis axis = window_axis(width, kernel, stride);
    SCOPED_TRACE(testing::Message() << width << " " << kernel << " " << stride);
    // Count the windows one by one.
    Index count = 0;
    for (Index first = 0; first + kernel <= width; first += stride) ++count;
    if (width <= kernel) count = 1;
    if (width > kernel && stride == 1) count = width;
    EXPECT_EQ(axis.extent, count);
    EXPECT_LT(axis.padding, kernel);
    // Every window reads at least one real unit.
    EXPECT_GT(-axis.padding + kernel, 0);
    EXPECT_LT((axis.extent - 1) * stride - axis.padding, width);
  }
}

TEST(Shapes, KnownWindows) {
  EXPECT_EQ(window_axis(227, 11, 4).extent, 55);
  EXPECT_EQ(window_axis(55, 3, 2).extent, 27);
  EXPECT_EQ(window_axis(32, 3, 1).extent, 32);
  EXPECT_EQ(window_axis(32, 3, 1).padding, 1);
  EXPECT_EQ(window_axis(2, 5, 1).extent, 1);
  EXPECT_EQ(window_axis(2, 5, 1).padding, 2);
  EXPECT_EQ(window_axis(5, 5, 1).extent, 1);
  EXPECT_EQ(window_axis(5, 5, 1).padding, 0);
}

TEST(Shapes, ConvolutionPutsItsChannelsOnTheAxisAfterTheKernels) {
  LayerDescriptor image = source({28, 20, 3, 1}, 3);
  LayerDescriptor two = convolution(8, {5, 3, 1}, 2, {2, 1, 1});
  EXPECT_EQ(infer_shape(two, {&image}), "");
  EXPECT_THAT(two.extent, ElementsAre(12, 20, 8, 1));
  EXPECT_EQ(two.dimensions, 3);
  EXPECT_THAT(two.padding, ElementsAre(0, 1, 0));
  LayerDescriptor grey = source({28, 28, 1, 1}, 2);
  LayerDescriptor on_grey = convolution(8, {5, 5, 1}, 2);
  EXPECT_EQ(infer_shape(on_grey, {&grey}), "");
  EXPECT_THAT(on_grey.extent, ElementsAre(28, 28, 8, 1));
  LayerDescriptor sequence = source({100, 4, 1, 1}, 2);
  LayerDescriptor one = convolution(16, {7, 1, 1}, 1, {3, 1, 1});
  EXPECT_EQ(infer_shape(one, {&sequence}), "");
  EXPECT_THAT(one.extent, ElementsAre(32, 16, 1, 1));  // the layer's own kernel of 7, not 1
  EXPECT_EQ(one.dimensions, 2);
  LayerDescriptor video = source({9, 9, 9, 3}, 4);
  LayerDescriptor three = convolution(5, {3, 3, 3}, 3, {2, 2, 2});
  EXPECT_EQ(infer_shape(three, {&video}), "");
  EXPECT_THAT(three.extent, ElementsAre(4, 4, 4, 5));
}

TEST(Shapes, AnEvenKernelNeedsAStrideUnlessThereIsOneWindow) {
  LayerDescriptor image = source({28, 4, 3, 1}, 3);
  LayerDescriptor narrow = source({4, 3, 3, 1}, 3);
  for (LayerDescriptor d : {convolution(8, {3, 4, 1}, 2), convolution(8, {4, 4, 1}, 2, {2, 1, 1}),
                            pooling(PoolingFunction::max, {2, 4, 1}, 2, {3, 1, 1})}) {
    EXPECT_EQ(infer_shape(d, {&image}), "");
    EXPECT_EQ(d.extent[1], 1);
  }
  LayerDescriptor one = convolution(8, {4, 4, 1}, 2);
  EXPECT_EQ(infer_shape(one, {&narrow}), "");
  EXPECT_THAT(one.extent, ElementsAre(1, 1, 8, 1));
  EXPECT_THAT(one.padding, ElementsAre(0, 1, 0));
  const std::string fault =
      "Kernel is 2 along y, where source \"in\" is 4 wide and KernelStride is 1: an even window "
      "has "
      "no middle to keep that width by; make it 1 or 3, or give KernelStride";
  for (LayerDescriptor d : {convolution(8, {3, 2, 1}, 2), convolution(8, {2, 2, 1}, 2, {2, 1, 1}),
                            pooling(PoolingFunction::average, {3, 2, 1}, 2)})
    EXPECT_EQ(infer_shape(d, {&image}), fault);
}

// Every unit that a window reads, by the definition in kernels/window.h, is one of the source.
TEST(Shapes, WindowsOfALayerCoverItsSource) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto draw = [&](Index most) { return Index(1 + random() % std::uint64_t(most)); };
  for (int i = 0; i < 300; ++i) {
    const int axes = int(draw(3));
    LayerDescriptor image = source({1, 1, 1, 1}, axes + 1);
    for (int a = 0; a <= axes; ++a) image.extent[std::size_t(a)] = draw(19);
    LayerDescriptor d = convolution(draw(7), {1, 1, 1}, axes);
    for (int a = 0; a < axes; ++a) {
      d.kernel[std::size_t(a)] = 2 * draw(6) - 1;
      d.stride[std::size_t(a)] = draw(4);
    }
    ASSERT_EQ(infer_shape(d, {&image}), "");
    const Window window = window_of(d, image);
    EXPECT_EQ(window.channels, image.extent[std::size_t(axes)]);
    EXPECT_EQ(window.places() * window.channels, image.units());
    EXPECT_EQ(window.out_places() * channels_of(d), d.units());
    for (std::size_t a = 0; a < 3; ++a)
      for (Index at = 0; at < window.out[a]; ++at) {
        const Index first = at * window.stride[a] - window.padding[a];
        EXPECT_GT(first + window.kernel[a], 0);
        EXPECT_LT(first, window.in[a]);
      }
    const EdgeMatrix matrix = matrix_between(d, image);
    EXPECT_TRUE(matrix.rows_are_outputs);
    EXPECT_EQ(matrix.outputs, channels_of(d));
    EXPECT_EQ(matrix.inputs, window.channels * window.taps());
    EXPECT_EQ(matrix.fan.in, double(matrix.inputs));
    EXPECT_EQ(matrix.fan.out, double(matrix.outputs * window.taps()));
    // Pooling has the same windows, over one channel more or less as it has axes.
    LayerDescriptor pool = pooling(PoolingFunction::max, d.kernel, axes, d.stride);
    ASSERT_EQ(infer_shape(pool, {&image}), "");
    EXPECT_EQ(window_of(pool, image).out, window.out);
    EXPECT_EQ(window_of(pool, image).padding, window.padding);
  }
}

TEST(Shapes, SourcesOfOneLayerHaveWindowsOfTheirOwn) {
  LayerDescriptor wide = source({5, 2, 1, 1}, 2), narrow = source({3, 7, 1, 1}, 2, "narrow");
  LayerDescriptor d = convolution(4, {5, 1, 1}, 1);
  ASSERT_EQ(infer_shape(d, {&wide, &narrow}), "");
  EXPECT_THAT(d.extent, ElementsAre(1, 4, 1, 1));
  EXPECT_EQ(window_of(d, wide).padding[0], 0);
  EXPECT_EQ(window_of(d, narrow).padding[0], 1);
  EXPECT_EQ(matrix_between(d, wide).size(), 4 * 2 * 5);
  EXPECT_EQ(matrix_between(d, narrow).size(), 4 * 7 * 5);
}

TEST(Shapes, ChannelsOfPoolingLayers) {
  LayerDescriptor image = source({9, 8, 7, 3}, 4);
  LayerDescriptor plane = pooling(PoolingFunction::average, {3, 3, 1}, 2, {2, 2, 1});
  ASSERT_EQ(infer_shape(plane, {&image}), "");
  EXPECT_EQ(window_of(plane, image).channels, 3);
  EXPECT_EQ(window_of(plane, image).in[2], 7);
  EXPECT_EQ(window_of(plane, image).out[2], 7);
  LayerDescriptor flat = source({9, 8, 1, 1}, 2),
                  over_all = pooling(PoolingFunction::max, {3, 3, 1}, 2);
  ASSERT_EQ(infer_shape(over_all, {&flat}), "");
  EXPECT_EQ(window_of(over_all, flat).channels, 1);
  LayerDescriptor across = pooling(PoolingFunction::lrn);
  ASSERT_EQ(infer_shape(across, {&image}), "");
  EXPECT_EQ(window_of(across, image).channels, 3);
  EXPECT_EQ(window_of(across, image).places(), 9 * 8 * 7);
  EXPECT_EQ(window_of(across, image).taps(), 1);
  LayerDescriptor most = pooling(PoolingFunction::maxout);
  ASSERT_EQ(infer_shape(most, {&image}), "");
  EXPECT_EQ(window_of(most, image).places(), 1);
  EXPECT_EQ(window_of(most, image).channels, image.units());
}

TEST(Shapes, ConvolutionFaults) {
  LayerDescriptor image = source({28, 20, 3, 1}, 3);
  LayerDescriptor d = convolution(8, {5, 1, 1}, 1);
  EXPECT_EQ(infer_shape(d, {&image}),
            "Kernel has 1 number, but source \"in\" is 28 x 20 x 3; give Kernel an array of 2 "
            "numbers");
  LayerDescriptor wrong = convolution(8, {5, 5, 1}, 2);
  wrong.extent = {9, 9, 8, 1};
  wrong.dimensions = 3;
  EXPECT_EQ(
      infer_shape(wrong, {&image}),
      "N is 9 x 9 x 8, but the convolution gives 28 x 20 x 8; leave all but the channels out");
  EXPECT_THAT(wrong.extent, ElementsAre(9, 9, 8, 1));
  LayerDescriptor other = source({14, 14, 3, 1}, 3, "other");
  LayerDescriptor both = convolution(8, {3, 3, 1}, 2);
  EXPECT_EQ(infer_shape(both, {&image, &other}),
            "source \"in\" gives 28 x 20 x 8 units, but source \"other\" gives 14 x 14 x 8");
}

TEST(Shapes, PoolingKeepsChannels) {
  LayerDescriptor image = source({28, 27, 3, 1}, 3);
  for (const PoolingFunction function : {PoolingFunction::max, PoolingFunction::average}) {
    LayerDescriptor d = pooling(function, {3, 3, 1}, 2, {2, 2, 1});
    EXPECT_EQ(infer_shape(d, {&image}), "");
    EXPECT_THAT(d.extent, ElementsAre(13, 13, 3, 1));
    EXPECT_EQ(d.dimensions, 3);
  }
  for (const PoolingFunction function : {PoolingFunction::lrn, PoolingFunction::maxout}) {
    LayerDescriptor d = pooling(function);
    EXPECT_EQ(infer_shape(d, {&image}), "");
    EXPECT_THAT(d.extent, ElementsAre(28, 27, 3, 1));
  }
}

TEST(Shapes, ProductsOfSourcesHaveOneUnitForEachSourceButTheFirst) {
  LayerDescriptor a = source({7, 1, 1, 1}, 1, "a");
  LayerDescriptor b = source({7, 1, 1, 1}, 1, "b");
  LayerDescriptor c = source({7, 1, 1, 1}, 1, "c");
  for (const PoolingFunction function : {PoolingFunction::dot_product, PoolingFunction::cosine}) {
    LayerDescriptor d = pooling(function);
    EXPECT_EQ(infer_shape(d, {&a, &b, &c}), "");
    EXPECT_THAT(d.extent, ElementsAre(2, 1, 1, 1));
    LayerDescriptor alone = pooling(function);
    EXPECT_EQ(
        infer_shape(alone, {&a}),
        "Function DotProduct or Cosine needs at least two sources: the first is compared with "
        "each other one");
    LayerDescriptor wide = source({8, 1, 1, 1}, 1, "wide");
    EXPECT_EQ(infer_shape(alone, {&a, &wide}),
              "source \"a\" has 7 units, but source \"wide\" has 8");
  }
}

TEST(Shapes, PoolingFaults) {
  LayerDescriptor image = source({28, 28, 3, 1}, 3);
  LayerDescriptor none = pooling(PoolingFunction::none);
  EXPECT_EQ(infer_shape(none, {&image}),
            "a Pooling layer needs Function; expected Max, Average, LRN, Maxout, DotProduct or "
            "Cosine");
  LayerDescriptor sized = pooling(PoolingFunction::max, {2, 2, 1}, 2, {2, 2, 1});
  sized.extent[0] = 3;
  EXPECT_EQ(infer_shape(sized, {&image}), "N is 3, but the pooling gives 14 x 14 x 3; leave N out");
  LayerDescriptor vector = source({28, 1, 1, 1}, 1);
  LayerDescriptor flat = pooling(PoolingFunction::max, {2, 2, 1}, 2, {2, 2, 1});
  EXPECT_EQ(infer_shape(flat, {&vector}), "Kernel has 2 numbers, but source \"in\" is 28");
}

}  // namespace
}  // namespace norn
