// SPDX-License-Identifier: Apache-2.0
// Data sets find their layers, streamed or held, and what does not fit is refused.
#include "src/engine/data/data_binding.h"

#include "norn/base/error.h"
#include "src/data/dataset_writer.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>
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

// A file of one set, one unit an example, that keeps these labels of examples.
void write_labelled(const std::filesystem::path& path, const std::string& name,
                    const std::vector<std::string>& names) {
  DatasetInfo info;
  info.name = name;
  info.sparse = info.boolean = true;
  info.extent[0] = 5;
  info.examples = info.unique_examples = info.entries = Index(names.size());
  for (const std::string& label : names) info.label_bytes += Index(label.size());
  DatasetWriter writer(path, {info});
  const std::vector<Index> sizes(names.size(), 1);
  std::vector<Column> columns;
  for (std::size_t i = 0; i < names.size(); ++i) columns.push_back(Column(i % 5));
  writer.append_rows(0, sizes, columns);
  const std::vector<std::string_view> labels(names.begin(), names.end());
  if (info.label_bytes > 0) writer.append_labels(0, labels);
  writer.commit();
}

TEST(DataBinding, RefusesFilesWhoseExamplesHaveOtherLabels) {
  const unsigned seed = fresh_seed();
  std::mt19937 random(seed);
  const TempDir folder;
  NetworkDescriptor network = two_outputs().network;
  network.layers.resize(2);
  network.layers[0].dataset = "a";
  network.layers[1].dataset = "b";
  network.layers[1].kind = LayerKind::output;
  const DataSources sources{{folder / "a.nc"}, {folder / "b.nc"}};
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back(fmt::format("example{}", i * i));
  std::shuffle(names.begin(), names.end(), random);
  write_labelled(folder / "a.nc", "a", names);
  for (const std::int64_t memory : {std::int64_t(1) << 30, std::int64_t(0)}) {
    DataSources limited = sources;
    limited.memory_bytes = memory;
    write_labelled(folder / "b.nc", "b", names);
    EXPECT_EQ(DataBinding(network, limited, kBoth).examples(), 40) << "labels that agree";
    write_labelled(folder / "b.nc", "b", std::vector<std::string>(40));
    EXPECT_EQ(DataBinding(network, limited, kBoth).examples(), 40) << "labels on one side alone";
    std::vector<std::string> others = names;
    const std::size_t at = random() % 39;
    std::swap(others[at], others[at + 1]);
    write_labelled(folder / "b.nc", "b", others);
    EXPECT_THAT(
        message_of([&] { DataBinding(network, limited, kBoth); }),
        AllOf(HasSubstr(fmt::format("b.nc: data set \"b\": example {} is \"{}\", but in \"a\"", at,
                                    others[at])),
              HasSubstr(fmt::format("a.nc it is \"{}\": examples pair by position, so the two are "
                                    "not aligned; import both together",
                                    names[at]))))
        << "seed " << seed;
  }
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

TEST(Training, TakesABatchLargerThanTheDataForOneOfAll) {
  const TempDir folder;
  Recipe recipe = two_outputs();
  recipe.network.training.batch = recipe.examples;
  write_data(recipe, folder / "data.nc");
  const DataSources sources{{folder / "data.nc"}, {folder / "data.nc"}};
  const std::vector<float> whole = train_on(recipe, sources);
  recipe.network.training.batch = recipe.examples + 1;
  const std::vector<float> short_one = train_on(recipe, sources);
  ASSERT_EQ(short_one.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_NEAR(short_one[i], whole[i], 1e-3f * (1.0f + std::abs(whole[i])));
}

}  // namespace
}  // namespace norn::test
