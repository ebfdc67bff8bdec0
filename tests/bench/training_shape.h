// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network.h"
#include "src/nn/descriptor_json.h"
#include "tests/bench/synthetic.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

/// The networks that train_bench knows, and what a step of one must compute and move.
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
      {"wide1m_softmax", 1000000, {256}, Relu{}, true, Adam{}, 1024, 100},
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

/// What a stage must compute and move through memory at least.
struct StageWork {
  double flops = 0.0;
  double bytes = 0.0;
};

/// Of one step of a chain of layers, by the stages' names in Network. Bytes: each operand and each
/// result once where it cannot stay in a cache from one kernel to the next (weights and their
/// state, gathered rows), activations and deltas not at all.
inline std::map<std::string, StageWork> stage_work(const NetworkDescriptor& network, double batch,
                                                   double entries, double touched, bool rounds) {
  std::map<std::string, StageWork> work;
  const double slots = double(slots_of(network.training.optimizer));
  const double operand = rounds ? 2.0 : 4.0;
  const double update_bytes = 8.0 * (1.0 + slots) + (rounds ? 2.0 : 0.0);
  for (std::size_t i = 1; i < network.layers.size(); ++i) {
    const double above = double(network.layers[i].units());
    const double below = double(network.layers[i - 1].units());
    const bool output = network.layers[i].kind == LayerKind::output;
    if (i == 1) {
      work["sparse forward"] = {2.0 * entries * above, 4.0 * entries * above};
      work["sparse update"] = {2.0 * entries * above,
                               touched * above * 8.0 * (1.0 + slots) + 4.0 * entries * above};
      continue;
    }
    const double flops = 2.0 * batch * above * below;
    const auto add = [&](const char* stage, double bytes) {
      work[stage].flops += flops;
      work[stage].bytes += bytes;
    };
    add(output ? "output forward" : "hidden forward", operand * above * below);
    add(output ? "output input delta" : "hidden input delta", operand * above * below);
    add(output ? "output update" : "hidden update", update_bytes * above * below);
  }
  return work;
}

}  // namespace norn::bench
