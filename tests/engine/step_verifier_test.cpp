// SPDX-License-Identifier: Apache-2.0
// Steps computed twice: the same run as one without, and one flipped bit is found and its rank
// named.
#include "src/engine/train/step_verifier.h"

#include "norn/base/error.h"
#include "src/base/host.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/thread_group.h"

#include <cstring>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Counts calls; in the one that is chosen a bit of what the kernel wrote flips.
struct Fault {
  int call = -1;  ///< from 0; negative: never
  int bit = 0;
  int calls = 0;
  void strike(void* value) {
    if (calls++ == call)
      static_cast<unsigned char*>(value)[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
  }
};

/// What a rank changes for itself alone: the biases.
class FaultyUpdate final : public UpdateKernels {
 public:
  FaultyUpdate(std::unique_ptr<UpdateKernels> sound, Fault& fault)
      : sound_(std::move(sound)), fault_(fault) {}

 private:
  void do_update(const UpdateRule& rule, const UpdateStep& step, WeightView w,
                 MatrixView<const float> g, SlotViews slot) override {
    sound_->update(rule, step, w, g, slot);
  }
  void do_update_vectors(const UpdateRule& rule, const UpdateStep& step,
                         std::span<const VectorUpdate> vectors) override {
    sound_->update_vectors(rule, step, vectors);
    fault_.strike(vectors[0].w.data);
  }
  void do_initialise(const Initializer& initializer, Philox random, const WeightPlace& place,
                     MatrixView<float> w) override {
    sound_->initialise(initializer, random, place, w);
  }
  void do_clip_row_norms(float limit, MatrixView<float> w) override {
    sound_->clip_row_norms(limit, w);
  }
  void do_clip_column_norms(float limit, MatrixView<float> w) override {
    sound_->clip_column_norms(limit, w);
  }
  void do_add_row_squares(MatrixView<const float> w, VectorView<double> squares) override {
    sound_->add_row_squares(w, squares);
  }
  void do_add_column_squares(MatrixView<const float> w, VectorView<double> squares) override {
    sound_->add_column_squares(w, squares);
  }
  void do_scale_rows(float limit, VectorView<const double> squares, MatrixView<float> w) override {
    sound_->scale_rows(limit, squares, w);
  }
  void do_scale_columns(float limit, VectorView<const double> squares,
                        MatrixView<float> w) override {
    sound_->scale_columns(limit, squares, w);
  }
  void do_join(WeightView w, MatrixView<float> floats) override { sound_->join(w, floats); }
  void do_split(MatrixView<const float> floats, WeightView w) override { sound_->split(floats, w); }
  void do_norms(WeightView w, double* squares, double* magnitudes) override {
    sound_->norms(w, squares, magnitudes);
  }
  std::unique_ptr<UpdateKernels> sound_;
  Fault& fault_;
};

/// What every rank gets to see: sums of deltas, on their way to the owners of the units.
class FaultyFixed final : public FixedKernels {
 public:
  FaultyFixed(std::unique_ptr<FixedKernels> sound, Fault& fault)
      : sound_(std::move(sound)), fault_(fault) {}

 private:
  void do_add(const FixedFormat* format, const PartialSums& partial_sums,
              FixedMatrixView sum) override {
    sound_->add(format, partial_sums, sum);
    fault_.strike(sum.fine.data);
  }
  void do_set(const FixedFormat* format, const PartialSums& partial_sums,
              FixedMatrixView sum) override {
    sound_->set(format, partial_sums, sum);
  }
  void do_to_float(const FixedFormat* format, FixedMatrixView sum, const PartialSums& partial_sums,
                   MatrixView<float> value, float* maximum) override {
    sound_->to_float(format, sum, partial_sums, value, maximum);
  }
  void do_to_delta(FixedFormat* format, std::int64_t adapt_count, FixedMatrixView sum,
                   const PartialSums& partial_sums, const OutputSlope& slope,
                   MatrixView<float> delta, MatrixView<Bfloat16> bf16, float* maximum) override {
    sound_->to_delta(format, adapt_count, sum, partial_sums, slope, delta, bf16, maximum);
  }
  void do_adapt(const float* maximum, std::int64_t partial_sums, FixedFormat* format) override {
    sound_->adapt(maximum, partial_sums, format);
  }
  std::unique_ptr<FixedKernels> sound_;
  Fault& fault_;
};

/// Where one rank's kernels go wrong.
struct Faults {
  int rank = -1;
  Fault update = {};
  Fault fixed = {};
};

void break_kernels(Kernels& kernels, Faults& faults) {
  kernels.update = std::make_unique<FaultyUpdate>(std::move(kernels.update), faults.update);
  kernels.fixed = std::make_unique<FaultyFixed>(std::move(kernels.fixed), faults.fixed);
}

struct VerifiedRun {
  std::vector<float> state;
  std::vector<double> costs;
  std::string error;  ///< what each rank threw, the same on all
};

/// `every` 0: no step is verified.
VerifiedRun run_verified(const Recipe& recipe, std::int64_t steps, int ranks, std::int64_t every,
                         Faults faults = {}) {
  VerifiedRun run;
  std::mutex mutex;
  int errors = 0;
  run_thread_group(ranks, [&](Communicator& communicator) {
    CpuRuntime runtime(1);
    const Context context = runtime.context(communicator);
    context.compute.kernels.block_rule = recipe.blocks;
    if (communicator.rank() == faults.rank) break_kernels(context.compute.kernels, faults);
    Network network(make_graph(recipe.network, recipe.shapes(), recipe.name), recipe.shapes(),
                    context, recipe.network.training.batch, Pass::training, nullptr,
                    recipe.layers_by_example());
    network.initialise(recipe.network.training.seed);
    StepVerifier verifier(network, fmt::format("device of rank {}", communicator.rank()));
    RecipeData data(recipe);
    std::vector<double> costs;
    try {
      for (std::int64_t step = 0; step < steps; ++step) {
        const BoundBatch batch = data.batch(step);
        const bool verified = every > 0 && (step + 1) % every == 0;
        communicator.set_place({"training", 1, step + 1});
        costs.push_back((verified ? verifier.train_step(batch, data.position(step))
                                  : network.train_step(batch, data.position(step)))
                            .value());
      }
    } catch (const DeviceError& error) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(run.error.empty() || run.error == error.what()) << error.what();
      run.error = error.what();
      ++errors;
      return;
    }
    network.catch_up(steps);
    std::vector<float> state = gather_state(network);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) {
      run.state = std::move(state);
      run.costs = std::move(costs);
    }
  });
  EXPECT_TRUE(errors == 0 || errors == ranks);
  return run;
}

TEST(StepVerifier, RunsAreTheSameWithAndWithoutIt) {
  for (const Recipe& recipe : all_recipes())
    for (int ranks : {1, 3}) {
      const VerifiedRun plain = run_verified(recipe, 7, ranks, 0);
      for (std::int64_t every : {1, 3}) {
        const VerifiedRun verified = run_verified(recipe, 7, ranks, every);
        EXPECT_EQ(verified.error, "");
        EXPECT_EQ(plain.costs, verified.costs) << recipe.name;
        ASSERT_EQ(plain.state.size(), verified.state.size());
        EXPECT_EQ(std::memcmp(plain.state.data(), verified.state.data(),
                              plain.state.size() * sizeof(float)),
                  0)
            << recipe.name;
      }
    }
}

TEST(StepVerifier, NamesTheRankWhoseWeightsDiffer) {
  const Recipe recipe = all_recipes().front();
  for (int ranks : {1, 3})
    for (int rank = 0; rank < ranks; ++rank)
      for (int call : {0, 5, 6, 7}) {  // two a step: 0 and 6 in first computations
        Faults faults{.rank = rank};
        faults.update = {.call = call, .bit = call % 2 == 0 ? 0 : 30};
        const VerifiedRun run = run_verified(recipe, 5, ranks, 1, faults);
        const int step = call / 2 + 1;
        EXPECT_EQ(run.error,
                  fmt::format(
                      "rank {} of {} on {} (device of rank {}): step {} (training, epoch 1, batch "
                      "{}) was computed twice from the same state with different results: this "
                      "is a fault of the hardware; no checkpoint holds the result; leave this "
                      "machine out and resume from the last checkpoint, if there is one",
                      rank, ranks, host_name(), rank, step, step));
      }
}

// All ranks get other deltas than before; only one brought them.
TEST(StepVerifier, NamesTheRankThatWentWrongFirst) {
  const Recipe recipe = all_recipes().front();
  for (int rank = 0; rank < 3; ++rank)
    for (int call : {0, 1, 4}) {
      Faults faults{.rank = rank};
      faults.fixed = {.call = call, .bit = 60};
      const VerifiedRun run = run_verified(recipe, 5, 3, 1, faults);
      EXPECT_THAT(run.error, HasSubstr(fmt::format("rank {} of 3 on", rank)));
      for (int other = 0; other < 3; ++other) {
        if (other == rank) continue;
        EXPECT_THAT(run.error, Not(HasSubstr(fmt::format("device of rank {}", other))));
      }
    }
}

TEST(StepVerifier, SeesOnlyTheStepsThatItIsGiven) {
  Faults faults{.rank = 0};
  faults.update = {.call = 0, .bit = 0};  // step 1; 2 is verified
  EXPECT_EQ(run_verified(all_recipes().front(), 5, 1, 2, faults).error, "");
}

TEST(StepVerifier, DivergenceStaysDivergence) {
  Recipe wild = all_recipes().back();
  wild.network.training.rate = 1e30f;
  for (int ranks : {1, 3}) EXPECT_THROW(run_verified(wild, 20, ranks, 1), DivergenceError);
}

TEST(Training, EndsBeforeACheckpointTakesAWrongStep) {
  const TempDir folder;
  Recipe recipe = deep_recipe("fault", Adam{}, 0.01f, SoftMax{});
  recipe.network.training.epochs = 4;
  write_data(recipe, folder / "data.nc");
  const DataSources sources{{folder / "data.nc"}, {folder / "data.nc"}};
  const DataBinding data(recipe.network, sources, DataBinding::Layers::inputs_and_outputs);
  const auto alone = make_single_process();
  CpuRuntime runtime(1);
  const Context context = runtime.context(*alone);
  Faults faults;
  faults.update = {.call = 2 * 9, .bit = 3};  // step 10, the last of epoch 2
  break_kernels(context.compute.kernels, faults);
  Network network(make_graph(recipe.network, data.shapes(), "fault"), data.shapes(), context,
                  recipe.network.training.batch, Pass::training, nullptr,
                  recipe.layers_by_example());
  network.initialise(1);
  TrainingState state;
  const CheckpointPolicy policy{folder / "model.nc", 1, 0.0, 0};
  try {
    train(network, data, policy, false, {}, state, {1, "a CPU"});
    FAIL() << "the fault was not found";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("(a CPU): step 10 (training, epoch 2, batch 5)")));
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "model.epoch1.nc"));
  EXPECT_FALSE(std::filesystem::exists(folder / "model.epoch2.nc"));
}

}  // namespace
}  // namespace norn::test
