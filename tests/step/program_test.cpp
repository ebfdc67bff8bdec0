// SPDX-License-Identifier: Apache-2.0
// Steps as lists of ops, of every recipe.
#include "src/step/program.h"

#include "src/engine/network/network.h"
#include "src/step/tensors.h"
#include "tests/step/step_settings.h"
#include "tests/support/recipes.h"
#include "tests/support/thread_group.h"

#include <mutex>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace norn::step::test {
namespace {

using norn::test::all_recipes;
using norn::test::Recipe;

using Stages = std::multiset<std::string>;

// Notes the stages of a step.
class NotingQueue final : public WorkQueue {
 public:
  explicit NotingQueue(Stages& stages) : stages_(stages) {}
  void stage(const char* name) override {
    const std::lock_guard lock(mutex_);
    stages_.insert(name);
  }

 private:
  Stages& stages_;
  std::mutex mutex_;
};

// Of rank 0, which has units of every layer.
Stages stages_of_a_run(const Recipe& recipe, int ranks) {
  Stages stages;
  run_thread_group(ranks, [&](Communicator& communicator) {
    Executor executor(2);
    Kernels kernels = make_cpu_kernels(executor);
    kernels.block_rule = recipe.blocks;
    if (communicator.rank() == 0) kernels.queue = std::make_unique<NotingQueue>(stages);
    const Context context{Compute{executor, kernels, host_memory()}, communicator,
                          make_host_collectives(communicator), Log()};
    Network network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(), context,
                    recipe.network.training.batch, Pass::training, nullptr,
                    recipe.layers_by_example());
    network.initialise(1);
    norn::test::RecipeData data(recipe);
    network.train_step(data.batch(0), data.position(0));
  });
  return stages;
}

// Facts keep a reference to their graph.
struct Compiled {
  Compiled(const Recipe& recipe, int ranks, int lanes, bool on_gpu = false)
      : graph(make_graph(recipe.network, recipe.shapes(), "test")),
        facts(graph, settings(recipe, graph, ranks, lanes, on_gpu)),
        program(compile_training(facts)) {}

  static StepSettings settings(const Recipe& recipe, const Graph& graph, int ranks, int lanes,
                               bool on_gpu) {
    StepSettings settings = training_settings(recipe, graph);
    settings.ranks = ranks;
    settings.lanes = lanes;
    settings.device.is_host = !on_gpu;
    settings.exchanges = on_gpu;
    return settings;
  }

  const Graph graph;
  const StepFacts facts;
  const Program program;
};

template <typename T>
int count(const Program& program) {
  return int(std::count_if(program.begin(), program.end(),
                           [](const Op& op) { return std::holds_alternative<T>(op); }));
}

const std::vector<EdgeBackward>* edges_of(const Op& op) {
  if (const auto* output = std::get_if<OutputBlocks>(&op)) return &output->edges;
  const auto* hidden = std::get_if<HiddenBlocks>(&op);
  return hidden ? &hidden->edges : nullptr;
}

int waiting(const Op& op) {
  const std::vector<EdgeBackward>* edges = edges_of(op);
  if (!edges) return 0;
  return int(std::count_if(edges->begin(), edges->end(), [](const EdgeBackward& edge) {
    return edge.update == EdgeBackward::Update::may_wait;
  }));
}

TEST(StepProgram, HasAKindForEveryTypeOfLayer) {
  for (std::size_t type = 0; type < kLayerTypes.size(); ++type) {
    NetworkDescriptor network;
    network.layers = {norn::test::input_layer("In", 9),
                      norn::test::hidden_layer("Hidden", 4, {"In"}),
                      norn::test::output_layer("Out", 3, {"Hidden"})};
    network.layers[1].type = LayerType(type);
    if (LayerType(type) == LayerType::pooling) {
      network.layers[1].extent[0] = 1;
      network.layers[1].function = PoolingFunction::lrn;
      network.layers[1].activation = Activation(Linear{});
    }
    if (LayerType(type) == LayerType::convolutional) {
      network.layers[1].kernel = {3, 1, 1};
      network.layers[1].kernel_dimensions = 1;
    }
    const Graph graph =
        make_graph(network, {{"In", 1, {9, 1, 1}, false}, {"Out", 1, {3, 1, 1}, false}}, "test");
    const StepFacts facts(graph, {});
    EXPECT_TRUE(with_room(facts, 1, [](auto) {})) << kLayerTypes[type].name;
  }
}

TEST(StepProgram, HasARoomForEveryKindOfEdgeFromUnitToUnit) {
  for (std::size_t kind = 0; kind < kEdgeKinds.size(); ++kind)
    EXPECT_EQ(with_edge(EdgeKind(kind), [](auto) {}), kEdgeKinds[kind].by_unit)
        << kEdgeKinds[kind].name;
}

TEST(StepProgram, OfOneRankExchangesNothing) {
  for (const Recipe& recipe : all_recipes()) {
    const Compiled step(recipe, 1, 1);
    EXPECT_TRUE(traffic_of(step.program, step.facts).empty()) << recipe.name;
    EXPECT_EQ(count<BeginReduce>(step.program) + count<BeginMaxima>(step.program), 0)
        << recipe.name;
    EXPECT_EQ(count<LateUpdates>(step.program), 0) << recipe.name;
  }
}

TEST(StepProgram, UpdatesEveryWeightMatrixOnce) {
  for (const Recipe& recipe : all_recipes())
    for (int ranks : {1, 3}) {
      const Compiled step(recipe, ranks, 1);
      std::multiset<int> updated;  // edges whose own weights they are
      for (const Op& op : step.program) {
        if (const std::vector<EdgeBackward>* edges = edges_of(op))
          for (const EdgeBackward& edge : *edges)
            if (edge.update == EdgeBackward::Update::at_once ||
                edge.update == EdgeBackward::Update::may_wait)
              updated.insert(edge.edge);
        if (const auto* shared = std::get_if<UpdateShared>(&op)) updated.insert(shared->edge);
        if (const auto* owners = std::get_if<UpdateByOwners>(&op))
          for (int edge : step.facts.matrices(owners->layer))
            if (!step.facts.is_shared(edge)) updated.insert(edge);
        if (const auto* factors = std::get_if<FactoredUpdate>(&op))
          updated.insert(step.facts.matrices(factors->layer)[0]);
        const auto* rows = std::get_if<UpdateRows>(&op);
        const auto* sums = std::get_if<SendBySource>(&op);
        if (rows || sums)
          for (int edge : step.facts.matrices(rows ? rows->layer : sums->layer))
            if (!step.facts.is_shared(edge) &&
                (rows ? step.facts.is_sparse_source(edge) : step.facts.by_source(edge)))
              updated.insert(edge);
      }
      std::multiset<int> owned;
      for (int edge = 0; edge < step.facts.edges(); ++edge)
        if (step.facts.has_weights(edge) && step.facts.edge_takes_part(edge) &&
            step.facts.owner(edge) == edge)
          owned.insert(edge);
      EXPECT_EQ(updated, owned) << recipe.name << ", " << ranks << " ranks";
    }
}

TEST(StepProgram, UpdatesWaitForExchangesThatAreToCome) {
  int waited = 0;
  for (const Recipe& recipe : all_recipes()) {
    const Compiled step(recipe, 3, 1, true);
    int waits = 0;
    for (std::size_t i = 0; i < step.program.size(); ++i) {
      const Op& op = step.program[i];
      waits += waiting(op);
      waited += waiting(op);
      if (std::holds_alternative<LateUpdates>(op)) waits = 0;
      if (!std::holds_alternative<BeginReduce>(op)) continue;
      ASSERT_LT(i + 2, step.program.size());
      EXPECT_TRUE(std::holds_alternative<LateUpdates>(step.program[i + 1])) << recipe.name;
      EXPECT_TRUE(std::holds_alternative<FinishReduce>(step.program[i + 2])) << recipe.name;
    }
    EXPECT_EQ(waits, 0) << recipe.name << ": updates are left over";
  }
  EXPECT_GT(waited, 0);
}

// Lanes would write over deltas that wait, and so would another output layer's blocks.
TEST(StepProgram, NoUpdateWaitsWhereItsDeltaIsWrittenOver) {
  for (const Recipe& recipe : all_recipes()) {
    const Compiled lanes(recipe, 3, 2);
    for (const Op& op : lanes.program) EXPECT_EQ(waiting(op), 0) << recipe.name;
    int waits = 0;
    for (const Op& op : Compiled(recipe, 3, 1).program) {
      if (std::holds_alternative<LateUpdates>(op)) waits = 0;
      if (std::holds_alternative<OutputBlocks>(op)) {
        EXPECT_EQ(waits, 0) << recipe.name;
        waits += waiting(op);
      }
    }
  }
}

// The beginning and the end have no work worth counting, and costs meet in main memory.
TEST(StepProgram, HasTheSameStagesWhereItIsRunAndPlanned) {
  for (const Recipe& recipe : all_recipes())
    for (int ranks : {1, 3}) {
      const Compiled step(recipe, ranks, 2);
      std::set<std::string> planned{"batch", "other", "end"};
      for (const Work& work : work_of(step.program, step.facts)) planned.insert(work.stage);
      for (const CollectivePlan& collective : traffic_of(step.program, step.facts))
        planned.insert(collective.stage);
      planned.erase("end of the step");
      const Stages run = stages_of_a_run(recipe, ranks);
      EXPECT_EQ(std::set<std::string>(run.begin(), run.end()), planned)
          << recipe.name << ", " << ranks << " ranks";
    }
}

// After what came between: other updates, and the sum over ranks.
TEST(StepProgram, StagesAreEnteredAgain) {
  int again = 0;
  for (const Recipe& recipe : all_recipes()) {
    const Compiled step(recipe, 3, 2);
    std::size_t clipped = 0;
    for (const Op& op : step.program)
      if (const auto* hidden = std::get_if<HiddenDelta>(&op))
        clipped += step.facts.layer(hidden->layer).delta_norm > 0.0f;
    const Stages run = stages_of_a_run(recipe, 3);
    EXPECT_EQ(run.count("reduce deltas"),
              std::size_t(count<BeginReduce>(step.program) + count<FinishReduce>(step.program)))
        << recipe.name;
    if (clipped == 0) continue;
    EXPECT_EQ(run.count("hidden delta"), std::size_t(count<HiddenDelta>(step.program)) + clipped)
        << recipe.name;
    ++again;
  }
  EXPECT_GT(again, 0);
}

TEST(StepProgram, EveryStageOfWorkHasANumberThatCounts) {
  for (const Recipe& recipe : all_recipes())
    for (bool on_gpu : {false, true}) {
      const Compiled step(recipe, 3, 1, on_gpu);
      for (const Work& work : work_of(step.program, step.facts)) {
        EXPECT_GE(work.flops, 0.0) << recipe.name << ": " << work.stage;
        EXPECT_GE(work.bytes, 0.0) << recipe.name << ": " << work.stage;
        EXPECT_GT(work.calls, 0.0) << recipe.name << ": " << work.stage;
        EXPECT_LE(work.late, 1.0) << recipe.name << ": " << work.stage;
      }
    }
}

// Weights that several edges have, or that stand with their sources, are updated when all is known.
TEST(StepProgram, OnlyUpdatesThatNothingWaitsForAreLate) {
  int late = 0, at_once = 0;
  for (const Recipe& recipe : all_recipes())
    for (bool on_gpu : {false, true}) {
      const Compiled step(recipe, 3, 1, on_gpu);
      for (const Work& work : work_of(step.program, step.facts)) {
        if (work.kind != Work::Kind::update) continue;
        const bool waits = step.facts.by_source(work.edge) || step.facts.is_shared(work.edge);
        EXPECT_EQ(work.late == 0.0, waits) << recipe.name << ": " << work.stage;
        ++(waits ? at_once : late);
      }
    }
  EXPECT_GT(late, 0);
  EXPECT_GT(at_once, 0);
}

// What is sent in columns is copied before and after; partial sums are added up instead.
TEST(StepProgram, CollectivesPackAllThatTheyMoveTwice) {
  int packed = 0;
  for (const Recipe& recipe : all_recipes()) {
    const Compiled step(recipe, 3, 1, true);
    for (const CollectivePlan& collective : traffic_of(step.program, step.facts)) {
      if (collective.packings == 0.0 || collective.kind == CollectivePlan::Kind::exchange) continue;
      EXPECT_DOUBLE_EQ(collective.packed, 2.0 * collective.bytes)
          << recipe.name << ": " << collective.stage;
      ++packed;
    }
  }
  EXPECT_GT(packed, 0);
}

// Ranks of a CPU pass on rows as they are; those of a GPU fill up the small shares.
TEST(StepProgram, RowsOfUnevenSharesAreFilledUpOnAGpuAlone) {
  int uneven = 0;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.layers_by_example().empty()) continue;
    for (bool on_gpu : {false, true}) {
      const Compiled step(recipe, 3, 1, on_gpu);
      Index most = 0;
      for (const Range& share : step.facts.example_shares(step.facts.batch()))
        most = std::max(most, share.count());
      const double filled = 3.0 * double(most) / double(step.facts.batch());
      for (const CollectivePlan& collective : traffic_of(step.program, step.facts)) {
        if (collective.kind != CollectivePlan::Kind::all_gather || collective.packings > 0.0)
          continue;
        if (!collective.stage.starts_with("gather rows")) continue;
        EXPECT_EQ(collective.passed_on, !on_gpu && filled > 1.0) << recipe.name;
        EXPECT_DOUBLE_EQ(collective.sent, collective.bytes * (on_gpu ? filled : 1.0))
            << recipe.name;
        uneven += filled > 1.0;
      }
    }
  }
  EXPECT_GT(uneven, 0);
}

// Products read rows by example as they are.
TEST(StepProgram, LayersByExampleHaveBf16CopiesForLayersByUnitAlone) {
  int by_example = 0, by_unit = 0;
  for (const Recipe& recipe : all_recipes()) {
    const Compiled step(recipe, 3, 1, true);
    StepSettings settings = Compiled::settings(recipe, step.graph, 3, 1, true);
    settings.device.precision = Precision::bf16;
    const StepFacts facts(step.graph, settings);
    const StepTensors tensors(facts);
    for (int layer = 0; layer < int(step.graph.network.layers.size()); ++layer) {
      if (step.graph.network.layers[std::size_t(layer)].kind != LayerKind::hidden) continue;
      const bool has_copy = tensors.units[layer]->bf16_activations.tensor().bytes() > 0;
      const bool by_units = !facts.by_example(layer) || facts.gathers_rows(layer);
      EXPECT_EQ(has_copy, by_units) << recipe.name << ", layer " << layer;
      ++(facts.by_example(layer) ? by_example : by_unit);
    }
  }
  EXPECT_GT(by_example, 0);
  EXPECT_GT(by_unit, 0);
}

// By the passes over a layer that its options add.
TEST(StepProgram, OptionsOfALayerAddTheBytesOfTheirPasses) {
  std::mt19937 random(std::random_device{}());
  const Index units = 1 + Index(random() % 300), outputs = 1 + Index(random() % 3000);
  const Index batch = 1 + Index(random() % 100);
  const auto work_with = [&](bool normalizes, float delta_norm, std::string stage, Work& total) {
    NetworkDescriptor network;
    network.layers = {norn::test::input_layer("In", 9),
                      norn::test::hidden_layer("Hidden", units, {"In"}),
                      norn::test::output_layer("Out", outputs, {"Hidden"})};
    network.layers[1].batch_normalization = normalizes;
    network.layers[2].delta_norm = delta_norm;
    const Graph graph = make_graph(
        network, {{"In", 1, {9, 1, 1}, false}, {"Out", 1, {outputs, 1, 1}, false}}, "test");
    StepSettings settings;
    settings.batch = batch;
    settings.sparse_input = {false, false, false};
    settings.entries = {4.0, 4.0, 4.0};
    const StepFacts facts(graph, settings);
    total = {};
    total.calls = 0.0;
    for (const Work& work : work_of(compile_training(facts), facts))
      if (work.stage == stage && work.kind == Work::Kind::pass) {
        total.bytes += work.bytes;
        total.calls += work.calls;
      }
    return facts.own_blocks(2).count();
  };
  Work plain, normalized, norms;
  work_with(false, 0.0f, "hidden delta", plain);
  work_with(true, 0.0f, "hidden delta", normalized);
  EXPECT_DOUBLE_EQ(normalized.bytes - plain.bytes, 6.0 * 4.0 * double(batch * units));
  const Index blocks = work_with(false, 1.0f, "norms of deltas", norms);
  EXPECT_DOUBLE_EQ(norms.bytes, 3.0 * 4.0 * double(batch * outputs));
  EXPECT_DOUBLE_EQ(norms.calls, 2.0 * double(blocks));
}

}  // namespace
}  // namespace norn::step::test
