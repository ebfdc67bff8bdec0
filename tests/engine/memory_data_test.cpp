// SPDX-License-Identifier: Apache-2.0
// Data sets in memory are bound, held back and trained on as those of files are.
#include "norn/base/error.h"
#include "src/engine/data/data_names.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"

#include <numeric>

#include <gmock/gmock.h>

namespace norn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
constexpr auto kBoth = DataBinding::Layers::inputs_and_outputs;

// The sets of a file, whole, as sets in memory.
std::vector<MemorySet> in_memory(const std::filesystem::path& file) {
  std::vector<MemorySet> sets;
  for (const DatasetInfo& info : list_datasets(file)) {
    const auto open = open_dataset(info, Residency::memory, Role::target);
    const auto all = std::make_shared<HostBatch>();
    std::vector<Index> examples;
    for (Index e = 0; e < info.examples; ++e) examples.push_back(e);
    open->gather(examples, *all);
    MemorySet set{
        .name = info.name, .width = info.width(), .ignore_absent = info.sparse_ignore_zero};
    if (info.sparse) {
      const CsrView rows = all->csr();
      set.row_begin = {rows.row_begin, std::size_t(rows.rows) + 1};
      set.columns = {rows.column, std::size_t(rows.entries())};
      if (rows.value) set.values = {rows.value, std::size_t(rows.entries())};
    } else {
      set.dense = {all->matrix().data, std::size_t(all->matrix().size())};
    }
    set.weights = all->weight;
    set.owner = all;
    sets.push_back(std::move(set));
  }
  return sets;
}

int last_output(const NetworkDescriptor& network) {
  int layer = int(network.layers.size()) - 1;
  while (network.layers[std::size_t(layer)].kind != LayerKind::output) --layer;
  return layer;
}

std::vector<float> train_on(const Recipe& recipe, const DataSources& sources, HoldOutRule rule) {
  CpuRuntime runtime(2);
  const auto one = make_single_process();
  DataBinding data(recipe.network, sources, kBoth);
  ValidationData held;
  if (rule.share > 0.0) held = data.hold_out(recipe.network, rule, last_output(recipe.network));
  Network network(make_graph(recipe.network, data.shapes(), "test"), data.shapes(),
                  runtime.context(*one), recipe.network.training.batch, Pass::training);
  network.initialise(1);
  TrainingState state;
  EXPECT_EQ(train(network, data, {}, false, {}, state), TrainingEnd::completed);
  return gather_state(network);
}

TEST(MemoryData, TrainsToTheBitsThatFilesOfItTrainTo) {
  for (Recipe recipe : all_recipes()) {
    SCOPED_TRACE(recipe.name);
    const TempDir folder;
    recipe.network.training.epochs = 1;
    write_data(recipe, folder / "data.nc");
    const DataSources files{{folder / "data.nc"}, {folder / "data.nc"}};
    DataSources memory;
    memory.sets = in_memory(folder / "data.nc");
    EXPECT_EQ(train_on(recipe, memory, {.share = 0.0}), train_on(recipe, files, {.share = 0.0}));
    const HoldOutRule users{0.2, HoldOutBy::user, 11};
    EXPECT_EQ(train_on(recipe, memory, users), train_on(recipe, files, users));
  }
}

TEST(MemoryData, TakesNoneOfTheMemoryForFiles) {
  const TempDir folder;
  Recipe recipe = all_recipes()[5];
  write_data(recipe, folder / "data.nc");
  DataSources memory;
  memory.sets = in_memory(folder / "data.nc");
  memory.memory_bytes = 0;
  const DataBinding data(recipe.network, memory, kBoth);
  EXPECT_EQ(data.held_bytes(), 0);
  EXPECT_EQ(data.examples(), recipe.examples);
}

TEST(MemoryData, WinsOverFilesAndGoesWithThem) {
  const TempDir folder;
  Recipe recipe = all_recipes()[5];
  write_data(recipe, folder / "data.nc");
  DataSources both{{folder / "data.nc"}, {folder / "data.nc"}};
  both.sets = {in_memory(folder / "data.nc").at(1)};
  const DataBinding data(recipe.network, both, kBoth);
  EXPECT_FALSE(data.sets()[0]->info().file.empty());
  EXPECT_TRUE(data.sets()[1]->info().file.empty());
}

TEST(MemoryData, IsFoundByItsRoleAndMeasuredForRecipes) {
  const std::vector<RowOffset> begin = {0, 2, 3};
  const std::vector<Column> columns = {0, 6, 3};
  DataSources sources;
  sources.sets = {{.name = "films_input", .width = 7, .row_begin = begin, .columns = columns},
                  {.name = "films_output", .width = 7, .row_begin = begin, .columns = columns}};
  const RecipeFacts facts = recipe_facts(kAutoDataset, sources);
  EXPECT_EQ(facts.examples, 2);
  EXPECT_EQ(facts.width, 7);
  EXPECT_EQ(facts.entries, 3);
  NetworkDescriptor network = make_recipe(RecipeKind::sigmoid, facts);
  name_data_sets(network, sources);
  EXPECT_EQ(network.layers.front().dataset, "films_input");
  EXPECT_EQ(network.layers.back().dataset, "films_output");
}

TEST(MemoryData, CountsEveryEntryForRecipes) {
  for (Index examples = 1; examples <= 120; ++examples)
    for (Index entries = 1; entries <= 40; ++entries) {
      std::vector<RowOffset> begin(std::size_t(examples) + 1, entries);
      begin.front() = 0;
      std::vector<Column> columns(std::size_t(entries), 0);
      std::iota(columns.begin(), columns.end(), Column(0));
      DataSources sources;
      sources.sets = {
          {.name = "a_output", .width = entries, .row_begin = begin, .columns = columns}};
      ASSERT_EQ(recipe_facts("a_output", sources).entries, entries) << "of " << examples;
    }
}

TEST(MemoryData, SaysWhichSetDoesNotFit) {
  const TempDir folder;
  Recipe recipe = all_recipes()[5];
  write_data(recipe, folder / "data.nc");
  const std::vector<MemorySet> sets = in_memory(folder / "data.nc");
  recipe.examples -= 1;
  write_data(recipe, folder / "short.nc");
  DataSources memory;
  memory.sets = sets;
  memory.sets.back() = in_memory(folder / "short.nc").back();
  EXPECT_EQ(message_of([&] { DataBinding(recipe.network, memory, kBoth); }),
            "data set \"Far\" has 158 examples, but \"In\" has 159; import both together so that "
            "they are aligned by example");
}

}  // namespace
}  // namespace norn::test
