// SPDX-License-Identifier: Apache-2.0
// The plan of a run against what a network really allocates.
#include "src/engine/plan/memory_plan.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/engine/plan/step_plan.h"
#include "src/engine/predict/predictor.h"
#include "src/engine/train/step_verifier.h"
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/engine/planned_collectives.h"
#include "tests/support/recipes.h"
#include "tests/support/thread_group.h"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace norn::test {
namespace {

// Host memory that counts.
class CountingMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    count(std::int64_t(bytes));
    return host_memory().allocate(bytes);
  }
  void release(void* data, std::size_t bytes) noexcept override {
    count(-std::int64_t(bytes));
    host_memory().release(data, bytes);
  }
  void fill_zero(void* data, std::size_t bytes) override { host_memory().fill_zero(data, bytes); }
  std::int64_t bytes() const { return bytes_; }

 private:
  void count(std::int64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
  }
  std::mutex mutex_;
  std::int64_t bytes_ = 0;
};

std::vector<DatasetInfo> infos(const Recipe& recipe) {
  std::vector<DatasetInfo> sets;
  for (const DatasetShape& shape : recipe.shapes()) {
    DatasetInfo info;
    info.name = shape.name;
    info.extent = shape.extent;
    info.sparse = shape.gives_sparse_batches;
    info.examples = info.unique_examples = recipe.examples;
    info.entries = info.sparse ? 4 * recipe.examples : 0;
    sets.push_back(info);
  }
  return sets;
}

PlanSettings settings_of(const Recipe& recipe, int ranks, int lanes, Pass purpose) {
  PlanSettings settings;
  settings.batch = recipe.network.training.batch;
  settings.ranks = ranks;
  settings.lanes = lanes;
  settings.purpose = purpose;
  settings.device.block_rule = recipe.blocks;
  settings.by_example = recipe.layers_by_example();
  settings.sets = infos(recipe);
  settings.data_memory_bytes = 1 << 30;
  return settings;
}

std::int64_t allocated_by_rank_0(const Recipe& recipe, const PlanSettings& settings) {
  std::int64_t bytes = 0;
  run_thread_group(settings.ranks, [&](Communicator& communicator) {
    Executor executor(settings.lanes);
    Kernels kernels = make_cpu_kernels(executor);
    kernels.block_rule = recipe.blocks;
    kernels.precision = settings.device.precision;
    CountingMemory memory;
    const Context context{Compute{executor, kernels, memory}, communicator,
                          make_host_collectives(communicator), Log()};
    Network network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(), context,
                    recipe.network.training.batch, settings.purpose, nullptr,
                    recipe.layers_by_example());
    std::unique_ptr<StepVerifier> verifier;
    if (settings.keeps_state) verifier = std::make_unique<StepVerifier>(network, "test");
    if (communicator.rank() == 0) bytes = memory.bytes();
    communicator.barrier();
  });
  return bytes;
}

class MemoryPlanTest : public testing::TestWithParam<int> {
 protected:
  const Recipe recipe_ = all_recipes().at(std::size_t(GetParam()));
};

TEST_P(MemoryPlanTest, IsWhatANetworkAllocates) {
  const Graph graph = make_graph(recipe_.network, recipe_.shapes(), "test");
  for (Pass purpose : {Pass::training, Pass::prediction})
    for (int ranks : {1, 3})
      for (int lanes : {1, 4}) {
        PlanSettings settings = settings_of(recipe_, ranks, lanes, purpose);
        // As GPUs in bfloat16 and in tf32, which have one lane.
        if (lanes == 1) settings.device.precision = ranks == 1 ? Precision::bf16 : Precision::tf32;
        settings.keeps_state = lanes == 4 && purpose == Pass::training;
        const MemoryPlan plan = plan_memory(graph, settings);
        std::int64_t in_buffers = 0;
        for (const BufferPlan& buffer : plan.buffers) in_buffers += buffer.bytes;
        EXPECT_EQ(in_buffers, plan.total_bytes());
        const std::int64_t planned = plan.parameter_bytes + plan.state_bytes + plan.working_bytes;
        const std::int64_t allocated = allocated_by_rank_0(recipe_, settings);
        const std::string where =
            fmt::format("{}, {} ranks, {} lanes, {}", recipe_.name, ranks, lanes,
                        purpose == Pass::training ? "training" : "prediction");
        if (settings.keeps_state)
          EXPECT_NEAR(double(planned) / double(allocated), 1.0, 0.02) << where;
        else
          EXPECT_EQ(planned, allocated) << where;
      }
}

// Of what the collectives of a step are, and of nothing else.
TEST_P(MemoryPlanTest, HasPlaceForWhatRanksSendEachOther) {
  const Graph graph = make_graph(recipe_.network, recipe_.shapes(), "test");
  for (const Pass purpose : {Pass::training, Pass::prediction})
    for (const int ranks : {1, 2, 4}) {
      PlanSettings settings = settings_of(recipe_, ranks, 1, purpose);
      settings.device.is_host = false;
      settings.device.precision = Precision::bf16;
      std::int64_t place = 0;
      for (const BufferPlan& buffer : plan_memory(graph, settings).buffers)
        if (buffer.name == "columns for other ranks") place = buffer.bytes;
      EXPECT_EQ(place > 0, ranks > 1);
      if (ranks == 1 || purpose != Pass::training) continue;
      std::int64_t largest = 0, peers = 0;
      for (const CollectivePlan& collective : test::planned_collectives(graph, settings)) {
        EXPECT_EQ(collective.packed > 0.0, collective.peer_bytes > 0) << collective.stage;
        EXPECT_GE(double(collective.nccl_bytes), 0.0);
        if (collective.kind == CollectivePlan::Kind::all_gather && collective.packed > 0.0) {
          EXPECT_EQ(double(collective.peer_bytes), collective.bytes) << collective.stage;
        }
        largest = std::max({largest, collective.nccl_bytes, 2 * collective.peer_bytes});
        peers += 2 * collective.peer_bytes;
      }
      EXPECT_GE(place, largest) << ranks << " ranks";
      EXPECT_LE(place, std::max(largest, peers + (6 << 20))) << ranks << " ranks";
    }
}

TEST(MemoryPlan, CountsTheWeightsOfFeatures) {
  Recipe recipe = all_recipes().front();
  const auto bytes = [&](Pass purpose, const char* what) {
    const PlanSettings settings = settings_of(recipe, 3, 1, purpose);
    const MemoryPlan plan =
        plan_memory(make_graph(recipe.network, recipe.shapes(), "test"), settings);
    EXPECT_EQ(plan.parameter_bytes + plan.state_bytes + plan.working_bytes,
              allocated_by_rank_0(recipe, settings))
        << what;
    return plan.total_bytes();
  };
  for (const Pass purpose : {Pass::training, Pass::prediction}) {
    recipe.network.layers[0].input_weighting = NoWeighting{};
    const std::int64_t without = bytes(purpose, "without");
    recipe.network.layers[0].input_weighting = InverseDocumentFrequency{};
    EXPECT_EQ(bytes(purpose, "with") - without, 333 * 4);
  }
}

std::string recipe_name(const testing::TestParamInfo<int>& info) {
  std::string name = all_recipes()[std::size_t(info.param)].name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recipes, MemoryPlanTest, testing::Range(0, int(all_recipes().size())),
                         recipe_name);

TEST(MemoryPlan, CountsWeightsAndStreamsDataThatAreTooLarge) {
  const Recipe recipe = all_recipes()[0];
  const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
  PlanSettings settings = settings_of(recipe, 1, 1, Pass::training);
  const MemoryPlan held = plan_memory(graph, settings);
  EXPECT_EQ(held.weights, 333 * 77 + 77 + 77 * 50 + 50 + 50 * 1003 + 1003);
  EXPECT_EQ(held.parameter_bytes, held.weights * 4);
  EXPECT_EQ(held.layers.size(), 4u);
  EXPECT_FALSE(held.data_streamed);
  EXPECT_GT(held.data_bytes, 0);
  settings.data_memory_bytes = 10;
  EXPECT_TRUE(plan_memory(graph, settings).data_streamed);
  EXPECT_EQ(plan_memory(graph, settings).data_bytes, 0);
}

// Of all ranks: one of them copies it.
TEST(MemoryPlan, SaysWhatACheckpointHolds) {
  std::mt19937 random(std::random_device{}());
  const auto units = [&] { return Index(1 + random() % 3000); };
  const Index in = units(), hidden = units(), out = units();
  NetworkDescriptor network;
  network.layers = {input_layer("In", in), hidden_layer("Hidden", hidden, {"In"}),
                    output_layer("Out", out, {"Hidden"})};
  const std::vector<DatasetShape> shapes = {{"In", 1, {in, 1, 1}, true},
                                            {"Out", 1, {out, 1, 1}, true}};
  const std::pair<UpdateRule, Index> arrays[] = {{Sgd{}, 1}, {Momentum{}, 2}, {Adam{}, 3}};
  for (const auto& [rule, count] : arrays)
    for (const int ranks : {1, 3}) {
      network.training.optimizer = rule;
      PlanSettings settings;
      settings.batch = 16;
      settings.ranks = ranks;
      EXPECT_EQ(plan_memory(make_graph(network, shapes, "test"), settings).checkpoint_bytes,
                4 * (count * (in + out) * hidden + hidden + out));
    }
}

TEST(MemoryPlan, CountsWhatValidationsTake) {
  constexpr int kLanes = 2;
  const TempDir folder;
  Recipe recipe = all_recipes()[0];
  recipe.network.training.validation.metrics_at = "5,7";
  recipe.network.training.validation.keep_best = "ndcg@30";
  const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
  write_data(recipe, folder / "data.nc");
  const int output = graph.layer("Out");
  ValidationData held;
  held.data = std::make_unique<DataBinding>(recipe.network,
                                            DataSources{{folder / "data.nc"}, {folder / "data.nc"}},
                                            DataBinding::Layers::inputs_and_outputs);
  PlanSettings settings = settings_of(recipe, 1, kLanes, Pass::training);
  const MemoryPlan without = plan_memory(graph, settings);
  settings.validation = plan_validation(graph.network, {&held, output});
  EXPECT_EQ(settings.validation.longest_list, 30);
  EXPECT_GT(settings.validation.held_bytes, 0);
  const MemoryPlan with = plan_memory(graph, settings);
  EXPECT_EQ(with.data_bytes - without.data_bytes, held.data->held_bytes());

  CpuRuntime runtime(kLanes);
  const auto communicator = make_single_process();
  Network network(graph, recipe.shapes(), runtime.context(*communicator), settings.batch,
                  Pass::prediction);
  network.initialise(1);
  BatchLoader loader(held.data->sources(),
                     BatchOrder(held.data->examples(), settings.batch, false, 0), 0, 0, 1);
  Predictor predictor(network, output, 30);
  const TopK& best = predictor.predict(held.data->bind(*loader.next()), {});
  const Index block = network.unit_layer(output)->partition().block_width();
  EXPECT_EQ(with.working_bytes - without.working_bytes,
            kLanes * (best.score.bytes() + best.unit.bytes() + best.count.bytes() +
                      settings.batch * block * Index(sizeof(float))));

  // Batches are read where those of training were: the denser ones count.
  const MemoryPlan before = plan_memory(graph, settings);
  for (DatasetInfo& set : settings.validation.sets) set.entries *= 3;
  EXPECT_GT(plan_memory(graph, settings).batch_bytes, before.batch_bytes);
  for (DatasetInfo& set : settings.validation.sets) set.entries = 0;
  EXPECT_EQ(plan_memory(graph, settings).batch_bytes, without.batch_bytes);
  // On a GPU the data of validations stay outside, and their batches have no rows to be found at.
  settings.device.is_host = false;
  settings.validation = plan_validation(graph.network, {&held, output});
  EXPECT_EQ(plan_memory(graph, settings).data_bytes, 0);
  const std::int64_t shared = plan_memory(graph, settings).batch_bytes;
  settings.data_on_gpu = true;
  EXPECT_GT(plan_memory(graph, settings).batch_bytes, shared);
}

TEST(MemoryPlan, CountsOfImagesTheExamplesThatARankReads) {
  Recipe recipe = convolution_recipe();
  recipe.network.training.batch = recipe.examples = 32;
  const auto bytes = [&](int ranks, const std::string& set) {
    const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
    for (const BufferPlan& buffer :
         plan_memory(graph, settings_of(recipe, ranks, 1, Pass::training)).buffers)
      if (buffer.name == "batches of " + set) return buffer.bytes;
    return std::int64_t(-1);
  };
  const std::string images = recipe.network.layers[0].dataset;
  const std::string targets = recipe.network.layers.back().dataset;
  for (const int ranks : {2, 4, 8}) {
    EXPECT_EQ(bytes(ranks, images) * ranks, bytes(1, images)) << ranks;
    EXPECT_EQ(bytes(ranks, targets), bytes(1, targets)) << ranks;
  }
  // A layer by unit looks at all.
  recipe.network.layers[4].sources.push_back("In");
  EXPECT_EQ(bytes(4, images), bytes(1, images));
}

TEST(MemoryPlan, OfAHundredMillionUnitsNeedsNoMemoryToMake) {
  NetworkDescriptor network;
  network.layers = {input_layer("In", 100'000'000), hidden_layer("Hidden", 4096, {"In"}),
                    output_layer("Out", 100'000'000, {"Hidden"})};
  network.training.optimizer = Adam{};
  const std::vector<DatasetShape> shapes = {{"In", 1, {100'000'000, 1, 1}, true},
                                            {"Out", 1, {100'000'000, 1, 1}, true}};
  const Graph graph = make_graph(network, shapes, "test");
  PlanSettings settings;
  settings.batch = 1024;
  const MemoryPlan plan = plan_memory(graph, settings);
  EXPECT_GT(plan.total_bytes(), std::int64_t(8) << 40);
}

TEST(MemoryPlan, SaysHowWeightsAreSharedOut) {
  const auto shardings = [](const Recipe& recipe) {
    const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
    std::vector<std::string> edges;
    for (const EdgePlan& edge : plan_memory(graph, settings_of(recipe, 2, 1, Pass::training)).edges)
      edges.push_back(edge.source + " -> " + edge.destination +
                      (edge.sharding == EdgePlan::Sharding::whole       ? " whole"
                       : edge.sharding == EdgePlan::Sharding::by_source ? " by source"
                                                                        : ""));
    return edges;
  };
  EXPECT_THAT(
      shardings(by_source_recipe("test", Sgd{}, 0.1f)),
      testing::ElementsAre("In -> Wide", "Wide -> Narrow by source", "Narrow -> Narrower by source",
                           "In -> Narrower", "Narrower -> Wide2", "Wide -> Near by source",
                           "In -> Near", "Wide2 -> Far by source"));
  EXPECT_THAT(shardings(all_recipes()[2]),
              testing::ElementsAre("In -> Hidden whole", "Hidden -> Out whole"));
}

TEST(MemoryPlan, ThatDoesNotFitIsRefusedWithTheNumbers) {
  const Recipe recipe = all_recipes()[0];
  const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
  const PlanSettings settings = settings_of(recipe, 2, 1, Pass::training);
  const MemoryPlan plan = plan_memory(graph, settings);
  EXPECT_NO_THROW(require_memory(plan, settings, plan.total_bytes()));
  try {
    require_memory(plan, settings, plan.total_bytes() - 1);
    FAIL() << "a plan that does not fit was accepted";
  } catch (const DeviceError& error) {
    const auto bytes = [](std::int64_t count) { return human_bytes(double(count)); };
    EXPECT_EQ(error.what(),
              fmt::format(
                  "this run needs {} of memory (parameters {}, optimizer state {}, working buffers "
                  "{}, batches {}, data {}, process {}), but {} are available; use a smaller batch "
                  "than {}, "
                  "`data_memory` to stream the data, more ranks than 2, or a larger machine",
                  bytes(plan.total_bytes()), bytes(plan.parameter_bytes), bytes(plan.state_bytes),
                  bytes(plan.working_bytes), bytes(plan.batch_bytes), bytes(plan.data_bytes),
                  bytes(plan.process_bytes), bytes(plan.total_bytes() - 1), settings.batch));
    EXPECT_EQ(error.exit_code(), 4);
  }
}

TEST(MemoryPlan, KnowsThatTheMachineHasMemory) {
  EXPECT_GT(available_memory_bytes(1), 0);
}

// Addresses that are taken are no longer free, and each lane's BLAS needs a buffer.
TEST(MemoryPlan, KnowsTheLimitOfAddresses) {
  const auto addresses = [] {
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  constexpr std::int64_t kFree = std::int64_t(700) << 20;
  constexpr std::int64_t kBuffer = std::int64_t(128) << 20;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  for (const int lanes : {1, 3}) {
    const rlimit limited{rlim_t(addresses() + kFree), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
    const std::int64_t available = available_memory_bytes(lanes);
    const std::int64_t grown = addresses() + kFree - std::int64_t(limited.rlim_cur);
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_LE(available, kFree - lanes * kBuffer);
    if (available_memory_bytes(lanes) > kFree) {
      EXPECT_GE(available, kFree - lanes * kBuffer - grown);
    }
  }
}

TEST(Network, CutsItsBlocksByTheRuleThatItIsGiven) {
  const Recipe recipe = all_recipes().front();
  Executor executor(1);
  Kernels kernels = make_cpu_kernels(executor);
  const auto one = make_single_process();
  const Context context{Compute{executor, kernels, host_memory()}, *one,
                        make_host_collectives(*one), Log()};
  const auto width = [&](const BlockRule* rule) {
    const Network network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(),
                          context, recipe.network.training.batch, Pass::training, rule);
    return network.unit_layer(3)->partition().block_width();
  };
  const Index usual = width(nullptr);
  BlockRule rule = recipe.blocks;
  rule.minimum_width = rule.maximum_width = 48;
  EXPECT_EQ(width(&rule), 48);
  EXPECT_NE(usual, 48);
  EXPECT_EQ(width(nullptr), usual);
}

TEST(WorkPlan, CountsTheProductsOfAStep) {
  NetworkDescriptor network;
  network.layers = {input_layer("In", 1000), hidden_layer("Hidden", 32, {"In"}),
                    output_layer("Out", 500, {"Hidden"})};
  const std::vector<DatasetShape> shapes = {{"In", 1, {1000, 1, 1}, true},
                                            {"Out", 1, {500, 1, 1}, true}};
  PlanSettings settings;
  settings.batch = 10;
  DatasetInfo in;
  in.name = "In";
  in.sparse = true;
  in.extent = {1000, 1, 1};
  in.examples = in.unique_examples = 100;
  in.entries = 700;
  settings.sets = {in};
  const WorkPlan work = plan_work(make_graph(network, shapes, "test"), settings);
  EXPECT_DOUBLE_EQ(work.dense_flops, 3 * 2.0 * 10 * 32 * 500);   // forward, delta, gradient
  EXPECT_DOUBLE_EQ(work.sparse_flops, 2 * 2.0 * (10 * 7) * 32);  // forward, gradient
}

TEST(WorkRates, AreMeasuredAndGiveATime) {
  CpuRuntime runtime(2);
  const auto communicator = make_single_process();
  const Recipe recipe = all_recipes()[0];
  const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
  const Context context = runtime.context(*communicator);
  const WorkRates rates = measure_rates(context.compute, graph, 37);
  const WorkPlan work = plan_work(graph, settings_of(recipe, 1, 2, Pass::training));
  EXPECT_GT(rates.dense_flops, 0.0);
  EXPECT_GT(rates.sparse_flops, 0.0);
  EXPECT_GT(floor_seconds(work, rates), 0.0);
}

}  // namespace
}  // namespace norn::test
