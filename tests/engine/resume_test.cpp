// SPDX-License-Identifier: Apache-2.0
// Training that was stopped and resumed is training that was never stopped, bit by bit; checkpoints
// are complete or refused.
#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "src/engine/data/feature_weights.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <fstream>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Session {
  std::int64_t stop_after = -1;  ///< steps
  bool resume = false;
  int ranks = 1;
  int threads = 1;
  std::int64_t every_epochs = 0;
  int keep = 3;
  double every_minutes = 0.0;
  bool as_time_allows = false;
  double least_seconds = 0.0;
};

struct Result {
  TrainingEnd end = TrainingEnd::completed;
  TrainingState state;
  std::vector<float> weights;
  std::vector<double> epoch_costs;
  std::vector<CheckpointReport> checkpoints;  ///< that were told of, each of a whole file
};

class Resume : public testing::TestWithParam<std::string> {
 protected:
  void use(const Recipe& recipe) {
    recipe_ = recipe;
    recipe_.network.training.epochs = 3;
    write_data(recipe_, folder_ / "data.nc");
  }

  static Recipe small_recipe(const UpdateRule& optimizer) {
    Recipe recipe = deep_recipe("resume", optimizer, 0.01f, SoftMax{});
    recipe.network.layers[0].extent[0] = 133;
    recipe.network.layers[3].extent[0] = 103;
    recipe.network.layers[2].batch_normalization = true;
    return recipe;
  }

  // One process's life: from the start or from the newest checkpoint, to the end or to a stop.
  Result live(const Session& session) const {
    Result result;
    std::mutex mutex;
    const auto body = [&](Communicator& communicator) {
      const std::unique_ptr<Runtime> runtime =
          make_test_runtime(session.threads, session.stop_after > 0 ? 0 : 4);
      const Context context = runtime->context(communicator);
      context.compute.kernels.block_rule = recipe_.blocks;
      ModelInfo info;
      info.network = recipe_.network;
      std::unique_ptr<TensorFileReader> file;
      if (session.resume) {
        file = std::make_unique<TensorFileReader>(find_checkpoint(model_path()).value());
        info = read_model_info(*file);
      }
      const DataSources sources{{folder_ / "data.nc"}, {folder_ / "data.nc"}};
      const DataBinding data(info.network, sources, DataBinding::Layers::inputs_and_outputs);
      Network network(make_graph(info.network, data.shapes(), "resume"), data.shapes(), context,
                      info.network.training.batch, Pass::training, nullptr,
                      recipe_.layers_by_example());
      TrainingState state;
      if (session.resume) {
        load_weights(communicator.rank() == 0 ? file.get() : nullptr, info, network);
        state = info.state;
      } else {
        network.initialise(info.network.training.seed);
        weigh_features(network, data);
      }
      std::atomic<bool> stop = false;
      std::vector<double> epoch_costs;
      TrainingObserver observer;
      observer.on_step = [&](const StepReport& report) {
        if (report.step == session.stop_after) stop = true;
      };
      observer.on_epoch = [&](const EpochReport& report) {
        epoch_costs.push_back(report.training_cost);
        epoch_costs.push_back(report.regularization_cost);
      };
      std::vector<CheckpointReport> checkpoints;
      observer.on_checkpoint = [&](const CheckpointReport& report) {
        TensorFileReader(report.path).verify();
        checkpoints.push_back(report);
      };
      CheckpointPolicy policy{model_path(), session.every_epochs, session.every_minutes,
                              session.keep};
      policy.as_time_allows = session.as_time_allows;
      policy.least_seconds = session.least_seconds;
      const TrainingEnd end = train(network, data, policy, stop, observer, state);
      std::vector<float> weights = gather_state(network);
      const std::lock_guard lock(mutex);
      if (communicator.rank() == 0)
        result = {end, state, std::move(weights), std::move(epoch_costs), std::move(checkpoints)};
    };
    if (const int ranks = session.ranks; ranks == 1)
      body(*make_single_process());
    else
      run_thread_group(ranks, body);
    return result;
  }

  fs::path model_path() const { return folder_ / "model.nc"; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  const TempDir folder_;
  Recipe recipe_;
};

TEST_P(Resume, AfterAnyStepIsNeverHavingStopped) {
  Recipe recipe = small_recipe(*find_named<UpdateRule>(GetParam()));
  recipe.network.layers[0].input_weighting = InverseDocumentFrequency{};
  use(recipe);
  const Result straight = live({});
  ASSERT_EQ(straight.end, TrainingEnd::completed);
  ASSERT_EQ(straight.state.step, 15);
  const Session resumed[] = {{.resume = true},
                             {.resume = true, .ranks = 1, .threads = 3},
                             {.resume = true, .ranks = 3, .threads = 1}};
  int turn = 0;
  for (std::int64_t step : {1, 4, 5, 8, 14}) {
    SCOPED_TRACE(fmt::format("stopped after step {}", step));
    for (const std::string& name : files())
      if (name != "data.nc") fs::remove(folder_ / name);
    const Result first = live({.stop_after = step, .ranks = 1 + turn % 2});
    EXPECT_EQ(first.end, TrainingEnd::stopped);
    EXPECT_EQ(first.state.step, step);
    const Result second = live(resumed[turn++ % 3]);
    EXPECT_EQ(second.end, TrainingEnd::completed);
    EXPECT_EQ(second.state.step, straight.state.step);
    ASSERT_EQ(second.weights.size(), straight.weights.size());
    EXPECT_EQ(std::memcmp(second.weights.data(), straight.weights.data(),
                          straight.weights.size() * sizeof(float)),
              0);
    // Epochs completed before the stop were reported then; the others are reported alike.
    std::vector<double> costs = first.epoch_costs;
    costs.insert(costs.end(), second.epoch_costs.begin(), second.epoch_costs.end());
    EXPECT_EQ(costs, straight.epoch_costs);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Resume, testing::ValuesIn(names_of<UpdateRule>()),
                         [](const auto& named) { return named.param; });

class Checkpoints : public Resume {};

TEST_F(Checkpoints, MayBeStoppedAgainAndAgain) {
  use(small_recipe(Adam{}));
  const Result straight = live({});
  live({.stop_after = 2});
  live({.stop_after = 3, .resume = true, .ranks = 4});
  live({.stop_after = 11, .resume = true, .ranks = 2});
  const Result last = live({.resume = true});
  EXPECT_EQ(last.weights, straight.weights);
}

TEST_F(Checkpoints, OfOtherLayoutsAreResumedOnAnyNumberOfRanks) {
  for (const Recipe& recipe :
       {by_source_recipe("resume", Adam{}, 0.003f), by_example_recipe(Adam{}, 0.003f)}) {
    SCOPED_TRACE(recipe.name);
    for (const std::string& name : files()) fs::remove(folder_ / name);
    use(recipe);
    const Result straight = live({});
    live({.stop_after = 2, .ranks = 3});
    live({.stop_after = 3, .resume = true, .ranks = 9});
    live({.stop_after = 11, .resume = true, .threads = 2});
    const Result last = live({.resume = true, .ranks = 4});
    EXPECT_EQ(last.weights, straight.weights);
  }
}

TEST_F(Checkpoints, OfEveryRecipeAreResumed) {
  for (const Recipe& recipe : all_recipes()) {
    SCOPED_TRACE(recipe.network.name);
    for (const std::string& name : files()) fs::remove(folder_ / name);
    use(recipe);
    const Result straight = live({});
    ASSERT_GT(straight.state.step, 2);
    EXPECT_EQ(live({.stop_after = 2, .ranks = 2}).end, TrainingEnd::stopped);
    const Result last = live({.resume = true, .ranks = 3});
    ASSERT_EQ(last.weights.size(), straight.weights.size());
    EXPECT_EQ(std::memcmp(last.weights.data(), straight.weights.data(),
                          straight.weights.size() * sizeof(float)),
              0);
  }
}

TEST_F(Checkpoints, OfEveryEpochKeepTheNewest) {
  use(small_recipe(Momentum{}));
  recipe_.network.training.epochs = 6;
  live({.every_epochs = 1, .keep = 2});
  EXPECT_EQ(files(), (std::vector<std::string>{"data.nc", "model.epoch4.nc", "model.epoch5.nc"}));
  EXPECT_EQ(find_checkpoint(model_path()).value().filename(), "model.epoch5.nc");
}

TEST_F(Checkpoints, OfEveryMomentComeBetweenEpochsToo) {
  use(small_recipe(Sgd{}));
  live({.stop_after = 7, .ranks = 2, .keep = 2, .every_minutes = 1e-12});
  EXPECT_EQ(files(), (std::vector<std::string>{"data.nc", "model.epoch1.batch1.nc",
                                               "model.epoch1.batch2.nc"}));
}

// However often training goes on while one is written, it is the file that a stop at its step
// leaves.
TEST_F(Checkpoints, WrittenWhileTrainingGoesOnAreThoseOfAStop) {
  use(small_recipe(Adam{}));
  recipe_.network.training.epochs = 6;
  const Result straight = live({});
  for (const int ranks : {1, 2}) {
    const Result run = live({.ranks = ranks, .keep = 0, .as_time_allows = true});
    EXPECT_EQ(run.weights, straight.weights);
    ASSERT_FALSE(run.checkpoints.empty());
    std::map<std::int64_t, std::string> written;
    for (const CheckpointReport& report : run.checkpoints) {
      EXPECT_TRUE(written.empty() || report.step > written.rbegin()->first);
      written[report.step] = read_text(report.path);
      const TrainingState state = read_model_info(TensorFileReader(report.path)).state;
      EXPECT_EQ(report.step, state.step);
      EXPECT_EQ(report.epoch, state.epoch + (state.batch > 0 ? 1 : 0));
      fs::remove(report.path);
    }
    EXPECT_EQ(files(), std::vector<std::string>{"data.nc"});
    for (const auto& [step, bytes] : written) {
      const Result stopped = live({.stop_after = step, .ranks = 3 - ranks});
      ASSERT_EQ(stopped.checkpoints.size(), 1u);
      EXPECT_TRUE(read_text(stopped.checkpoints[0].path) == bytes) << "step " << step;
      fs::remove(stopped.checkpoints[0].path);
    }
  }
}

TEST_F(Checkpoints, AreNoneUntilTheyCostLittle) {
  use(small_recipe(Sgd{}));
  EXPECT_TRUE(live({.as_time_allows = true, .least_seconds = 1e6}).checkpoints.empty());
  EXPECT_EQ(files(), std::vector<std::string>{"data.nc"});
}

TEST_F(Checkpoints, AreNoneInAnEmptyFolder) {
  EXPECT_FALSE(find_checkpoint(model_path()).has_value());
}

TEST_F(Checkpoints, ThatAreDamagedGiveWayToOlderOnes) {
  use(small_recipe(Adam{}));
  live({.stop_after = 12, .every_epochs = 1});
  const fs::path newest = folder_ / "model.epoch2.batch2.nc";
  ASSERT_EQ(find_checkpoint(model_path()), newest);

  // Cut off: what a full disk or a copy that was broken off leaves.
  fs::resize_file(newest, fs::file_size(newest) / 2);
  std::vector<std::string> said;
  const Log log([&](LogLevel, const std::string& line) { said.push_back(line); });
  EXPECT_EQ(find_checkpoint(model_path(), log).value().filename(), "model.epoch2.nc");
  EXPECT_THAT(said, testing::ElementsAre(testing::AllOf(HasSubstr("passed over: "),
                                                        HasSubstr("model.epoch2.batch2.nc: "))));
  const std::string message = message_of<DataError>([&] { TensorFileReader file(newest); });
  EXPECT_THAT(message, HasSubstr("model.epoch2.batch2.nc"));
}

TEST_F(Checkpoints, WithAFlippedBitAreRefused) {
  use(small_recipe(Adam{}));
  live({.stop_after = 12, .every_epochs = 1});
  const fs::path newest = folder_ / "model.epoch2.batch2.nc";
  {
    // Weights are most of the file: its middle is among them.
    std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = std::streamoff(fs::file_size(newest) / 2);
    file.seekg(middle);
    const char byte = char(file.get() ^ 0x10);
    file.seekp(middle);
    file.put(byte);
  }
  EXPECT_EQ(find_checkpoint(model_path()).value().filename(), "model.epoch2.nc");
  const TensorFileReader file(newest);
  const std::string message = message_of<DataError>([&] { file.verify(); });
  EXPECT_THAT(message, HasSubstr("model.epoch2.batch2.nc"));
}

// The damaged one neither counts as one that stays nor pushes out what is written after it.
TEST_F(Checkpoints, ThatArePassedOverDoNotPushOutNewOnes) {
  use(small_recipe(Adam{}));
  live({.stop_after = 12, .every_epochs = 1});
  fs::resize_file(folder_ / "model.epoch2.batch2.nc", 100);
  live({.stop_after = 11, .resume = true, .keep = 1});
  EXPECT_EQ(files(), (std::vector<std::string>{"data.nc", "model.epoch2.batch1.nc",
                                               "model.epoch2.batch2.nc"}));
  EXPECT_EQ(find_checkpoint(model_path()).value().filename(), "model.epoch2.batch1.nc");
}

TEST_F(Checkpoints, OfKilledRunsLeaveNoTemporaryFiles) {
  constexpr int kEnded = 0x3fffffff;  // larger than the number of any process
  const std::string names[] = {"model.nc", "model.epoch3.nc", "model.epoch3.batch7.nc"};
  for (const std::string& name : names)
    write_text(folder_ / fmt::format("{}.tmp-{}-0", name, kEnded), "half");
  const std::string other = fmt::format("model.extra.nc.tmp-{}-0", kEnded);
  write_text(folder_ / other, "somebody else's");
  EXPECT_EQ(remove_abandoned_files(model_path()).size(), 3u);
  EXPECT_EQ(files(), std::vector<std::string>{other});
}

// A rank dies while the model is written: the file of before is still there, whole.
TEST_F(Checkpoints, ThatALostRankInterruptsLeaveThePreviousFile) {
  use(small_recipe(Sgd{}));
  live({.stop_after = 3});
  const fs::path path = folder_ / "model.epoch0.batch3.nc";
  const std::string before = read_text(path);
  ASSERT_FALSE(before.empty());
  const std::vector<std::string> names = files();
  EXPECT_THROW(run_thread_group(2,
                                [&](Communicator& communicator) {
                                  const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
                                  Network network(
                                      make_graph(recipe_.network, recipe_.shapes(), "test"),
                                      recipe_.shapes(), runtime->context(communicator), 37,
                                      Pass::training);
                                  if (communicator.rank() == 1) throw std::runtime_error("gone");
                                  save_model(path, network, TrainingState{});
                                }),
               std::runtime_error);
  EXPECT_EQ(read_text(path), before);
  EXPECT_EQ(files(), names);
}

TEST_F(Checkpoints, OfARunThatIsCompleteNeedNoMoreSteps) {
  use(small_recipe(Sgd{}));
  live({.stop_after = 15});
  const Result again = live({.resume = true});
  EXPECT_EQ(again.end, TrainingEnd::completed);
  EXPECT_EQ(again.state.step, 15);
  EXPECT_TRUE(again.epoch_costs.empty());
}

}  // namespace
}  // namespace norn::test
