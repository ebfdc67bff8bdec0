// SPDX-License-Identifier: Apache-2.0
// Ops use the arrays that they say, and no array is needed outside the time that they give it.
#include "src/step/program.h"
#include "tests/step/step_settings.h"
#include "tests/support/recipes.h"
#include "tests/support/thread_group.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace norn::step::test {
namespace {

using norn::test::all_recipes;
using norn::test::hidden_layer;
using norn::test::input_layer;
using norn::test::output_layer;
using norn::test::Recipe;

constexpr std::int64_t kSteps = 3;
constexpr std::size_t kPage = 4096;

std::size_t pages_of(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// Every array begins on a page of its own.
class PagedMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    void* data =
        mmap(nullptr, pages_of(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    return data;
  }
  void release(void* data, std::size_t bytes) noexcept override { munmap(data, pages_of(bytes)); }
  void fill_zero(void* data, std::size_t bytes) override { std::memset(data, 0, bytes); }
};

struct GuardedArray {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  const Tensor* tensor = nullptr;
  std::string name;
  std::string op;  // that runs

  void protect(int how) const { mprotect(data, pages_of(bytes), how); }
};

std::mutex guarded_lock;
std::vector<const GuardedArray*> guarded;

void tell_who_was_touched(int, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  for (const GuardedArray* array : guarded)
    if (at >= array->data && at < array->data + pages_of(array->bytes))
      std::fprintf(stderr, "op \"%s\" does not say what it does with \"%s\"\n", array->op.c_str(),
                   array->name.c_str());
  _exit(1);
}

// A network of one rank at work, without a Network around it.
class RankAtWork {
 public:
  RankAtWork(const Recipe& recipe, const StepFacts& facts, const Context& context)
      : facts_(facts), state_(facts, context), data_(recipe) {
    for (int edge = 0; edge < facts.edges(); ++edge) {
      if (!state_.weights[edge]) continue;
      const MatrixView<float> values = state_.weights[edge]->floats();
      std::mt19937 random(unsigned(17 + edge));
      for (Index i = 0; i < values.size(); ++i)
        values.data[i] = std::uniform_real_distribution<float>(-0.1f, 0.1f)(random);
    }
  }

  void load(std::int64_t step, Pass pass, const BlockVisitor* visit = nullptr) {
    batch_ = data_.batch(step);
    state_.now = {&batch_, batch_.examples, pass, data_.position(step), visit};
    state_.load(true);
    if (pass == Pass::training) state_.turn = 1 - state_.turn;
  }
  State& state() { return state_; }

  std::vector<std::byte> left_behind() {
    std::vector<std::byte> all;
    state_.for_each(facts_, [&](const std::string&, auto& array) {
      const auto bytes = std::size_t(array.tensor().bytes());
      if (array.tensor().purpose != Purpose::working && bytes > 0)
        all.insert(all.end(), array.address(), array.address() + bytes);
    });
    return all;
  }

 private:
  const StepFacts& facts_;
  State state_;
  norn::test::RecipeData data_;
  BoundBatch batch_;
};

// Runs programs with all arrays out of reach but those that an op names.
class Guard {
 public:
  Guard(State& state, const StepFacts& facts) : state_(state), facts_(facts) {
    state.for_each(facts, [&](const std::string& owner, auto& array) {
      if (array.address() == nullptr) return;
      arrays_.push_back({array.address(),
                         std::size_t(array.tensor().bytes()),
                         &array.tensor(),
                         owner + " " + array.tensor().use,
                         {}});
    });
    const std::lock_guard lock(guarded_lock);
    for (const GuardedArray& array : arrays_) guarded.push_back(&array);
  }

  // `spoils`: what is not needed is overwritten.
  void run(const Program& program, bool spoils) {
    const std::vector<TensorUses> uses = uses_of(program, facts_, state_);
    for (std::size_t i = 0; i < program.size(); ++i) {
      for (GuardedArray& array : arrays_) {
        const auto has = [&](const std::vector<const Tensor*>& list) {
          return std::find(list.begin(), list.end(), array.tensor) != list.end();
        };
        const Lifetime lifetime = lifetime_of(*array.tensor, uses);
        const bool is_needed = int(i) >= lifetime.first && int(i) <= lifetime.last;
        if (spoils && !is_needed && array.tensor->purpose == Purpose::working)
          std::memset(array.data, 0xff, array.bytes);
        array.op = name_of(program[i]) + (" " + place_of(program[i], facts_));
        array.protect(has(uses[i].written) ? PROT_READ | PROT_WRITE
                      : has(uses[i].read)  ? PROT_READ
                                           : PROT_NONE);
      }
      step::run({program[i]}, state_);
      for (const GuardedArray& array : arrays_) array.protect(PROT_READ | PROT_WRITE);
    }
  }

 private:
  State& state_;
  const StepFacts& facts_;
  std::vector<GuardedArray> arrays_;
};

StepSettings settings_of(const Recipe& recipe, const Graph& graph, int rank, int ranks, int lanes) {
  StepSettings settings = training_settings(recipe, graph);
  settings.rank = rank;
  settings.ranks = ranks;
  settings.lanes = lanes;
  return settings;
}

// Of one rank.
void run_guarded(const Recipe& recipe, Communicator& communicator, int lanes) {
  const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
  const StepFacts facts(
      graph, settings_of(recipe, graph, communicator.rank(), communicator.size(), lanes));
  Executor executor(lanes);
  Kernels kernels = make_cpu_kernels(executor);
  kernels.block_rule = recipe.blocks;
  const std::shared_ptr<Collectives> collectives = make_host_collectives(communicator);
  PagedMemory paged;
  RankAtWork plain(recipe, facts,
                   {{executor, kernels, host_memory()}, communicator, collectives, Log()});
  RankAtWork watched(recipe, facts, {{executor, kernels, paged}, communicator, collectives, Log()});
  Guard guard(watched.state(), facts);
  const Program training = compile_training(facts);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    plain.load(step, Pass::training);
    run(training, plain.state());
    watched.load(step, Pass::training);
    guard.run(training, true);
  }
  if (plain.left_behind() != watched.left_behind()) {
    std::fprintf(stderr, "an array is needed at an op that does not say so\n");
    _exit(1);
  }
  const BlockVisitor look = [](Range, MatrixView<const float>, int) {};
  watched.load(0, Pass::prediction, &look);
  guard.run(compile_cost(facts, -1), false);
  for (int layer : facts.order())
    if (facts.is_output(layer)) guard.run(compile_outputs(facts, layer), false);
}

void expect_true_uses(const Recipe& recipe, int ranks, int lanes) {
  const auto body = [&] {
    struct sigaction action {};
    action.sa_sigaction = tell_who_was_touched;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    run_thread_group(ranks,
                     [&](Communicator& communicator) { run_guarded(recipe, communicator, lanes); });
    _exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "") << recipe.name << ", " << ranks << " ranks";
}

TEST(TensorUses, AreTrueOfAllRecipes) {
  for (const Recipe& recipe : all_recipes()) {
    expect_true_uses(recipe, 1, 1);
    expect_true_uses(recipe, 1, 3);
    expect_true_uses(recipe, 3, 1);
  }
}

// Layers of random widths, activations, caps, skips and sources.
Recipe random_recipe(std::mt19937& random) {
  const auto below = [&](int limit) { return int(random() % unsigned(limit)); };
  Recipe recipe = norn::test::recipe_base("random", Adam{}, 0.001f);
  if (below(2) == 0) recipe.blocks.gathered_elements = 1;
  const std::vector<LayerActivation> kinds{Activation(Tanh{}),    Activation(Relu{}),
                                           Activation(Selu{}),    Activation(Gelu{}),
                                           Activation(Sigmoid{}), SoftMax{}};
  std::vector<LayerDescriptor>& layers = recipe.network.layers;
  layers.push_back(input_layer("In", 100 + below(300)));
  const int hidden = 1 + below(4);
  for (int h = 0; h < hidden; ++h) {
    const std::string source = layers.back().name;
    std::vector<std::string> sources{source};
    if (h > 0 && below(3) == 0) sources.emplace_back("In");
    if (h > 1 && below(2) == 0) sources.push_back(layers[layers.size() - 2].name);
    layers.push_back(hidden_layer(fmt::format("Hidden{}", h),
                                  below(3) == 0 ? 300 + below(200) : 10 + below(70), sources,
                                  kinds[std::size_t(below(6))]));
    LayerDescriptor& layer = layers.back();
    layer.batch_normalization = below(4) == 0;
    const bool is_softmax = std::holds_alternative<SoftMax>(layer.activation);
    if (!is_softmax && below(3) == 0) layer.dropout = 0.2f;
    if (below(4) == 0) layer.delta_norm = 0.05f;
    if (below(4) == 0) layer.weight_norm = 0.7f;
    if (h > 1 && !is_softmax && below(2) == 0) {
      layer.extent = layers[layers.size() - 3].extent;
      layer.skips = {layers[layers.size() - 3].name};
    }
  }
  const int outputs = 1 + below(2);
  const std::string last = layers.back().name;
  for (int o = 0; o < outputs; ++o) {
    layers.push_back(output_layer(fmt::format("Out{}", o), 50 + below(500), {last},
                                  below(2) == 0 ? kinds[5] : kinds[4]));
    if (below(4) == 0) layers.back().delta_norm = 0.3f;
    if (below(3) == 0) layers.back().sources.emplace_back("In");
  }
  return recipe;
}

TEST(TensorUses, AreTrueOfRandomNetworks) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 8; ++i) {
    const Recipe recipe = random_recipe(random);
    expect_true_uses(recipe, 1, 1 + int(random() % 3));
    expect_true_uses(recipe, 2 + int(random() % 2), 1);
  }
}

// On devices, too, which are not here: nothing is read that was not written, but for what a step
// adds to.
TEST(TensorUses, LiveFromAWriteToARead) {
  const std::set<std::string> carried{"sums of deltas",
                                      "sums over sources",
                                      "deltas of all units",
                                      "costs and flags of a step",
                                      "maxima of deltas",
                                      "flags of predictions",
                                      "gradient of shared weights"};
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  std::vector<Recipe> recipes = all_recipes();
  for (int i = 0; i < 20; ++i) recipes.push_back(random_recipe(random));
  int shorter = 0;
  for (const Recipe& recipe : recipes)
    for (int ranks : {1, 3})
      for (int device = 0; device < 4; ++device) {
        const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
        StepSettings settings = settings_of(recipe, graph, 0, ranks, 1);
        settings.device.is_host = device == 0;
        settings.device.fuses = settings.exchanges = device > 0;
        if (device > 0) settings.device.precision = device == 2 ? Precision::tf32 : Precision::bf16;
        settings.device.computes_in_bf16 = device == 3;
        const StepFacts facts(graph, settings);
        StepTensors tensors(facts);
        const Program program = compile_training(facts);
        const std::vector<TensorUses> uses = uses_of(program, facts, tensors);
        tensors.for_each(facts, [&](const std::string& owner, auto& array) {
          const Tensor& tensor = array.tensor();
          const Lifetime life = lifetime_of(tensor, uses);
          if (tensor.purpose != Purpose::working || tensor.empty() || life.first < 0) return;
          const bool always = life.first == 0 && life.last + 1 == int(program.size());
          shorter += !always;
          EXPECT_TRUE(!always || carried.contains(tensor.use))
              << recipe.name << ": " << owner << " " << tensor.use;
        });
      }
  EXPECT_GT(shorter, 1000);
}

}  // namespace
}  // namespace norn::step::test
