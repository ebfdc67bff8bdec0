// SPDX-License-Identifier: Apache-2.0
// Weights of features come from the training data alone, stay with the model, and are the same
// wherever the data are.
#include "src/engine/data/feature_weights.h"

#include "norn/base/error.h"
#include "src/data/feature_counts.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
constexpr auto kBoth = DataBinding::Layers::inputs_and_outputs;

Recipe weighted_recipe(const InputWeighting& weighting) {
  Recipe recipe = deep_recipe("weighted", Adam{}, 0.01f, SoftMax{});
  recipe.network.layers[0].extent[0] = 133;
  recipe.network.layers[0].normalize = InputNormalization::l2;
  recipe.network.layers[0].input_weighting = weighting;
  recipe.network.layers[3].extent[0] = 133;
  recipe.network.training.epochs = 2;
  return recipe;
}

class FeatureWeights : public testing::Test {
 protected:
  void use(const Recipe& recipe) {
    recipe_ = recipe;
    write_data(recipe_, folder_ / "data.nc");
  }
  DataBinding open(std::int64_t memory_bytes = std::int64_t(8) << 30) const {
    return {recipe_.network, {{folder_ / "data.nc"}, {folder_ / "data.nc"}, memory_bytes}, kBoth};
  }
  std::unique_ptr<Network> network_for(const DataBinding& data, const Context& context,
                                       Pass purpose = Pass::training) const {
    return std::make_unique<Network>(make_graph(recipe_.network, data.shapes(), "test"),
                                     data.shapes(), context, recipe_.network.training.batch,
                                     purpose);
  }
  // Weights and parameters after training.
  std::pair<std::vector<float>, std::vector<float>> train_on(DataBinding given, bool moved) const {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(2);
    DataBinding data = std::move(given);  // may come to stand in the runtime's memory
    const auto one = make_single_process();
    const Context context = runtime->context(*one);
    const auto network = network_for(data, context);
    network->initialise(1);
    if (moved) data.move_to(context.compute.memory, recipe_.network);
    weigh_features(*network, data);
    TrainingState state;
    EXPECT_EQ(train(*network, data, {}, false, {}, state), TrainingEnd::completed);
    return {network->feature_weights(0), gather_state(*network)};
  }
  std::vector<float> expected_of(const DataBinding& data) const {
    std::vector<float> weights;
    for (const std::int64_t count : count_features(data.set_of(0), data.set_of(0).info().width()))
      weights.push_back(
          float(feature_weight(recipe_.network.layers[0].input_weighting, count, data.examples())));
    return weights;
  }

  const TempDir folder_;
  Recipe recipe_;
};

TEST_F(FeatureWeights, AreTheSameWhereverTheDataAre) {
  for (const InputWeighting& weighting :
       {InputWeighting(InverseDocumentFrequency{}), InputWeighting(InversePopularity{0.3f})}) {
    use(weighted_recipe(weighting));
    const auto held = train_on(open(), false);
    EXPECT_EQ(held.first, expected_of(open()));
    EXPECT_EQ(train_on(open(0), false), held);
    EXPECT_EQ(train_on(open(), true), held);
  }
}

TEST_F(FeatureWeights, KnowNothingOfWhatIsHeldBack) {
  use(weighted_recipe(InversePopularity{}));
  const std::vector<float> of_all = expected_of(open());
  for (const HoldOutBy by : {HoldOutBy::user, HoldOutBy::entry}) {
    DataBinding data = open();
    const ValidationData held_out = data.hold_out(recipe_.network, {0.25, by, 3}, 3);
    const std::vector<float> expected = expected_of(data);
    EXPECT_NE(expected, of_all);
    EXPECT_EQ(train_on(std::move(data), false).first, expected);
  }
}

TEST_F(FeatureWeights, StayWithTheModelWhateverItIsUsedOn) {
  use(weighted_recipe(InverseDocumentFrequency{}));
  const fs::path path = folder_ / "model.nc";
  const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
  const auto one = make_single_process();
  const Context context = runtime->context(*one);
  const DataBinding data = open();
  const auto trained = network_for(data, context);
  trained->initialise(1);
  weigh_features(*trained, data);
  for (const bool with_state : {false, true}) {
    save_model(path, *trained, with_state ? std::optional(TrainingState{}) : std::nullopt);
    const TensorFileReader file(path);
    file.verify();
    ASSERT_EQ(file.size("layer0_featureWeights"), 133);
    std::vector<float> stored(133);
    file.read("layer0_featureWeights", 0, stored);
    EXPECT_EQ(stored, expected_of(data));
    const ModelInfo info = read_model_info(file);
    EXPECT_TRUE(
        std::holds_alternative<InverseDocumentFrequency>(info.network.layers[0].input_weighting));
    run_thread_group(3, [&](Communicator& communicator) {
      const std::unique_ptr<Runtime> own = make_test_runtime(1);
      const auto copy = network_for(data, own->context(communicator), Pass::prediction);
      load_weights(communicator.rank() == 0 ? &file : nullptr, info, *copy);
      EXPECT_EQ(copy->feature_weights(0), stored);
    });
  }
}

TEST_F(FeatureWeights, OfUnitsBeyondTheDataAreThoseOfFeaturesThatNobodyHas) {
  use(weighted_recipe(InversePopularity{}));
  recipe_.network.layers[0].extent[0] = 140;
  const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
  const auto one = make_single_process();
  const DataBinding data = open();
  const auto network = network_for(data, runtime->context(*one));
  weigh_features(*network, data);
  const std::vector<float> weights = network->feature_weights(0);
  ASSERT_EQ(weights.size(), 140u);
  for (std::size_t unit = 133; unit < 140; ++unit)
    EXPECT_EQ(weights[unit], float(std::sqrt(double(recipe_.examples))));
}

TEST_F(FeatureWeights, AreNeededBeforeTheFirstBatch) {
  use(weighted_recipe(InversePopularity{}));
  const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
  const auto one = make_single_process();
  const DataBinding data = open();
  const auto network = network_for(data, runtime->context(*one));
  network->initialise(1);
  RecipeData batches(recipe_);
  EXPECT_THAT(message_of<Error>([&] { network->train_step(batches.batch(0), {}); }),
              HasSubstr("weights of features were not set; call weigh_features, or load a model"));
  EXPECT_THROW(network->set_feature_weights(0, std::vector<float>(132, 1.0f)), Error);
  EXPECT_THROW(network->set_feature_weights(1, std::vector<float>(77, 1.0f)), Error);
}

TEST_F(FeatureWeights, AModelThatLostThemIsRefused) {
  use(weighted_recipe(NoWeighting{}));
  const fs::path path = folder_ / "model.nc";
  const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
  const auto one = make_single_process();
  const Context context = runtime->context(*one);
  const DataBinding data = open();
  const auto plain = network_for(data, context);
  plain->initialise(1);
  save_model(path, *plain, std::nullopt);
  EXPECT_FALSE(TensorFileReader(path).has_variable("layer0_featureWeights"));
  recipe_.network.layers[0].input_weighting = InversePopularity{};
  const auto weighted = network_for(data, context);
  const TensorFileReader file(path);
  EXPECT_EQ(message_of([&] { load_weights(&file, read_model_info(file), *weighted); }),
            fmt::format("{}: variable \"layer0_featureWeights\" is missing; the file is damaged or "
                        "of another network",
                        path.string()));
}

}  // namespace
}  // namespace norn::test
