// SPDX-License-Identifier: Apache-2.0
// Data sets find their layers, streamed or held, and what does not fit is refused.
#include "norn/engine/data_binding.h"

#include "norn/base/error.h"
#include "norn/engine/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"

#include <gmock/gmock.h>

namespace norn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
constexpr auto kBoth = DataBinding::Layers::inputs_and_outputs;

Recipe two_outputs() {
  Recipe recipe = all_recipes()[5];
  recipe.network.training.epochs = 2;
  return recipe;
}

std::vector<float> train_on(const Recipe& recipe, const DataSources& sources) {
  CpuRuntime runtime(2);
  const auto one = make_single_process();
  const DataBinding data(recipe.network, sources, kBoth);
  Network network(make_graph(recipe.network, data.shapes(), "test"), data.shapes(),
                  runtime.context(*one), recipe.network.training.batch, Pass::training);
  network.initialise(1);
  TrainingState state;
  EXPECT_EQ(train(network, data, {}, false, {}, state), TrainingEnd::completed);
  EXPECT_EQ(state.epoch, 2);
  return gather_state(network);
}

TEST(DataBinding, GivesTheSameTrainingStreamedAsHeld) {
  const TempDir folder;
  const Recipe recipe = two_outputs();
  write_data(recipe, folder / "data.nc");
  DataSources sources{{folder / "data.nc"}, {folder / "data.nc"}};
  const std::vector<float> held = train_on(recipe, sources);
  sources.memory_bytes = 0;
  EXPECT_EQ(train_on(recipe, sources), held);
}

TEST(DataBinding, NeedsNoTargetsForInputsAlone) {
  const TempDir folder;
  const Recipe recipe = two_outputs();
  write_data(recipe, folder / "data.nc");
  const DataBinding data(recipe.network, {{folder / "data.nc"}, {}},
                         DataBinding::Layers::inputs_only);
  EXPECT_EQ(data.examples(), recipe.examples);
  EXPECT_EQ(data.sets().size(), 1u);
  EXPECT_EQ(data.shapes().front().name, "In");
}

TEST(DataBinding, PrefersTheFileOfTheLayersOwnSide) {
  const TempDir folder;
  Recipe recipe = two_outputs();
  write_data(recipe, folder / "a.nc");
  recipe.network.layers[0].extent[0] = 400;
  write_data(recipe, folder / "b.nc");
  const DataBinding data(recipe.network, {{folder / "b.nc"}, {folder / "a.nc"}}, kBoth);
  EXPECT_EQ(data.shapes()[0].extent[0], 400);
  EXPECT_EQ(data.sets()[0]->info().file, folder / "b.nc");
  EXPECT_EQ(data.sets()[1]->info().file, folder / "a.nc");
}

TEST(DataBinding, NamesTheSetsThatThereAre) {
  const TempDir folder;
  Recipe recipe = two_outputs();
  write_data(recipe, folder / "data.nc");
  const DataSources sources{{folder / "data.nc"}, {folder / "data.nc"}};
  recipe.network.layers[2].dataset = "Naer";
  EXPECT_THAT(
      message_of([&] { DataBinding(recipe.network, sources, kBoth); }),
      AllOf(HasSubstr("\"Near\""), HasSubstr("\"Naer\""), HasSubstr("In"), HasSubstr("Far")));
  recipe.network.layers[2].dataset = "";
  EXPECT_THAT(message_of<UsageError>([&] { DataBinding(recipe.network, sources, kBoth); }),
              AllOf(HasSubstr("\"Near\""), HasSubstr("DataSet")));
}

TEST(DataBinding, RefusesSetsOfDifferentExamples) {
  const TempDir folder;
  Recipe recipe = two_outputs();
  write_data(recipe, folder / "in.nc");
  recipe.examples -= 1;
  write_data(recipe, folder / "out.nc");
  EXPECT_THAT(message_of([&] {
                DataBinding(recipe.network, {{folder / "in.nc"}, {folder / "out.nc"}}, kBoth);
              }),
              AllOf(HasSubstr("158"), HasSubstr("159"), HasSubstr("out.nc"), HasSubstr("in.nc")));
}

TEST(Training, RefusesABatchLargerThanTheData) {
  const TempDir folder;
  Recipe recipe = two_outputs();
  recipe.network.training.batch = recipe.examples + 1;
  write_data(recipe, folder / "data.nc");
  EXPECT_EQ(message_of<UsageError>([&] {
              train_on(recipe, {{folder / "data.nc"}, {folder / "data.nc"}});
            }),
            "batch 160 is larger than the 159 examples of the data; use a batch of 159 or less");
}

}  // namespace
}  // namespace norn::test
