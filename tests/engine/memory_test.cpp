// SPDX-License-Identifier: Apache-2.0
// Half a million outputs train in little memory beside their parameters: the outputs are never
// there as a whole.
#include "tests/support/training_recipe.h"

#include <cmath>
#include <fstream>

#include <unistd.h>

namespace norn::test {
namespace {

constexpr Index kOutputs = 500000;
constexpr Index kInputs = 100000;
constexpr Index kBatch = 256;
constexpr std::int64_t kLimit = 300'000'000;

// About 60 entries an example, over the whole width.
HostBatch wide_batch(Index width, std::uint64_t seed) {
  HostBatch batch;
  batch.examples = kBatch;
  batch.width = width;
  const Philox random = Philox::stream(seed, RandomPurpose::test);
  const Index stride = width / 60;
  std::vector<Column> columns;
  batch.sparse.row_begin = Buffer<RowOffset>(kBatch + 1);
  batch.sparse.row_begin.data()[0] = 0;
  for (Index b = 0; b < kBatch; ++b) {
    for (Index first = 0; first + stride <= width; first += stride)
      columns.push_back(Column(first + Index(random.word(std::uint64_t(b), std::uint64_t(first)) %
                                             std::uint32_t(stride))));
    batch.sparse.row_begin.data()[b + 1] = RowOffset(columns.size());
    batch.example.push_back(b);
  }
  batch.sparse.column = Buffer<Column>(Index(columns.size()));
  std::copy(columns.begin(), columns.end(), batch.sparse.column.data());
  batch.sparse.rows = kBatch;
  batch.sparse.cols = width;
  return batch;
}

Problem wide_problem(const LayerActivation& output) {
  Problem problem;
  problem.planned_batch = kBatch;
  problem.position = {};
  problem.network.training.rate = 0.01f;
  problem.network.layers = {input_layer("In", kInputs), hidden_layer("Hidden", 128, {"In"}),
                            output_layer("Out", kOutputs, {"Hidden"}, output)};
  problem.data = {std::make_shared<HostBatch>(wide_batch(kInputs, 1)), nullptr,
                  std::make_shared<HostBatch>(wide_batch(kOutputs, 2))};
  problem.ignore_absent = {false, false, false};
  return problem;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers keep memory of their own
#else
constexpr bool kSanitized = false;
#endif

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

void train_wide(const LayerActivation& output, double* cost) {
  const Problem problem = wide_problem(output);
  const std::int64_t held = host_memory().allocated_bytes();
  const std::int64_t resident = resident_bytes();
  // Weights and biases alone: SGD keeps no state.
  const std::int64_t parameters =
      (kInputs * 128 + 128 * kOutputs + 128 + kOutputs) * std::int64_t(sizeof(float)) +
      kInputs * std::int64_t(sizeof(std::int64_t));
  Engine engine(problem, Pass::training, 2, BlockRule{});
  engine.network().initialise(1);
  *cost = engine.network().train_step(problem.bound(), {0, 0, 1}).value();
  engine.network().train_step(problem.bound(), {1, 0, 1});
  EXPECT_GT(engine.network().working_bytes(), 0);
  EXPECT_LT(engine.network().working_bytes(), kLimit);
  EXPECT_LT(host_memory().peak_bytes() - held - parameters, kLimit);
  if (!kSanitized) {
    EXPECT_LT(resident_bytes() - resident - parameters, kLimit);
  }
}

// Weights are small at the start: every probability is near 1 / width.
TEST(Memory, OfHalfAMillionSoftMaxOutputsStaysSmall) {
  double cost = 0.0;
  train_wide(SoftMax{}, &cost);
  EXPECT_NEAR(cost / double(kBatch), std::log(double(kOutputs)), 0.1);
}

TEST(Memory, OfHalfAMillionSigmoidOutputsStaysSmall) {
  double cost = 0.0;
  train_wide(Activation(Sigmoid{}), &cost);
  EXPECT_NEAR(cost / double(kBatch) / double(kOutputs), std::log(2.0), 0.01);
}

}  // namespace
}  // namespace norn::test
