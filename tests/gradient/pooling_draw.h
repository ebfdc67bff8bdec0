// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/gradient/window_draw.h"
#include "tests/support/gradient_check.h"

#include <gtest/gtest.h>

/// Networks with Pooling layers that are drawn at random, and what float64 says of them.
namespace norn::test {

class PoolingDraw : public WindowDraw {
 public:
  using WindowDraw::WindowDraw;

  LayerDescriptor convolution(const std::string& name, int axes, std::vector<std::string> sources) {
    LayerDescriptor layer =
        hidden_layer(name, upto(6), std::move(sources), LayerActivation(Activation(Tanh{})));
    layer.type = LayerType::convolutional;
    return windows(layer, axes);
  }
  LayerDescriptor windowed_pooling(const std::string& name, int axes,
                                   std::vector<std::string> sources) {
    const PoolingFunction function = coin()   ? PoolingFunction::max
                                     : coin() ? PoolingFunction::average
                                              : PoolingFunction::lrn;
    const LayerDescriptor layer = pooling_layer(name, function, std::move(sources));
    return function == PoolingFunction::lrn ? layer : windows(layer, int(upto(axes)));
  }
  PoolingFunction joining() {
    return coin()   ? PoolingFunction::maxout
           : coin() ? PoolingFunction::cosine
                    : PoolingFunction::dot_product;
  }
  LocalResponseNormalization lrn() {
    return {float(upto(3)), int(upto(6)), 0.1f * float(upto(20)), 0.25f * float(upto(4))};
  }
};

inline testing::AssertionResult agrees(Problem problem, PoolingDraw& draw, std::uint64_t seed) {
  const Index examples = 1 + draw.upto(11);
  problem.planned_batch = examples + draw.upto(5);
  problem.set_data("In", {.sparse = false}, examples, seed);
  problem.set_data("Out", {}, examples, seed + 1);
  return engine_agrees(problem, seed, {.gradient = 5e-4, .cancelled = 1e-6});
}

}  // namespace norn::test
