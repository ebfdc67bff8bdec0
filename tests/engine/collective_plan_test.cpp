// SPDX-License-Identifier: Apache-2.0
// The collectives of a plan against those that training really calls.
#include "src/engine/plan/step_plan.h"
#include "tests/engine/planned_collectives.h"
#include "tests/support/passing_communicator.h"
#include "tests/support/recipes.h"
#include "tests/support/thread_group.h"

#include <map>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

using Kind = CollectivePlan::Kind;

// Counts bytes of whole arrays by kind.
class CountingCommunicator final : public test::PassingCommunicator {
 public:
  using PassingCommunicator::PassingCommunicator;
  std::map<Kind, double> bytes;
  std::map<Kind, int> calls;

 private:
  void count(Kind kind, double elements, double size) {
    bytes[kind] += elements * size;
    ++calls[kind];
  }
  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    count(Kind::all_gather, double(whole.size()), sizeof(float));
    PassingCommunicator::do_all_gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    count(Kind::all_gather, double(whole.size()), sizeof(Bfloat16));
    PassingCommunicator::do_all_gather_columns(whole, shares);
  }
  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override {
    count(Kind::all_gather, double(whole.size()), sizeof(float));
    PassingCommunicator::do_all_gather_rows(whole, shares);
  }
  void do_reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                 std::span<const Range> shares) override {
    count(Kind::reduce_scatter, double(whole.size()), sizeof(std::int64_t));
    PassingCommunicator::do_reduce_scatter_columns(whole, shares);
  }
  void do_exchange_columns(std::span<const MatrixView<const float>> mine, Index rows,
                           std::span<const Index> counts, std::span<const Range> shares,
                           std::span<float> received) override {
    double all = 0.0;
    for (const Index count : counts) all += double(count);
    count(Kind::exchange, all * double(rows) * double(shares.back().end), sizeof(float));
    PassingCommunicator::do_exchange_columns(mine, rows, counts, shares, received);
  }
  void do_all_reduce_sum(std::span<std::int64_t> values) override {
    count(Kind::all_reduce, double(values.size()), sizeof(std::int64_t));
    PassingCommunicator::do_all_reduce_sum(values);
  }
  void do_all_reduce_max(std::span<float> values) override {
    count(Kind::all_reduce, double(values.size()), sizeof(float));
    PassingCommunicator::do_all_reduce_max(values);
  }
};

TEST(CollectivePlan, IsWhatTrainingExchanges) {
  constexpr int kRanks = 3;
  constexpr std::int64_t kSteps = 3;  // the first may need coarse accumulators, too
  for (const Recipe& recipe : all_recipes()) {
    std::map<Kind, double> bytes;
    std::map<Kind, int> calls;
    run_thread_group(kRanks, [&](Communicator& communicator) {
      CountingCommunicator counting(communicator);
      CpuRuntime runtime(1);
      const Context context = runtime.context(counting);
      context.compute.kernels.block_rule = recipe.blocks;
      Network network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(), context,
                      recipe.network.training.batch, Pass::training, nullptr,
                      recipe.layers_by_example());
      network.initialise(1);
      RecipeData data(recipe);
      for (std::int64_t step = 0; step < kSteps; ++step) {
        counting.bytes.clear();
        counting.calls.clear();
        network.train_step(data.batch(step), data.position(step));
      }
      if (communicator.rank() == 0) {
        bytes = counting.bytes;
        calls = counting.calls;
      }
      communicator.barrier();
    });

    PlanSettings settings;
    settings.batch = recipe.network.training.batch;
    settings.ranks = kRanks;
    settings.device.block_rule = recipe.blocks;
    settings.by_example = recipe.layers_by_example();
    std::map<Kind, double> planned;
    std::map<Kind, int> planned_calls;
    for (const CollectivePlan& collective :
         test::planned_collectives(make_graph(recipe.network, recipe.shapes(), "test"), settings)) {
      planned[collective.kind] += collective.count * collective.bytes;
      planned_calls[collective.kind] += collective.count;
    }
    EXPECT_EQ(planned[Kind::all_gather], bytes[Kind::all_gather]) << recipe.name;
    EXPECT_EQ(planned_calls[Kind::all_gather], calls[Kind::all_gather]) << recipe.name;
    EXPECT_EQ(planned[Kind::reduce_scatter], bytes[Kind::reduce_scatter]) << recipe.name;
    EXPECT_EQ(planned[Kind::exchange], bytes[Kind::exchange]) << recipe.name;
    EXPECT_EQ(planned_calls[Kind::exchange], calls[Kind::exchange]) << recipe.name;
    // The trainer asks once more, whether to stop.
    EXPECT_EQ(planned_calls[Kind::all_reduce], calls[Kind::all_reduce] + 1) << recipe.name;
  }
}

}  // namespace
}  // namespace norn::test
