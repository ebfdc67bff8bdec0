// SPDX-License-Identifier: Apache-2.0
// The plan of a run on a GPU against the bytes that steps really take there.
#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/data/dataset_writer.h"
#include "src/engine/data/data_binding.h"
#include "src/engine/plan/memory_plan.h"
#include "src/engine/plan/step_probe.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/training_recipe.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn::test {
namespace {

// Large enough for what is not counted to show, small enough for seconds.
Recipe wide_recipe(const UpdateRule& optimizer, const LayerActivation& output) {
  Recipe recipe;
  recipe.name = name_of(optimizer);
  recipe.network.layers = {input_layer("In", 90'000),
                           hidden_layer("First", 512, {"In"}, Activation(Relu{})),
                           hidden_layer("Second", 256, {"First"}, Activation(Relu{})),
                           output_layer("Out", 300'000, {"Second"}, output)};
  recipe.network.layers[1].dropout = 0.3f;
  recipe.network.training.optimizer = optimizer;
  recipe.network.training.batch = 512;
  recipe.network.training.epochs = 1;
  return recipe;
}

// About 40 entries an example.
void write_wide_data(const Recipe& recipe, const std::filesystem::path& path) {
  constexpr Index kExamples = 2048;
  std::vector<DatasetInfo> infos;
  for (const LayerDescriptor& layer : recipe.network.layers) {
    if (layer.dataset.empty()) continue;
    DatasetInfo info;
    info.name = layer.dataset;
    info.extent[0] = layer.units();
    info.sparse = info.boolean = true;
    info.examples = info.unique_examples = kExamples;
    info.entries = 40 * kExamples;
    infos.push_back(info);
  }
  DatasetWriter writer(path, infos);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const Philox random = Philox::stream(i, RandomPurpose::test);
    const std::vector<Index> sizes(kExamples, 40);
    std::vector<Column> columns;
    const Index step = infos[i].width() / 40;
    for (Index e = 0; e < kExamples; ++e)
      for (Index c = 0; c < 40; ++c)
        columns.push_back(Column(c * step + Index(random.word(std::uint64_t(e), std::uint64_t(c)) %
                                                  std::uint32_t(step))));
    writer.append_rows(int(i), sizes, columns, {});
  }
  writer.commit();
}

PlanSettings settings_of(const Recipe& recipe, const DataBinding& data, const Context& context) {
  PlanSettings settings;
  settings.batch = recipe.network.training.batch;
  settings.device = traits_of(context.compute);
  settings.device.is_host = false;
  for (const Dataset* set : data.sets()) settings.sets.push_back(set->info());
  settings.data_memory_bytes = std::int64_t(1) << 32;
  return settings;
}

class DataOnGpuTest : public testing::Test {
 protected:
  const std::unique_ptr<Runtime> runtime_ = make_test_runtime(1);
  const std::unique_ptr<Communicator> one_ = make_single_process();
  const Context context_ = runtime_->context(*one_);
  const TempDir folder_;
};

class DevicePlanTest : public DataOnGpuTest {
 protected:
  void SetUp() override {
    if (context_.compute.memory.is_host())
      GTEST_SKIP()
          << "plans of a GPU's memory need one; those of main memory are in memory_plan_test.cpp";
  }
};

void expect_planned_bytes(const Recipe& recipe, const std::filesystem::path& file, bool on_gpu,
                          bool is_validated = false) {
  const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
  const auto one = make_single_process();
  const Context context = runtime->context(*one);
  DataBinding data(recipe.network, {{file}, {file}}, DataBinding::Layers::inputs_and_outputs);
  Graph graph = make_graph(recipe.network, data.shapes(), "test");
  PlanSettings settings = settings_of(recipe, data, context);
  settings.data_on_gpu = on_gpu;
  // Validated with what it is trained on, from the file: long lists are ranked.
  ValidationData held;
  held.data = std::make_unique<DataBinding>(recipe.network, DataSources{{file}, {file}},
                                            DataBinding::Layers::inputs_and_outputs);
  Validation validation;
  if (is_validated) validation = {&held, graph.layer("Out")};
  settings.validation = plan_validation(graph.network, validation);
  const MemoryPlan plan = plan_memory(graph, settings);
  if (on_gpu) data.move_to(context.compute.memory, recipe.network);
  Network network(std::move(graph), data.shapes(), context, settings.batch, Pass::training);
  network.initialise(1);
  TrainingState state;
  train(network, data, {}, false, {}, state, {}, validation);
  std::int64_t taken = context.compute.memory.peak_bytes();
  if (const Memory* ahead = context.compute.kernels.prefetch_memory) taken += ahead->peak_bytes();
  EXPECT_NEAR(double(plan.total_bytes()) / double(taken), 1.0, 0.02)
      << plan.total_bytes() << " bytes are planned, " << taken
      << " were taken; data on the GPU: " << on_gpu << ", validated: " << is_validated;
}

TEST_F(DevicePlanTest, IsWhatTrainingTakes) {
  for (const UpdateRule& optimizer : {UpdateRule(Sgd{}), UpdateRule(Adam{})})
    for (const LayerActivation& output :
         {LayerActivation(Activation(Sigmoid{})), LayerActivation(SoftMax{})}) {
      const Recipe recipe = wide_recipe(optimizer, output);
      SCOPED_TRACE(recipe.name + (std::holds_alternative<SoftMax>(output) ? " SoftMax" : ""));
      write_wide_data(recipe, folder_ / "data.nc");
      for (bool on_gpu : {false, true}) expect_planned_bytes(recipe, folder_ / "data.nc", on_gpu);
    }
}

TEST_F(DevicePlanTest, IsWhatValidationsTake) {
  Recipe recipe = wide_recipe(Sgd{}, Activation(Sigmoid{}));
  write_wide_data(recipe, folder_ / "data.nc");
  // Lists that a search inside the product finds, and longer ones.
  for (const char* lengths : {"800", "6000"})
    for (bool on_gpu : {false, true}) {
      SCOPED_TRACE(lengths);
      recipe.network.training.validation.metrics_at = lengths;
      expect_planned_bytes(recipe, folder_ / "data.nc", on_gpu, true);
    }
}

// Windows that are written out are a part of it.
TEST_F(DevicePlanTest, IsWhatConvolutionsTake) {
  Recipe recipe = recipe_base("convolution", Adam{}, 0.003f);
  recipe.inputs = {.name = "dense", .sparse = false};
  recipe.network.training.batch = 256;
  recipe.network.training.epochs = 1;
  recipe.examples = 512;
  LayerDescriptor image = input_layer("In", 1);
  image.extent = {64, 64, 3, 1};
  image.dimensions = 3;
  recipe.network.layers = {
      image, convolution("First", 32, 3, 1, {"In"}), convolution("Second", 32, 3, 1, {"First"}),
      hidden_layer("Full", 64, {"Second"}), output_layer("Out", 1000, {"Full"}, SoftMax{})};
  recipe.network.layers[1].batch_normalization = true;
  write_data(recipe, folder_ / "data.nc");
  for (bool on_gpu : {false, true}) expect_planned_bytes(recipe, folder_ / "data.nc", on_gpu);
}

TEST_F(DevicePlanTest, RefusesWhatDoesNotFitWithTheNumbers) {
  Recipe recipe = wide_recipe(Adam{}, Activation(Sigmoid{}));
  write_wide_data(recipe, folder_ / "data.nc");
  const DataBinding data(recipe.network, {{folder_ / "data.nc"}, {folder_ / "data.nc"}},
                         DataBinding::Layers::inputs_and_outputs);
  recipe.network.layers[0].extent[0] = recipe.network.layers[3].extent[0] = 100'000'000;
  recipe.network.layers[1].extent[0] = 4096;
  const PlanSettings settings = settings_of(recipe, data, context_);
  const MemoryPlan plan = plan_memory(make_graph(recipe.network, data.shapes(), "test"), settings);
  try {
    require_memory(plan, settings, runtime_->available_bytes());
    FAIL() << "terabytes were accepted";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.exit_code(), 4);
    EXPECT_THAT(error.what(), testing::HasSubstr("TiB"));
    EXPECT_THAT(error.what(), testing::HasSubstr("available"));
  }
}

TEST_F(DataOnGpuTest, DoesNotHoldWhatIsAugmented) {
  Recipe recipe = recipe_base("images", Sgd{}, 0.1f);
  recipe.inputs = {.name = "dense", .sparse = false};
  recipe.network.layers = {input_layer("In", 63), hidden_layer("Hidden", 17, {"In"}),
                           output_layer("Out", 31, {"Hidden"}, SoftMax{})};
  write_data(recipe, folder_ / "data.nc");
  const DataBinding data(recipe.network, {{folder_ / "data.nc"}, {folder_ / "data.nc"}},
                         DataBinding::Layers::inputs_and_outputs);
  PlanSettings settings = settings_of(recipe, data, context_);
  settings.data_on_gpu = true;
  const auto plan = [&] {
    return plan_memory(make_graph(recipe.network, data.shapes(), "test"), settings);
  };
  const MemoryPlan all = plan();
  EXPECT_TRUE(all.outside.empty());
  recipe.network.layers[0].augment.flip = true;
  const MemoryPlan without = plan();
  EXPECT_EQ(without.outside, std::vector{recipe.network.layers[0].dataset});
  EXPECT_EQ(all.data_bytes - without.data_bytes, recipe.examples * 63 * Index(sizeof(float)));
  EXPECT_EQ(all.batch_bytes, without.batch_bytes);
  settings.data_on_gpu = false;
  EXPECT_TRUE(plan().outside.empty());
}

TEST_F(DataOnGpuTest, IsChosenWhereTheDataFit) {
  const Recipe recipe = wide_recipe(Sgd{}, Activation(Sigmoid{}));
  write_wide_data(recipe, folder_ / "data.nc");
  const DataBinding data(recipe.network, {{folder_ / "data.nc"}, {folder_ / "data.nc"}},
                         DataBinding::Layers::inputs_and_outputs);
  const Graph graph = make_graph(recipe.network, data.shapes(), "test");
  PlanSettings settings = settings_of(recipe, data, context_);
  const std::int64_t all = std::int64_t(64) << 30;
  EXPECT_TRUE(choose_data_on_gpu(graph, settings, DataOnGpu::automatic, all));
  EXPECT_FALSE(choose_data_on_gpu(graph, settings, DataOnGpu::no, all));
  EXPECT_TRUE(choose_data_on_gpu(graph, settings, DataOnGpu::yes, all));
  settings.data_on_gpu = true;
  const MemoryPlan plan = plan_memory(graph, settings);
  settings.data_on_gpu = false;
  const std::int64_t few = plan_memory(graph, settings).total_bytes() + 1000;
  EXPECT_FALSE(choose_data_on_gpu(graph, settings, DataOnGpu::automatic, few));
  EXPECT_EQ(
      message_of<DeviceError>([&] { choose_data_on_gpu(graph, settings, DataOnGpu::yes, few); }),
      fmt::format(
          "`data_on_gpu` yes: the data sets take {} of the GPU's memory and the rest of the "
          "run {}, with 1.0 GiB to spare, but {} are available; give `data_on_gpu` no, or a "
          "smaller `batch`",
          human_bytes(double(plan.data_bytes)),
          human_bytes(double(plan.total_bytes() - plan.data_bytes)), human_bytes(double(few))));
  settings.data_memory_bytes = 10;  // streamed
  EXPECT_FALSE(choose_data_on_gpu(graph, settings, DataOnGpu::automatic, all));
  EXPECT_EQ(
      message_of<UsageError>([&] { choose_data_on_gpu(graph, settings, DataOnGpu::yes, all); }),
      "`data_on_gpu` yes: the data are streamed from their files; give a larger "
      "`data_memory`, or leave it out");
  settings.device.is_host = true;
  EXPECT_FALSE(choose_data_on_gpu(graph, settings, DataOnGpu::automatic, all));
  EXPECT_THROW(choose_data_on_gpu(graph, settings, DataOnGpu::yes, all), UsageError);
}

TEST_F(DevicePlanTest, PredictsTheTimeOfAStep) {
  const Recipe recipe = wide_recipe(Sgd{}, Activation(Sigmoid{}));
  write_wide_data(recipe, folder_ / "data.nc");
  const DataBinding data(recipe.network, {{folder_ / "data.nc"}, {folder_ / "data.nc"}},
                         DataBinding::Layers::inputs_and_outputs);
  const StepTime time = measure_step(make_graph(recipe.network, data.shapes(), "test"),
                                     settings_of(recipe, data, context_), context_);
  EXPECT_GT(time.floor_seconds, 1e-6);
  EXPECT_GT(time.seconds, time.floor_seconds);
  EXPECT_TRUE(std::isfinite(time.seconds));
}

TEST_F(DevicePlanTest, PredictsTheTimeOfAStepOfConvolutions) {
  const Recipe recipe = images_and_clicks_recipe();
  write_data(recipe, folder_ / "data.nc");
  const DataBinding data(recipe.network, {{folder_ / "data.nc"}, {folder_ / "data.nc"}},
                         DataBinding::Layers::inputs_and_outputs);
  const StepTime time = measure_step(make_graph(recipe.network, data.shapes(), "test"),
                                     settings_of(recipe, data, context_), context_);
  EXPECT_GT(time.seconds, 0.0);
  EXPECT_TRUE(std::isfinite(time.seconds));
}

}  // namespace
}  // namespace norn::test
