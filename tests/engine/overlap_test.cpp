// SPDX-License-Identifier: Apache-2.0
// Collectives that overlap with other work end as late as they may: at wait_for_overlapped(). The
// bits are those of collectives that are done at once.
#include "src/engine/network/context.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <mutex>

#include <fmt/format.h>

namespace norn::test {
namespace {

/// Does what overlap() is given at wait_for_overlapped(), and by then everything that was enqueued
/// in between.
class LateCollectives final : public Collectives {
 public:
  LateCollectives(Communicator& ranks, std::shared_ptr<Collectives> inner)
      : Collectives(ranks), inner_(std::move(inner)) {}
  std::string describe() const override { return "late, " + inner_->describe(); }
  int late() const { return late_; }

 private:
  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    inner_->all_gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    inner_->all_gather_columns(whole, shares);
  }
  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override {
    inner_->all_gather_rows(whole, shares);
  }
  void do_reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                 std::span<const Range> shares) override {
    inner_->reduce_scatter_columns(wholes, shares);
  }
  std::vector<MatrixView<const float>> do_exchange_columns(
      std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
      std::span<const Range> shares) override {
    return inner_->exchange_columns(mine, rows, counts, shares);
  }
  void do_all_reduce_sum(std::span<std::int64_t> values) override {
    inner_->all_reduce_sum(values);
  }
  void do_all_reduce_max(std::span<float> values) override { inner_->all_reduce_max(values); }
  bool can_overlap() const override { return true; }
  void do_overlap(const std::function<void()>& enqueue) override {
    do_wait_for_overlapped();
    waiting_ = enqueue;
  }
  void do_wait_for_overlapped() override {
    if (!waiting_) return;
    std::exchange(waiting_, {})();
    ++late_;
  }
  std::shared_ptr<Collectives> inner_;
  std::function<void()> waiting_;
  int late_ = 0;
};

constexpr std::int64_t kSteps = 12;

struct LateRun {
  std::vector<float> state;
  std::vector<double> costs;
  int late = 0;  ///< collectives of rank 0
};

LateRun run_late(const Recipe& recipe, int ranks, bool may) {
  LateRun result;
  std::mutex mutex;
  run_thread_group(ranks, [&](Communicator& communicator) {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
    Context context = runtime->context(communicator);
    const auto late = std::make_shared<LateCollectives>(communicator, context.collectives);
    late->allow_overlap(may);
    context.collectives = late;
    const std::unique_ptr<Network> held = network_of(recipe, context);
    Network& network = *held;
    RecipeData data(recipe);
    std::vector<double> costs = train_steps(network, data, kSteps);
    std::vector<float> state = gather_state(network);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) result = {std::move(state), std::move(costs), late->late()};
  });
  return result;
}

/// Layers whose updates a GPU keeps back: three hidden ones, 900 outputs, a batch of 72. And
/// other outputs, whose deltas stand where those did.
Recipe even_recipe() {
  Recipe recipe = deep_recipe("even layers", Adam{}, 0.003f, Activation(Sigmoid{}));
  recipe.network.training.batch = 72;
  recipe.network.layers = {input_layer("In", 333),
                           hidden_layer("First", 128, {"In"}, Activation(Relu{})),
                           hidden_layer("Second", 128, {"First"}, Activation(Relu{})),
                           hidden_layer("Third", 64, {"Second"}, Activation(Tanh{})),
                           output_layer("Out", 900, {"Third"}, Activation(Sigmoid{})),
                           output_layer("Other", 900, {"Second"}, Activation(Sigmoid{}))};
  recipe.network.layers[0].sparse = true;
  recipe.network.layers[1].dropout = 0.3f;
  return recipe;
}

TEST(Overlap, DoesNotChangeTheBits) {
  std::vector<Recipe> recipes = all_recipes();
  recipes.push_back(even_recipe());
  for (const Recipe& recipe : recipes) {
    const Outcome alone = run(recipe, kSteps, 1, 1);
    for (int ranks : {2, 3}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", recipe.name, ranks));
      const LateRun late = run_late(recipe, ranks, true);
      EXPECT_GT(late.late, 0);
      EXPECT_TRUE(same_bits({late.state, {}, late.costs}, {alone.state, {}, alone.costs}));
    }
  }
}

// Deltas of three layers, and the maxima of all of them at once.
TEST(Overlap, IsOfEveryDeltaAndOfTheMaxima) {
  EXPECT_EQ(run_late(even_recipe(), 2, true).late, 4 * kSteps);
  EXPECT_EQ(run_late(even_recipe(), 2, false).late, 0);
}

}  // namespace
}  // namespace norn::test
