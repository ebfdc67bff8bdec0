// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"
#include "src/nn/descriptor_json.h"
#include "tests/bench/synthetic.h"

#include <string>
#include <vector>

#include <fmt/format.h>

/// The networks that train_bench knows.
namespace norn::bench {

/// An autoencoder on implicit feedback.
struct TrainingShape {
  std::string name;
  Index width = 0;  ///< inputs and outputs
  std::vector<Index> hidden;
  Activation activation = Relu{};
  bool softmax = false;
  UpdateRule optimizer = Sgd{};
  Index batch = 1024;
  Index per_example = 100;
  float dropout = 0.0f;
  float denoising = 0.0f;
};

inline const std::vector<TrainingShape>& training_shapes() {
  static const std::vector<TrainingShape> all = {
      {"debian_packages", 7421, {128}, Tanh{}, true, Adam{}, 512, 8, 0.0f, 0.5f},
      {"wide27k", 27278, {512}, Relu{}, false, Sgd{}, 256, 144},
      {"wide500k", 500000, {128}, Relu{}, false, Sgd{}, 256, 100},
      {"wide500k_softmax", 500000, {128}, Relu{}, true, Adam{}, 1024, 100},
      {"wide1m_softmax", 999936, {256}, Relu{}, true, Adam{}, 1024, 100},
      {"ml20m", 27278, {1536, 1536, 1536}, Relu{}, false, Sgd{}, 1024, 144, 0.37f},
      {"shop500k", 500000, {1024}, Relu{}, false, Sgd{}, 1024, 100},
      {"shop10m", 10000000, {256}, Relu{}, false, Sgd{}, 1024, 100},
      {"shop100m", 100000000, {128}, Relu{}, false, Sgd{}, 1024, 100},
  };
  return all;
}

inline NetworkDescriptor descriptor_of(const TrainingShape& shape) {
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
  input.dataset = "data";
  input.extent[0] = shape.width;
  input.sparse = true;
  network.layers.push_back(input);
  for (Index units : shape.hidden) {
    LayerDescriptor hidden;
    hidden.name = fmt::format("Hidden{}", network.layers.size());
    hidden.extent[0] = units;
    hidden.activation = shape.activation;
    hidden.dropout = shape.dropout;
    hidden.sources = {network.layers.back().name};
    network.layers.push_back(hidden);
  }
  LayerDescriptor output;
  output.name = "Output";
  output.kind = LayerKind::output;
  output.dataset = "data";
  output.extent[0] = shape.width;
  output.sources = {network.layers.back().name};
  output.init.bias = shape.softmax ? 0.0f : -5.0f;
  if (shape.softmax) output.activation = SoftMax{};
  network.layers.push_back(output);
  return network;
}

/// The same autoencoder with squared error of all outputs, made exactly by factors.
inline void make_factored(NetworkDescriptor& network) {
  network.loss = SquaredError{};
  LayerDescriptor& output = network.layers.back();
  output.activation = Activation(Linear{});
  output.init.bias = 0.0f;
  output.factored.rule = FactoredRule::newton;
}

}  // namespace norn::bench
