// SPDX-License-Identifier: Apache-2.0
// Predictions of steps on machines that are described: near what was measured where something was,
// and sensible elsewhere.
#include "src/engine/plan/step_plan.h"

#include "norn/base/error.h"
#include "src/nn/descriptor_json.h"
#include "tests/engine/planned_collectives.h"
#include "tests/support/recipes.h"

#include <filesystem>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn::test {
namespace {

MachineDescription machine(const char* name) {
  return read_machine_json(std::filesystem::path(NORN_SOURCE_DIR) / "configs/machines" / name);
}

// An autoencoder on implicit feedback, as docs/user/performance.md measures them.
struct Shape {
  std::string hidden;  // layers, JSON
  Index width = 0;
  Index batch = 1024;
  int entries = 100;
  const char* rule = "SGD";
  const char* loss = "ScaledMarginalCrossEntropy";
  const char* output = "Sigmoid";
};

Shape ml20m(const char* rule, Index batch = 1024) {
  const auto layer = [](int number) {
    return fmt::format(
        R"({{"Name": "Hidden{}", "N": 1536, "Activation": "Relu", "pDropout": 0.37}},)", number);
  };
  return {layer(1) + layer(2) + layer(3), 27'278, batch, 144, rule};
}
Shape shop(Index width, int hidden, const char* rule, Index batch = 1024) {
  return {fmt::format(R"({{"Name": "Hidden1", "N": {}, "Activation": "Relu"}},)", hidden), width,
          batch, 100, rule};
}

struct Planned {
  Graph graph;
  PlanSettings settings;
};

Planned plan_of(const Shape& shape, const MachineDescription& on, Precision precision, int ranks) {
  const std::string text =
      fmt::format(R"({{
    "ErrorFunction": "{}",
    "Training": {{"Optimizer": "{}", "Batch": {}, "Lambda": 0, "Lambda1": 0}},
    "Layers": [
      {{"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "data", "Sparse": true}},
      {}
      {{"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "data", "Activation": "{}"}}
    ]
  }})",
                  shape.loss, shape.rule, shape.batch, shape.hidden, shape.output);
  Planned planned;
  planned.graph = make_graph(parse_network_json(text, "test"),
                             {{"data", 1, {shape.width, 1, 1}, true}}, "test");
  DatasetInfo set;
  set.name = "data";
  set.extent = {shape.width, 1, 1};
  set.sparse = set.boolean = true;
  set.examples = set.unique_examples = 8 * shape.batch;
  set.entries = RowOffset(set.examples * shape.entries);
  planned.settings.batch = shape.batch;
  planned.settings.ranks = ranks;
  planned.settings.sets = {set};
  planned.settings.data_memory_bytes = std::int64_t(8) << 30;
  planned.settings = settings_on(on, precision, planned.settings);
  return planned;
}

StepPlan step_of(const Shape& shape, const MachineDescription& on, Precision precision, int ranks,
                 int nodes = 0) {
  const Planned planned = plan_of(shape, on, precision, ranks);
  return plan_step(planned.graph, planned.settings, on, nodes == 0 ? nodes_of(on, ranks) : nodes);
}

const StagePlan* stage_of(const StepPlan& plan, const std::string& name) {
  for (const StagePlan& stage : plan.stages)
    if (stage.name == name) return &stage;
  return nullptr;
}

constexpr double kNear = 0.15;

TEST(StepPlan, ComputesSoftMaxLossesInTheirProductWhichIsMadeTwice) {
  const MachineDescription h200 = machine("h200.json");
  Shape shape = shop(500'000, 128, "Adam");
  shape.loss = "CrossEntropy";
  shape.output = "SoftMax";
  const double product = 2.0 * 1024 * 500'000 * 128;
  for (const Precision precision : {Precision::bf16, Precision::tf32}) {
    const StepPlan plan = step_of(shape, h200, precision, 1);
    EXPECT_DOUBLE_EQ(stage_of(plan, "softmax rows")->flops, product);
    EXPECT_DOUBLE_EQ(stage_of(plan, "output forward")->flops, product);
    EXPECT_EQ(stage_of(plan, "output delta"), nullptr);
  }
  shape.loss = "L2";  // whose deltas need the pre-activations
  const StepPlan plan = step_of(shape, h200, Precision::bf16, 1);
  EXPECT_NE(stage_of(plan, "output delta"), nullptr);
  EXPECT_GT(stage_of(plan, "softmax rows")->bytes, 2.0 * 1024 * 500'000 * 4);
}

TEST(StepPlan, IsNearTheStepsMeasuredOnOneH200) {
  struct Measured {
    Shape shape;
    Precision precision;
    double milliseconds;
  };
  const std::vector<Measured> table = {
      {ml20m("SGD"), Precision::tf32, 1.38},
      {ml20m("Adam"), Precision::bf16, 1.26},
      {ml20m("Adam", 8192), Precision::bf16, 5.77},
      {shop(500'000, 1024, "SGD"), Precision::tf32, 11.3},
      {shop(500'000, 1024, "Adam"), Precision::bf16, 8.73},
      {shop(500'000, 1024, "Adam", 8192), Precision::bf16, 46.0},
      {shop(10'000'000, 256, "SGD"), Precision::bf16, 42.3},
      {shop(10'000'000, 256, "Adam"), Precision::bf16, 54.2},
  };
  const MachineDescription h200 = machine("h200.json");
  for (const Measured& row : table) {
    const StepPlan plan = step_of(row.shape, h200, row.precision, 1);
    EXPECT_NEAR(1e3 * plan.seconds() / row.milliseconds, 1.0, kNear)
        << row.shape.width << " outputs, " << row.shape.rule << ", batch " << row.shape.batch
        << ": predicted " << 1e3 * plan.seconds() << " ms, measured " << row.milliseconds;
    EXPECT_EQ(plan.communication_seconds, 0.0);
  }
}

TEST(StepPlan, CollectivesAreNearThoseMeasuredOnFourH200) {
  using Kind = CollectivePlan::Kind;
  struct Measured {
    Kind kind;
    double bytes;  // of the whole array
    double microseconds;
  };
  constexpr double kFew = 1024 * 1536, kMany = 8192 * 1536;  // elements
  const std::vector<Measured> table = {
      {Kind::all_gather, 2 * kFew, 15.8},
      {Kind::all_gather, 2 * kMany, 71.2},
      {Kind::all_gather, 4 * kFew, 23.3},
      {Kind::all_gather, 4 * kMany, 135.7},
      {Kind::exchange, 4 * kFew, 20.8},
      {Kind::exchange, 4 * kMany, 120.1},
      {Kind::reduce_scatter, 8 * kFew, 47.8},
      {Kind::reduce_scatter, 8 * kMany, 399.0},
      {Kind::all_reduce, 32, 7.5},
  };
  const MachineDescription h200 = machine("h200.json");
  for (const Measured& row : table) {
    const CollectivePlan collective{"", row.kind, row.bytes, row.bytes};
    const double microseconds = 1e6 * collective_seconds(collective, h200, 4, 1);
    EXPECT_NEAR(microseconds / row.microseconds, 1.0, kNear)
        << row.bytes << " bytes: predicted " << microseconds << ", measured " << row.microseconds;
  }
}

TEST(StepPlan, IsNearTheStepsMeasuredOnSeveralH200) {
  struct Measured {
    Shape shape;
    Precision precision;
    double of_two, of_four;  // milliseconds
  };
  const std::vector<Measured> table = {
      {ml20m("SGD"), Precision::tf32, 0.923, 0.632},
      {ml20m("Adam"), Precision::bf16, 0.799, 0.545},
      {ml20m("Adam", 8192), Precision::bf16, 3.457, 2.105},
      {shop(500'000, 1024, "Adam"), Precision::bf16, 4.616, 2.410},
      {shop(500'000, 1024, "Adam", 8192), Precision::bf16, 23.78, 12.57},
      {shop(10'000'000, 256, "SGD"), Precision::bf16, 21.35, 10.97},
      {shop(10'000'000, 256, "Adam"), Precision::bf16, 27.70, 13.98},
  };
  const MachineDescription h200 = machine("h200.json");
  for (const Measured& row : table)
    for (const auto& [ranks, milliseconds] : {std::pair(2, row.of_two), {4, row.of_four}}) {
      const StepPlan plan = step_of(row.shape, h200, row.precision, ranks);
      EXPECT_NEAR(1e3 * plan.seconds() / milliseconds, 1.0, kNear)
          << row.shape.width << " outputs, " << row.shape.rule << ", batch " << row.shape.batch
          << " on " << ranks << ": predicted " << 1e3 * plan.seconds() << " ms, measured "
          << milliseconds;
    }
}

TEST(StepPlan, StagesAddUpToTheStep) {
  const StepPlan plan = step_of(ml20m("Adam"), machine("h200.json"), Precision::bf16, 4);
  double computed = 0.0, said = 0.0;
  for (const StagePlan& stage : plan.stages)
    (stage.communicates ? said : computed) += stage.seconds;
  EXPECT_DOUBLE_EQ(computed, plan.compute_seconds);
  EXPECT_DOUBLE_EQ(said, plan.communication_seconds);
  EXPECT_DOUBLE_EQ(plan.seconds(), computed + said - plan.overlapped_seconds);
  EXPECT_NEAR(plan.examples_per_second(), 1024.0 / plan.seconds(), 1e-6);
}

TEST(StepPlan, ExchangesWhatTheNetworkDoes) {
  const MachineDescription h200 = machine("h200.json");
  const StepPlan plan = step_of(ml20m("Adam"), h200, Precision::bf16, 4);
  ASSERT_NE(stage_of(plan, "gather activations"), nullptr);
  EXPECT_EQ(stage_of(plan, "gather activations")->bytes, 3 * 1024.0 * 1536 * 2);
  ASSERT_NE(stage_of(plan, "reduce deltas"), nullptr);
  // Between the hidden layers a few terms as they are; shop500k's 32 are added up in two
  // accumulators each.
  EXPECT_GT(stage_of(plan, "reduce deltas")->bytes, 3 * 1024.0 * 1536 * 4);
  const StepPlan shop500k = step_of(shop(500'000, 1024, "Adam"), h200, Precision::bf16, 4);
  EXPECT_EQ(stage_of(shop500k, "reduce deltas")->bytes, 1024.0 * 1024 * 16);
  const StepPlan tf32 = step_of(ml20m("Adam"), h200, Precision::tf32, 4);
  EXPECT_EQ(stage_of(tf32, "gather activations")->bytes, 3 * 1024.0 * 1536 * 4);
}

TEST(StepPlan, FromAWideLayerToANarrowOneTheNarrowOneMoves) {
  const auto layer = [](const char* name, int units) {
    return fmt::format(R"({{"Name": "{}", "N": {}, "Activation": "Relu"}},)", name, units);
  };
  const Shape shape{layer("Wide", 20'000) + layer("Narrow", 128), 27'278, 1024, 144, "Adam"};
  const StepPlan plan = step_of(shape, machine("h200.json"), Precision::bf16, 4);
  ASSERT_NE(stage_of(plan, "sum over sources"), nullptr);
  EXPECT_EQ(stage_of(plan, "sum over sources")->bytes, 1024.0 * 128 * 16);
  EXPECT_EQ(stage_of(plan, "gather deltas")->bytes, 1024.0 * 128 * 4);
  EXPECT_EQ(stage_of(plan, "gather activations")->bytes, 1024.0 * 128 * 2);
}

TEST(StepPlan, TakesTheRankWithTheMostBlocks) {
  const MachineDescription h200 = machine("h200.json");
  // 4 blocks of 8448: 3 ranks own 2, 1 and 1, so the step is as long as on 2.
  const double two = step_of(ml20m("SGD"), h200, Precision::tf32, 2).stages[0].seconds;
  const auto output = [&](int ranks) {
    return stage_of(step_of(ml20m("SGD"), h200, Precision::tf32, ranks), "output forward")->seconds;
  };
  EXPECT_GT(two, 0.0);
  EXPECT_DOUBLE_EQ(output(3), output(2));
  EXPECT_LT(output(4), 0.8 * output(3));
  EXPECT_DOUBLE_EQ(output(64), output(4));
}

TEST(StepPlan, OverlapHidesTheReductionOfDeltas) {
  MachineDescription h200 = machine("h200.json");
  h200.overlap = 0.0;
  const StepPlan waits = step_of(ml20m("Adam"), h200, Precision::bf16, 4);
  h200.overlap = 0.5;
  const StepPlan overlaps = step_of(ml20m("Adam"), h200, Precision::bf16, 4);
  const double overlapping =
      stage_of(waits, "reduce deltas")->seconds + stage_of(waits, "formats of deltas")->seconds;
  EXPECT_EQ(waits.overlapped_seconds, 0.0);
  EXPECT_DOUBLE_EQ(overlaps.seconds(), waits.seconds() - 0.5 * overlapping);
}

// Many narrow layers between few weights: there is not enough to overlap with what ranks exchange.
TEST(StepPlan, OverlapEndsWithTheUpdatesThatAreLeft) {
  MachineDescription h200 = machine("h200.json");
  h200.overlap = 1.0;
  std::string layers;
  for (int i = 0; i < 8; ++i)
    layers += fmt::format(R"({{"Name": "H{}", "N": 64, "Activation": "Relu"}},)", i);
  const StepPlan plan = step_of({layers, 2'000, 4096, 20, "SGD"}, h200, Precision::bf16, 4);
  EXPECT_GT(plan.overlapped_seconds, 0.0);
  EXPECT_DOUBLE_EQ(plan.overlapped_seconds, plan.overlappable_seconds);
  EXPECT_LT(plan.overlapped_seconds, stage_of(plan, "reduce deltas")->seconds);
}

TEST(StepPlan, CollectivesAreSlowerBetweenNodes) {
  const MachineDescription h200 = machine("h200.json");
  for (const auto kind : {CollectivePlan::Kind::all_gather, CollectivePlan::Kind::reduce_scatter,
                          CollectivePlan::Kind::all_reduce})
    for (const double bytes : {64.0, 4e6, 256e6}) {
      const CollectivePlan collective{"", kind, bytes, bytes};
      const double one = collective_seconds(collective, h200, 8, 1);
      const double two = collective_seconds(collective, h200, 8, 2);
      const double eight = collective_seconds(collective, h200, 8, 8);
      EXPECT_GT(one, 0.0);
      EXPECT_GT(two, one);
      EXPECT_GT(eight, two);
    }
}

TEST(StepPlan, SaysWhereMoreRanksStopPaying) {
  const MachineDescription h200 = machine("h200.json");
  const auto pay = [&](const Shape& shape, Precision precision) {
    const Planned planned = plan_of(shape, h200, precision, 1);
    const auto plans = plan_scaling(planned.graph, planned.settings, h200, 256);
    EXPECT_EQ(plans.size(), 9u);
    EXPECT_EQ(plans.front().step.ranks, 1);
    EXPECT_EQ(plans.back().step.ranks, 256);
    EXPECT_EQ(plans.back().step.nodes, 32);
    // Two ranks have accumulators for what they reduce where one has none.
    for (std::size_t i = 1; i < plans.size(); ++i)
      EXPECT_LE(plans[i].memory_bytes, std::int64_t(1.2 * double(plans[i - 1].memory_bytes)));
    return ranks_that_pay(plans);
  };
  const int small = pay(ml20m("Adam"), Precision::bf16);
  const int large = pay(shop(10'000'000, 256, "Adam"), Precision::bf16);
  EXPECT_LE(small, 8);
  EXPECT_GE(large, 16);
}

// The sparse table stays as floats. Upper halves have rows of zeros up to a multiple of eight.
TEST(StepPlan, HoldsDenseWeightsInHalvesInBf16Alone) {
  const MachineDescription h200 = machine("h200.json");
  const Index table = 27'278 * 1536, hidden = 1536 * 1536;
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const Planned planned = plan_of(ml20m("Adam"), h200, precision, 1);
    std::map<std::string, Index> elements;  // of weights, by their type
    for (const TensorPlan& plan : plan_tensors(planned.graph, planned.settings))
      if (std::string_view(plan.tensor.use).starts_with("weights"))
        elements[plan.tensor.element] += plan.count * plan.tensor.rows * plan.tensor.cols;
    std::map<std::string, Index> expected{{"float32", 2 * table + 2 * hidden}};
    if (precision == Precision::bf16)
      expected = {{"float32", table},
                  {"bfloat16", table + 2 * hidden + 2 * 1536},
                  {"int16", table + 2 * hidden}};
    EXPECT_EQ(elements, expected) << name_of(precision);
  }
}

TEST(StepPlan, OfAHundredMillionOutputsOnACpuCluster) {
  const MachineDescription cluster = machine("cpu_cluster.json");
  const Planned planned = plan_of(shop(100'000'000, 128, "Adam"), cluster, Precision::bf16, 64);
  EXPECT_FALSE(planned.settings.on_gpu());
  EXPECT_EQ(planned.settings.device.precision, Precision::fp32);  // a CPU computes in fp32
  EXPECT_EQ(planned.settings.lanes, 64);
  const StepPlan plan = plan_step(planned.graph, planned.settings, cluster, 64);
  EXPECT_GT(plan.seconds(), 0.1);
  EXPECT_GT(plan.communication_seconds, 0.0);
  EXPECT_LT(plan_memory(planned.graph, planned.settings).total_bytes(), memory_of_rank(cluster));
}

// Every kind of layer, edge and rule has a plan, whose collectives are those of several ranks.
TEST(StepPlan, KnowsEveryRecipe) {
  const MachineDescription cluster = machine("cpu_cluster.json");
  for (const Recipe& recipe : all_recipes()) {
    const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
    PlanSettings settings;
    settings.batch = recipe.network.training.batch;
    settings.device.block_rule = recipe.blocks;
    EXPECT_TRUE(test::planned_collectives(graph, settings).empty());
    settings.ranks = 3;
    const StepPlan plan = plan_step(graph, settings, cluster, 3);
    EXPECT_GT(plan.communication_seconds, 0.0) << recipe.name;
    for (const StagePlan& stage : plan.stages)
      EXPECT_TRUE(std::isfinite(stage.seconds) && stage.seconds > 0.0)
          << recipe.name << ": " << stage.name;
  }
}

}  // namespace
}  // namespace norn::test
