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

TEST(Shapes, EvenKernelOfStrideOneKeepsTheExtent) {
  LayerDescriptor image = source({28, 28, 3, 1}, 3);
  LayerDescriptor d = convolution(8, {4, 4, 1}, 2);
  EXPECT_EQ(infer_shape(d, {&image}), "");
  EXPECT_THAT(d.extent, ElementsAre(28, 28, 8, 1));
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
