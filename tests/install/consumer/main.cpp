// SPDX-License-Identifier: Apache-2.0
// A program of somebody else: a network from plain values, without JSON, and one training step.
#include "norn/engine/network.h"

#include <iostream>

int main() {
  norn::NetworkDescriptor description;
  description.layers.resize(2);
  description.layers[0] = {
      .name = "in", .kind = norn::LayerKind::input, .extent = {3, 1, 1, 1}, .dataset = "pairs"};
  description.layers[1] = {.name = "out",
                           .kind = norn::LayerKind::output,
                           .extent = {3, 1, 1, 1},
                           .dataset = "pairs",
                           .sources = {"in"}};
  const auto pairs = norn::make_sparse_dataset("pairs", 3, {0, 2, 3}, {0, 2, 1});
  const std::vector<norn::DatasetShape> shapes = {{"pairs", 1, {3, 1, 1}, true}};

  norn::CpuRuntime runtime(1);
  const auto alone = norn::make_single_process();
  norn::Network network(norn::make_graph(description, shapes, "main.cpp"), shapes,
                        runtime.context(*alone), 2, norn::Pass::training);
  network.initialise(1);
  norn::HostBatch batch;
  pairs->gather(std::vector<norn::Index>{0, 1}, batch);
  const double before =
      network.train_step({{&batch, &batch}, {false, false}, 2}, {0, 0, 1}).value();
  double after = 0;
  for (int step = 1; step < 100; ++step)
    after = network.train_step({{&batch, &batch}, {false, false}, 2}, {step, 0, 1}).value();
  std::cout << "cost before " << before << ", after " << after << "\n";
  return after < before ? 0 : 1;
}
