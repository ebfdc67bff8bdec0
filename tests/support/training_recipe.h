// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/batch_loader.h"
#include "tests/support/problem.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

/// Whole training runs on random data in memory, and everything that they leave behind.
namespace norn::test {

/// Blocks that cut layers of 50 to 1000 units into several.
inline constexpr BlockRule kMediumBlocks = {1 << 19, 16, 4096, 16, 8};

/// A network with its settings in network.training, and what its data look like.
struct Recipe {
  std::string name;
  NetworkDescriptor network;
  Index examples = 159;
  DataKind inputs;
  DataKind targets;
  std::uint64_t data_seed = 5;
  BlockRule blocks = kMediumBlocks;
  std::vector<std::string> by_example;  ///< hidden layers that shall be so
  std::string images;                   ///< an input layer whose data are dense, if any

  /// As StepSettings::by_example.
  std::vector<bool> layers_by_example() const;
  std::vector<DatasetShape> shapes() const;
  DataKind kind_of(const LayerDescriptor& layer) const {
    if (layer.name == images) return {.name = "dense", .sparse = false};
    return layer.kind == LayerKind::input ? inputs : targets;
  }
};

/// The data of a recipe, gathered batch by batch in the order of training.
class RecipeData {
 public:
  explicit RecipeData(const Recipe& recipe);
  /// The batch of step `step`; valid until the next call.
  BoundBatch batch(std::int64_t step);
  StepPosition position(std::int64_t step) const;

 private:
  const Recipe& recipe_;
  BatchOrder order_;
  std::vector<std::unique_ptr<Dataset>> sets_;  // by layer
  std::vector<std::vector<float>> weights_;     // of the examples; none: each 1
  std::vector<HostBatch> batches_;              // by layer
};

/// Writes the data of a recipe as data sets of one file.
void write_data(const Recipe& recipe, const std::filesystem::path& path);

/// Everything that a run leaves behind, gathered from all ranks.
struct Outcome {
  std::vector<float> state;   ///< weights, their update state, biases, statistics
  std::vector<float> output;  ///< predictions for the first batch, all output layers
  std::vector<double> costs;  ///< of every step
  bool operator==(const Outcome&) const = default;
};

/// Weights, update state, biases and statistics of all ranks, in one order.
std::vector<float> gather_state(Network& network);

/// What to do between two steps, if anything.
using AfterStep = std::function<void(Network&, std::int64_t steps_made)>;

/// The recipe's network in training, with its blocks and initial values.
std::unique_ptr<Network> network_of(const Recipe& recipe, const Context& context);

/// Makes steps [0, steps) and catches up on all rows; the cost of each.
std::vector<double> train_steps(Network& network, RecipeData& data, std::int64_t steps,
                                const AfterStep& after_step = {});

/// Trains from the start. `ranks` 1: without a thread group.
Outcome run(const Recipe& recipe, std::int64_t steps, int ranks, int threads,
            const AfterStep& after_step = {});

/// Equal bit by bit, NaN included; says where they differ.
testing::AssertionResult same_bits(const Outcome& a, const Outcome& b);

}  // namespace norn::test
