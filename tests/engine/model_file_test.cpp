// SPDX-License-Identifier: Apache-2.0
// Model files: everything comes back, on any number of ranks, and models that DSSTNE wrote are
// read.
#include "src/engine/model/model_file.h"

#include "norn/base/error.h"
#include "src/engine/model/model_parts.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/stored_weights.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cmath>
#include <cstdlib>
#include <future>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 7;

// A network of a recipe on one rank, trained a little, or built from a file.
class Workshop {
 public:
  explicit Workshop(const Recipe& recipe, Communicator& communicator, Pass purpose = Pass::training)
      : runtime_(make_test_runtime(1)), context_(runtime_->context(communicator)) {
    context_.compute.kernels.block_rule = recipe.blocks;
    network_ = std::make_unique<Network>(make_graph(recipe.network, recipe.shapes(), "test"),
                                         recipe.shapes(), context_, recipe.network.training.batch,
                                         purpose, nullptr, recipe.layers_by_example());
  }
  Network& network() { return *network_; }
  void train(const Recipe& recipe) {
    network_->initialise(recipe.network.training.seed);
    go_on(recipe, 0);
  }
  void go_on(const Recipe& recipe, std::int64_t steps_done) {
    RecipeData data(recipe);
    for (std::int64_t step = steps_done; step < steps_done + kSteps; ++step)
      network_->train_step(data.batch(step), data.position(step));
    network_->catch_up(steps_done + kSteps);
  }

 private:
  std::unique_ptr<Runtime> runtime_;
  Context context_;
  std::unique_ptr<Network> network_;
};

TrainingState some_state() {
  TrainingState state;
  state.step = kSteps;
  state.epoch = 1;
  state.batch = 2;
  state.epoch_cost.add(1234.56789);
  state.epoch_cost.add(-1e-9);
  state.epoch_examples = 74;
  return state;
}

// Parameters, and the state of the update rule, of a network of one rank.
std::vector<std::vector<std::byte>> left_behind(Network& network) {
  std::vector<std::vector<std::byte>> all;
  network.for_each_state([&](const Tensor& tensor, std::byte* data) {
    const std::string_view element = tensor.element;
    if (element != element_name<float>() && element != element_name<Bfloat16>() &&
        element != element_name<std::int16_t>())
      return;
    std::vector<std::byte>& values = all.emplace_back(std::size_t(tensor.bytes()));
    network.context().compute.memory.read(data, values.data(), std::size_t(tensor.bytes()));
  });
  return all;
}

// What a model has to keep though no recipe says it.
Recipe with_unusual_settings(Recipe recipe) {
  recipe.network.shuffle = false;
  for (LayerDescriptor& layer : recipe.network.layers)
    if (layer.kind != LayerKind::input)
      std::visit([](auto& scheme) { scheme.scale = 0.37f; }, layer.init.scheme);
  return recipe;
}

class ModelFile : public testing::TestWithParam<int> {
 protected:
  const TempDir folder_;
  const fs::path path_ = folder_ / "model.nc";
  const Recipe recipe_ = with_unusual_settings(all_recipes().at(std::size_t(GetParam())));
};

TEST_P(ModelFile, GivesEverythingBack) {
  const auto one = make_single_process();
  Workshop trained(recipe_, *one);
  trained.train(recipe_);
  const TrainingState state = some_state();
  save_model(path_, trained.network(), state);

  const TensorFileReader file(path_);
  file.verify();
  const ModelInfo info = read_model_info(file);
  EXPECT_EQ(to_json(info.network), to_json(trained.network().descriptor()));
  EXPECT_TRUE(info.has_training_state);
  EXPECT_EQ(info.state.step, state.step);
  EXPECT_EQ(info.state.epoch, state.epoch);
  EXPECT_EQ(info.state.batch, state.batch);
  EXPECT_TRUE(info.state.epoch_cost == state.epoch_cost);
  EXPECT_EQ(info.state.epoch_examples, state.epoch_examples);

  Recipe read = recipe_;
  read.network = info.network;
  Workshop copy(read, *one);
  load_weights(&file, info, copy.network());
  EXPECT_EQ(left_behind(copy.network()), left_behind(trained.network()));
  for (int layer : copy.network().order()) {
    const UnitLayer* unit = copy.network().unit_layer(layer);
    if (unit && unit->delta_sum.allocated()) {
      EXPECT_EQ(unit->delta_sum.fine_bits(),
                trained.network().unit_layer(layer)->delta_sum.fine_bits());
    }
  }
}

TEST_P(ModelFile, HasTheSameBytesFromAnyNumberOfRanks) {
  const auto save = [&](int ranks, const fs::path& path) {
    const auto body = [&](Communicator& communicator) {
      Workshop trained(recipe_, communicator);
      trained.train(recipe_);
      save_model(path, trained.network(), some_state());
    };
    if (ranks == 1)
      body(*make_single_process());
    else
      run_thread_group(ranks, body);
  };
  save(1, path_);
  save(3, folder_ / "three.nc");
  EXPECT_TRUE(read_text(path_) == read_text(folder_ / "three.nc"));
}

// What trains on while it is written does not change it, and where there is no memory for all of it
// the values that have been copied wait for the disk.
TEST_P(ModelFile, WrittenBesideComputingIsOfTheMomentWhenItWasBegun) {
  for (const int ranks : {1, 2}) {
    std::promise<void> disk;
    const std::shared_future<void> disk_is_free = disk.get_future().share();
    const auto body = [&](Communicator& communicator) {
      Workshop trained(recipe_, communicator);
      trained.train(recipe_);
      save_model(path_, trained.network(), some_state());
      const std::string expected = read_text(path_);
      communicator.barrier();
      BackgroundWork writer;
      if (communicator.rank() == 0) writer.add([&] { disk_is_free.wait(); }, 0, 0);
      save_model(path_, trained.network(), some_state(), writer, std::int64_t(1) << 40);
      try {
        trained.go_on(recipe_, kSteps);
      } catch (...) {
        if (communicator.rank() == 0) disk.set_value();  // or its writer would wait for ever
        throw;
      }
      if (communicator.rank() != 0) return;
      EXPECT_FALSE(writer.is_done());
      EXPECT_TRUE(read_text(path_) == expected);
      fs::remove(path_);
      disk.set_value();
      writer.wait();
      EXPECT_TRUE(read_text(path_) == expected) << ranks << " ranks";
    };
    if (ranks == 1)
      body(*make_single_process());
    else
      run_thread_group(ranks, body);
  }
}

// The folder goes while the values wait: what is thrown is what a disk at fault leads to.
TEST_P(ModelFile, ThatCannotBeWrittenBesideComputingSaysSoAndLeavesNothing) {
  const auto one = make_single_process();
  Workshop trained(recipe_, *one);
  trained.train(recipe_);
  const fs::path folder = folder_ / "gone";
  fs::create_directory(folder);
  std::promise<void> disk;
  BackgroundWork writer;
  writer.add([&] { disk.get_future().wait(); }, 0, 0);
  save_model(folder / "model.nc", trained.network(), some_state(), writer, 0);
  fs::rename(folder, folder_ / "moved");
  disk.set_value();
  EXPECT_THAT(message_of<DataError>([&] { writer.wait(); }),
              HasSubstr((folder / "model.nc").string() + ": "));
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().filename(), "moved");  // with what could not be found for removal
  }
}

TEST_P(ModelFile, IsReadByAnyNumberOfRanks) {
  const auto one = make_single_process();
  Workshop trained(recipe_, *one);
  trained.train(recipe_);
  save_model(path_, trained.network(), some_state());
  const std::vector<float> expected = gather_state(trained.network());
  run_thread_group(4, [&](Communicator& communicator) {
    const TensorFileReader file(path_);
    const ModelInfo info = read_model_info(file);
    Workshop copy(recipe_, communicator);
    load_weights(communicator.rank() == 0 ? &file : nullptr, info, copy.network());
    EXPECT_EQ(gather_state(copy.network()), expected);
  });
}

TEST_P(ModelFile, ForPredictionHoldsNoUpdateState) {
  const auto one = make_single_process();
  Workshop trained(recipe_, *one);
  trained.train(recipe_);
  save_model(path_, trained.network(), std::nullopt);
  const TensorFileReader file(path_);
  const ModelInfo info = read_model_info(file);
  EXPECT_FALSE(info.has_training_state);
  EXPECT_FALSE(file.has_variable("weight0_slot0"));
  Workshop copy(recipe_, *one, Pass::prediction);
  load_weights(&file, info, copy.network());
  for (std::size_t e = 0; e < copy.network().graph().edges.size(); ++e) {
    if (!copy.network().weights(int(e))) continue;
    const auto weights_of = [&](Network& network) {
      std::vector<float> all;
      gather_rows(network, int(e), 0, [&](Index, MatrixView<const float> rows) {
        all.insert(all.end(), rows.data, rows.data + rows.size());
      });
      return all;
    };
    const std::vector<float> found = weights_of(copy.network());
    const std::vector<float> expected = weights_of(trained.network());
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, ModelFile, testing::Range(0, int(all_recipes().size())),
                         [](const auto& named) {
                           std::string name = all_recipes()[std::size_t(named.param)].name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(ModelFileLayout, HasWeightsBySourceThenDestination) {
  const TempDir folder;
  const Recipe recipe = all_recipes().front();
  const auto one = make_single_process();
  Workshop trained(recipe, *one);
  trained.train(recipe);
  save_model(folder / "model.nc", trained.network(), std::nullopt);
  const TensorFileReader file(folder / "model.nc");
  for (std::size_t e = 0; e < 3; ++e) {
    Weights& weights = *trained.network().weights(int(e));
    const WeightShape& shape = weights.shape();
    EXPECT_EQ(file.integer(fmt::format("weight{}_bLocked", e)), 0) << "which DSSTNE trains on";
    ASSERT_EQ(file.integer(fmt::format("weight{}_height", e)), shape.sources);
    ASSERT_EQ(file.integer(fmt::format("weight{}_width", e)), shape.destinations);
    std::vector<float> stored(std::size_t(shape.sources * shape.destinations));
    file.read(fmt::format("weight{}_weights", e), 0, std::span(stored));
    Matrix<float> held(weights.rows(), weights.cols());
    read_weights(trained.network().context().compute.memory, weights.values(), held.view());
    const MatrixView<const float> held_at = held.view();
    for (Index i = 0; i < shape.sources; ++i)
      for (Index j = 0; j < shape.destinations; ++j)
        ASSERT_EQ(stored[std::size_t(i * shape.destinations + j)],
                  shape.by_destination ? held_at(j, i) : held_at(i, j));
  }
}

// Where the files of a bundle are, or the source.
fs::path kept_checkpoint() {
  const char* bundled = std::getenv("NORN_DATA");
  const fs::path folder = bundled ? fs::path(bundled) : fs::path(NORN_SOURCE_DIR) / "tests/data";
  return folder / "checkpoint/float32.nc";
}

Recipe kept_recipe() {
  Recipe recipe = recipe_base("kept", Adam{}, 0.01f);
  recipe.network.layers = {input_layer("In", 13), hidden_layer("First", 16, {"In"}),
                           hidden_layer("Second", 9, {"First"}, Activation(Relu{})),
                           output_layer("Out", 11, {"Second"}, Activation(Sigmoid{}))};
  recipe.network.layers[0].sparse = true;
  return recipe;
}

// Written when all devices held weights as floats (tests/data/checkpoint).
TEST(KeptCheckpoint, IsGivenBackAndGoneOnFromWhateverDevicesHold) {
  const TempDir folder;
  const auto one = make_single_process();
  const auto resumed = [&](const fs::path& path) {
    const TensorFileReader file(path);
    const ModelInfo info = read_model_info(file);
    EXPECT_EQ(info.state.step, kSteps);
    Recipe recipe = kept_recipe();
    recipe.network = info.network;
    auto network = std::make_unique<Workshop>(recipe, *one);
    load_weights(&file, info, network->network());
    return network;
  };
  const auto kept = resumed(kept_checkpoint());
  save_model(folder / "again.nc", kept->network(), some_state());
  const TensorFileReader before(kept_checkpoint()), after(folder / "again.nc");
  for (const auto& [edge, elements] : {std::pair{0, 13 * 16}, {1, 16 * 9}, {2, 9 * 11}})
    for (const char* item : {"weights", "slot0", "slot1"}) {
      const std::string name = fmt::format("weight{}_{}", edge, item);
      std::vector<float> expected(static_cast<std::size_t>(elements)), found(expected.size());
      before.read(name, 0, std::span(expected));
      after.read(name, 0, std::span(found));
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
          << name;
    }
  const auto copy = resumed(folder / "again.nc");
  for (Workshop* workshop : {kept.get(), copy.get()}) workshop->go_on(kept_recipe(), kSteps);
  const std::vector<float> state = gather_state(kept->network());
  EXPECT_EQ(state, gather_state(copy->network()));
  EXPECT_TRUE(std::ranges::all_of(state, [](float x) { return std::isfinite(x); }));
}

TEST(ModelFileErrors, NameTheFileAndWhatIsWrong) {
  const TempDir folder;
  const Recipe recipe = all_recipes().front();
  const auto one = make_single_process();
  Workshop trained(recipe, *one);
  trained.train(recipe);
  const fs::path path = folder / "model.nc";
  save_model(path, trained.network(), std::nullopt);
  const TensorFileReader file(path);
  const ModelInfo info = read_model_info(file);

  Recipe wider = recipe;
  wider.network.layers[1].extent[0] += 1;
  Workshop other(wider, *one);
  EXPECT_EQ(
      message_of([&] { load_weights(&file, info, other.network()); }),
      fmt::format("{}: variable \"weight0_weights\" has 25641 elements, but the network needs "
                  "25974; it is a model of another network",
                  path.string()));

  Recipe renamed = recipe;
  renamed.network.layers[1].name = "Else";
  renamed.network.layers[2].sources = {"Else"};
  Workshop stranger(renamed, *one);
  EXPECT_EQ(message_of([&] { load_weights(&file, info, stranger.network()); }),
            fmt::format("{}: has no weights from layer \"In\" to layer \"Else\"; it is a model of "
                        "another network",
                        path.string()));
}

TEST(ModelFileErrors, TellWeightsThatAreNotFinite) {
  const TempDir folder;
  const Recipe recipe = all_recipes().front();
  const auto one = make_single_process();
  Workshop trained(recipe, *one);
  const fs::path path = folder / "model.nc";
  {
    TensorFileWriter file(path);
    file.attribute("weights", std::int32_t(3));
    file.attribute("weight0_inputLayer", std::string("In"));
    file.attribute("weight0_outputLayer", std::string("First"));
    file.attribute("weight1_inputLayer", std::string("First"));
    file.attribute("weight1_outputLayer", std::string("Second"));
    file.attribute("weight2_inputLayer", std::string("Second"));
    file.attribute("weight2_outputLayer", std::string("Out"));
    file.define_float("weight0_weights", "weights0", 333 * 77);
    std::vector<float> weights(333 * 77, 0.5f);
    weights[1000] = std::numeric_limits<float>::quiet_NaN();
    file.write("weight0_weights", 0, std::span<const float>(weights));
    file.commit();
  }
  const TensorFileReader broken(path);
  ModelInfo info;
  info.network = recipe.network;
  EXPECT_EQ(message_of([&] { load_weights(&broken, info, trained.network()); }),
            fmt::format("{}: variable \"weight0_weights\" holds nan at element 1000; the model has "
                        "diverged or is damaged",
                        path.string()));
}

TEST(ModelFileErrors, TellFilesThatAreNoModels) {
  const TempDir folder;
  write_data(all_recipes().front(), folder / "data.nc");
  const TensorFileReader data(folder / "data.nc");
  EXPECT_THAT(message_of([&] { read_model_info(data); }),
              AllOf(HasSubstr("data.nc"), HasSubstr("no model file")));
  {
    TensorFileWriter writer(folder / "future.nc");
    writer.attribute("layers", 1u);
    writer.attribute("errorFunction", 2u);
    writer.attribute("norn_format", std::int32_t(999));
    writer.commit();
  }
  const TensorFileReader future(folder / "future.nc");
  EXPECT_THAT(message_of([&] { read_model_info(future); }),
              AllOf(HasSubstr("future.nc"), HasSubstr("999")));
}

}  // namespace
}  // namespace norn::test
