// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/philox.h"
#include "src/engine/network/network.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"
#include "tests/support/memory_datasets.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

/// Networks of images that train_bench knows: those of configs/dsstne, with settings and sizes.
namespace norn::bench {

struct ImageShape {
  std::string name;
  std::string file;  ///< of the folder of descriptors
  std::array<Index, 3> image;
  std::array<Index, 3> small_image;  ///< that float64 goes through in a few seconds
  Index classes = 0;
  Index batch = 0;
  float rate = 0.0f;  ///< at which the first costs fall
};

inline const std::vector<ImageShape>& image_shapes() {
  static const std::vector<ImageShape> all = {
      {"alexnet", "alexnet.json", {227, 227, 3}, {67, 67, 3}, 1000, 1024, 1e-4f},
      {"vgg16", "vgg16.json", {224, 224, 3}, {32, 32, 3}, 1000, 256, 1e-2f},
      {"strawman", "strawman.json", {32, 32, 3}, {32, 32, 3}, 100, 1024, 1e-2f},
  };
  return all;
}

/// With all names and sizes, for images of that extent, and SGD with momentum.
inline NetworkDescriptor descriptor_of(const ImageShape& shape, const std::filesystem::path& folder,
                                       const std::array<Index, 3>& image) {
  NetworkDescriptor network = read_network_json(folder / shape.file, [](const auto&) {});
  for (LayerDescriptor& layer : network.layers) {
    if (layer.kind == LayerKind::hidden) continue;
    const bool reads = layer.kind == LayerKind::input;
    layer.extent = {shape.classes, 1, 1, 1};
    if (reads) layer.extent = {image[0], image[1], image[2], 1};
    layer.dimensions = reads ? 3 : 1;
    layer.auto_size = false;
  }
  network.training.optimizer = Momentum{};
  network.training.rate = shape.rate;
  network.training.batch = shape.batch;
  return make_graph(network, {}, shape.file).network;
}

/// Whether a layer has images: dense units along several axes.
inline bool has_images(const LayerDescriptor& layer) {
  return layer.kind == LayerKind::input && layer.dimensions > 1 && !layer.sparse;
}

/// Images of random bytes, as a dense input scales them.
inline std::unique_ptr<Dataset> random_images(const LayerDescriptor& layer, Index examples,
                                              std::uint64_t seed) {
  constexpr Index kBytes = 16;  // of a block
  const Index width = layer.units(), count = examples * width;
  std::vector<float> values(static_cast<std::size_t>(count));
  const Philox random = Philox::stream(seed, RandomPurpose::test);
  const auto fill = [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Philox::Block block = random.block(std::uint64_t(i), 0);
      for (Index k = 0; k < kBytes && i * kBytes + k < count; ++k)
        values[std::size_t(i * kBytes + k)] =
            float(block.word[k / 4] >> (8 * (k % 4)) & 0xffu) / 256.0f - 0.5f;
    }
  };
  const Index blocks = (count + kBytes - 1) / kBytes;
  const Index parts = std::clamp<Index>(blocks >> 16, 1, std::thread::hardware_concurrency());
  std::vector<std::future<void>> filled;
  for (Index p = 0; p < parts; ++p)
    filled.push_back(
        std::async(std::launch::async, fill, blocks * p / parts, blocks * (p + 1) / parts));
  for (auto& part : filled) part.get();
  return make_dense_dataset(layer.dataset, width, std::move(values));
}

}  // namespace norn::bench
