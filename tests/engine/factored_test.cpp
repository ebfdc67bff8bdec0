// SPDX-License-Identifier: Apache-2.0
// Factored output layers: steps of a dense layer in float64, and the bits of any number of ranks
// and threads, stopped and resumed anywhere.
#include "norn/base/error.h"
#include "src/engine/model/model_file.h"
#include "src/engine/model/model_parts.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cmath>
#include <mutex>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows zeros(Index rows, Index cols) {
  return Rows(std::size_t(rows), std::vector<double>(std::size_t(cols), 0.0));
}

// a^-1 b of a symmetric positive matrix, by elimination.
Rows solved(Rows a, Rows b) {
  const std::size_t n = a.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      for (std::size_t c = 0; c < b[r].size(); ++c) b[r][c] -= factor * b[i][c];
    }
  for (std::size_t i = 0; i < n; ++i)
    for (double& x : b[i]) x /= a[i][i];
  return b;
}

// A batch of stored targets and of what a layer reads.
struct Step {
  std::shared_ptr<HostBatch> x, targets;
};

/// A layer whose weights and biases are updated one by one, in float64.
class DenseLayer {
 public:
  DenseLayer(const NetworkDescriptor& network, Rows w)
      : network_(network), settings_(network.layers.back().factored), w_(std::move(w)) {}

  // Returns the cost.
  double learn(const Step& step, bool ignores_absent) {
    const Index examples = step.x->examples, width = Index(w_[0].size());
    const CsrView targets = step.targets->csr();
    ignores_ = ignores_absent;
    Rows h = zeros(examples, width), gradient = zeros(Index(w_.size()), width);
    double cost = 0.0;
    size_ = 0.0;
    for (Index e = 0; e < examples; ++e) {
      auto& row = h[std::size_t(e)];
      for (Index j = 0; j + 1 < width; ++j) row[std::size_t(j)] = double(step.x->matrix()(e, j));
      row.back() = 1.0;
      const double weight =
          step.targets->weight.empty() ? 1.0 : double(step.targets->weight[std::size_t(e)]);
      std::vector<double> target(w_.size(), 0.0);
      std::vector<bool> stored(w_.size(), false);
      for (RowOffset i = targets.row_begin[e]; i < targets.row_begin[e + 1]; ++i) {
        target[targets.column[i]] = targets.value ? double(targets.value[i]) : 1.0;
        stored[targets.column[i]] = true;
      }
      for (std::size_t i = 0; i < w_.size(); ++i) {
        if (!stored[i] && ignores_absent) continue;
        double z = 0.0;
        for (std::size_t j = 0; j < row.size(); ++j) z += w_[i][j] * row[j];
        cost += weight * (z - target[i]) * (z - target[i]) / 2.0;
        size_ += weight * (z * z + target[i] * target[i]) / 2.0;
        const double boost = double(stored[i] ? network_.boost_one : network_.boost_zero);
        for (std::size_t j = 0; j < row.size(); ++j)
          gradient[i][j] += weight * boost * (z - target[i]) * row[j] / double(examples);
      }
      for (double& y : row) y *= std::sqrt(weight);
    }
    change(h, gradient);
    return cost;
  }
  const Rows& weights() const { return w_; }
  // Of the last cost: its terms where z and t do not cancel.
  double size() const { return size_; }

 private:
  void change(const Rows& h, Rows& gradient) {
    part_ = 1.0;
    if (settings_.rule == FactoredRule::newton) {
      part_ = double(h.size()) / double(network_.training.batch);
      learn_covariance(h);
      const Rows curvature = with_batch(h);
      Rows transposed = zeros(Index(w_[0].size()), Index(w_.size()));
      for (std::size_t i = 0; i < w_.size(); ++i)
        for (std::size_t j = 0; j < w_[i].size(); ++j) transposed[j][i] = gradient[i][j];
      transposed = solved(curvature, transposed);
      for (std::size_t i = 0; i < w_.size(); ++i)
        for (std::size_t j = 0; j < w_[i].size(); ++j) gradient[i][j] = transposed[j][i];
    }
    for (std::size_t i = 0; i < w_.size(); ++i)
      for (std::size_t j = 0; j < w_[i].size(); ++j)
        w_[i][j] -= double(*settings_.rate) * part_ * gradient[i][j];
    ++steps_;
  }

  // The damped covariance, and that of the batch as often as its step would count it for the unit
  // that the loss bends most.
  Rows with_batch(const Rows& h) const {
    Rows curvature = damped_;
    const double most =
        std::max(double(network_.boost_one), ignores_ ? 0.0 : 2.0 * double(network_.boost_zero));
    const double share = double(*settings_.rate) * part_ * most / double(h.size());
    for (std::size_t i = 0; i < curvature.size(); ++i)
      for (std::size_t j = 0; j < curvature.size(); ++j)
        for (const auto& row : h) curvature[i][j] += share * row[i] * row[j];
    return curvature;
  }

  void learn_covariance(const Rows& h) {
    const std::size_t width = h[0].size();
    if (mean_.empty()) mean_ = zeros(Index(width), Index(width));
    const double share = part_ / std::min(double(steps_) + 1.0, 100.0);
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t j = 0; j < width; ++j) {
        double sum = 0.0;
        for (const auto& row : h) sum += row[i] * row[j];
        mean_[i][j] += share * (sum / double(h.size()) - mean_[i][j]);
      }
    const auto batch = std::uint64_t(network_.training.batch);
    if (steps_ % ((4 * batch >= 3 * width ? 1 : (width + batch - 1) / batch)) != 0) return;
    double trace = 0.0;
    for (std::size_t i = 0; i < width; ++i) trace += mean_[i][i];
    damped_ = mean_;
    const double warm = 1.0 + 200.0 / (double(steps_) + 1.0);
    for (std::size_t i = 0; i < width; ++i)
      damped_[i][i] += double(settings_.damping) * warm * trace / double(width);
  }

  const NetworkDescriptor& network_;
  const FactoredOutput& settings_;
  Rows w_, mean_, damped_;
  std::uint64_t steps_ = 0;
  double size_ = 0.0;
  double part_ = 1.0;  // of a full batch
  bool ignores_ = false;
};

class FactoredLayer : public testing::Test {
 protected:
  Index below(Index count) { return Index(random_() % std::uint64_t(count)); }
  float uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  float magnitude(double low, double high) {
    return float(std::pow(10.0, std::uniform_real_distribution<double>(low, high)(random_)));
  }

  NetworkDescriptor draw_network() {
    NetworkDescriptor network;
    network.loss = SquaredError{};
    network.training.lambda = 0.0f;
    network.training.batch = 1 + below(90);
    network.layers = {input_layer("In", 1 + below(70)),
                      output_layer("Out", 1 + below(700), {"In"}, Activation(Linear{}))};
    network.boost_one = magnitude(-2.0, 2.0);
    network.boost_zero = magnitude(-2.0, 2.0);
    FactoredOutput& factored = network.layers[1].factored;
    factored.rule = below(2) == 0 ? FactoredRule::newton : FactoredRule::sgd;
    factored.fold_every = 1 + int(below(40));
    factored.damping = magnitude(-1.0, 1.0);
    // SGD: of a unit in every row. Newton holds at any rate; at larger ones than these every batch
    // is all but learnt by heart, and what it changes is rounded by as much.
    const float longest = std::max(4.0f * network.boost_one, network.boost_zero);
    const float width = float(network.layers[0].units() + 1);
    factored.rate =
        (factored.rule == FactoredRule::sgd ? 0.1f / width : magnitude(-2.0, 0.7)) / longest;
    network.training.rate = *factored.rate;
    return network;
  }

  // Examples twice, some without a target, one unit in every other row.
  Step draw_step(const NetworkDescriptor& network, bool valued, bool weighted, bool last) {
    const Index most = network.training.batch;
    const Index examples = last ? (most + 1) / 2 + below(most / 2 + 1) : most;
    const Index width = network.layers[0].units(), units = network.layers[1].units();
    Step step{
        std::make_shared<HostBatch>(random_batch({.sparse = false}, examples, width, random_())),
        std::make_shared<HostBatch>()};
    HostBatch& targets = *step.targets;
    targets.examples = examples;
    targets.width = units;
    targets.example = step.x->example;
    std::vector<RowOffset> begin = {0};
    std::vector<Column> column;
    for (Index e = 0; e < examples; ++e) {
      std::set<Column> row;
      if (below(5) > 0) {
        row.insert(Column(units / 2));
        for (Index i = below(15); i > 0; --i) row.insert(Column(below(units)));
      }
      if (e > 0 && below(7) == 0) {
        row = {column.begin() + std::ptrdiff_t(begin[std::size_t(e) - 1]), column.end()};
        std::copy_n(step.x->matrix().row(e - 1), width, step.x->dense.view().row(e));
      }
      column.insert(column.end(), row.begin(), row.end());
      begin.push_back(RowOffset(column.size()));
      if (weighted) targets.weight.push_back(below(9) == 0 ? 0.0f : uniform(0.2f, 1.0f));
    }
    CsrBuffer& csr = targets.sparse = csr_of(begin, column, units);
    csr.has_values = valued;
    std::vector<float> value(column.size());
    for (float& v : value) v = uniform(-2.0f, 2.0f);
    if (valued) {
      csr.value = Buffer<float>(Index(value.size()));
      csr.value.write(value.data(), Index(value.size()));
    }
    return step;
  }

  const unsigned seed_ = fresh_seed();
  std::mt19937_64 random_{seed_};
  testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("seed {}", seed_)};
};

// The weights and biases of the only edge, [units x sources + 1].
Rows weights_of(Network& network) {
  const Index units = network.unit_layer(1)->partition().width();
  const Index width = network.unit_layer(1)->connections[0].sources() + 1;
  Rows w = zeros(units, width);
  gather_rows(network, 0, 0, [&](Index first, MatrixView<const float> rows) {
    for (Index r = 0; r < rows.rows; ++r)
      for (Index c = 0; c < rows.cols; ++c)
        w[std::size_t(c)][std::size_t(first + r)] = double(rows(r, c));
  });
  const std::vector<float> bias = gather_units(network, 1, network.unit_layer(1)->bias.value);
  for (std::size_t i = 0; i < bias.size(); ++i) w[i].back() = double(bias[i]);
  return w;
}

double norm(const Rows& a) {
  double sum = 0.0;
  for (const auto& row : a)
    for (double x : row) sum += x * x;
  return std::sqrt(sum);
}

Rows difference(Rows a, const Rows& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j) a[i][j] -= b[i][j];
  return a;
}

// 200 steps of float32 rows: their roundings are far below this, relative to all weights.
TEST_F(FactoredLayer, LearnsWhatADenseLayerLearnsInFloat64) {
  constexpr double kTolerance = 1e-5;
  double worst_weights = 0.0, worst_cost = 0.0, furthest = 0.0;
  for (int round = 0; round < 12; ++round) {
    const NetworkDescriptor descriptor = draw_network();
    SCOPED_TRACE(fmt::format(
        "{} -> {}, batch {}, boost {} and {}, rule {}, rate {}, fold {}, damping {}",
        descriptor.layers[0].units(), descriptor.layers[1].units(), descriptor.training.batch,
        descriptor.boost_one, descriptor.boost_zero, int(descriptor.layers[1].factored.rule),
        *descriptor.layers[1].factored.rate, *descriptor.layers[1].factored.fold_every,
        descriptor.layers[1].factored.damping));
    const bool valued = below(2) == 1, weighted = below(2) == 1, ignores = below(4) == 0;
    Problem problem;
    problem.network = descriptor;
    problem.planned_batch = descriptor.training.batch;
    problem.set_data("In", {.sparse = false}, descriptor.training.batch, 1);
    problem.set_data("Out", {.valued = valued}, descriptor.training.batch, 1);
    problem.ignore_absent[1] = ignores;
    Engine engine(problem, Pass::training);
    Network& network = engine.network();
    network.initialise(seed_ + unsigned(round));
    const Rows initial = weights_of(network);
    DenseLayer reference(descriptor, initial);
    for (std::int64_t step = 0; step < 200; ++step) {
      const Step drawn = draw_step(descriptor, valued, weighted, step % 7 == 6);
      problem.data = {drawn.x, drawn.targets};
      const double cost = network.train_step(problem.bound(), {step, 0, 1}).value();
      const double expected = reference.learn(drawn, ignores);
      // A cost is a difference of sums over all units and over stored targets.
      const double error =
          std::abs(cost - expected) / (std::max(expected, 0.1 * reference.size()) + 1e-9);
      worst_cost = std::max(worst_cost, error);
      ASSERT_LE(error, kTolerance) << "step " << step;
    }
    const Rows found = weights_of(network);
    // Weights that targets leave alone shrink; what they were rounded to when they were large
    // stays.
    const double size = std::max(norm(reference.weights()), 0.01 * norm(initial));
    const double error = norm(difference(found, reference.weights())) / size;
    worst_weights = std::max(worst_weights, error);
    EXPECT_LE(error, kTolerance);
    // Where absent targets are ignored, a rate that was drawn for them hardly moves anything.
    furthest = std::max(furthest, norm(difference(found, initial)) / norm(initial));
  }
  EXPECT_GT(furthest, 1e-3);
  std::printf("largest relative error of weights %.2g, of costs %.2g\n", worst_weights, worst_cost);
}

TEST(Factored, TrainsTheNetworkThatADenseLayerTrains) {
  Recipe factored = factored_recipe(FactoredRule::sgd, Sgd{});
  factored.network.layers[2].factored.rate.reset();
  Recipe dense = factored;
  dense.network.layers[2].factored = {};
  const Outcome a = run(factored, 40, 1, 2), b = run(dense, 40, 1, 2);
  for (std::size_t i = 0; i < a.costs.size(); ++i)
    EXPECT_NEAR(a.costs[i], b.costs[i], 2e-5 * tolerance_factor() * std::abs(b.costs[i])) << i;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.output.size(); ++i)
    largest = std::max(largest, double(std::abs(a.output[i] - b.output[i])));
  EXPECT_LE(largest, 1e-4 * tolerance_factor());
}

TEST(Factored, NoBitDependsOnThreadsOrRanks) {
  for (FactoredRule rule : {FactoredRule::newton, FactoredRule::sgd})
    for (Index batch : {37, 80}) {  // narrow and wide for 50 hidden units
      Recipe recipe = factored_recipe(rule, Adam{});
      recipe.network.training.batch = batch;
      const Outcome one = run(recipe, 60, 1, 1);
      for (int threads : {2, 7}) EXPECT_TRUE(same_bits(run(recipe, 60, 1, threads), one));
      for (int ranks : {2, 3, 4}) EXPECT_TRUE(same_bits(run(recipe, 60, ranks, 1), one));
    }
}

// One network at work on some ranks, from the start or from a file.
struct Life {
  std::vector<float> state;
  std::vector<double> costs;
  std::vector<float> outputs;  ///< of the first batch; with one rank
};

Life live(const Recipe& recipe, int ranks, std::int64_t from, std::int64_t to,
          const std::filesystem::path& file) {
  Life life;
  std::mutex mutex;
  const auto body = [&](Communicator& communicator) {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(2);
    const std::unique_ptr<Network> network = network_of(recipe, runtime->context(communicator));
    if (from > 0) load_weights(file, read_model_info(TensorFileReader(file)), *network);
    RecipeData data(recipe);
    std::vector<double> costs;
    for (std::int64_t step = from; step < to; ++step)
      costs.push_back(network->train_step(data.batch(step), data.position(step)).value());
    network->catch_up(to);
    TrainingState state;
    state.step = to;
    save_model(file, *network, state);
    std::vector<float> all = gather_state(*network);
    const std::lock_guard lock(mutex);
    if (communicator.rank() != 0) return;
    life = {std::move(all), std::move(costs), {}};
    if (ranks > 1) return;
    const BoundBatch batch = data.batch(0);
    const MatrixView<const float> y = network->outputs(batch, 2);
    for (Index e = 0; e < y.rows; ++e)
      life.outputs.insert(life.outputs.end(), y.row(e), y.row(e) + y.cols);
  };
  if (ranks == 1)
    body(*make_single_process());
  else
    run_thread_group(ranks, body);
  return life;
}

TEST(Factored, ResumesAtAnyStepOnAnyNumberOfRanks) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Recipe recipe = factored_recipe(FactoredRule::newton, Adam{});
  recipe.network.training.batch = random() % 2 == 0 ? 37 : 80;
  const TempDir folder;
  const Life whole = live(recipe, 1, 0, 70, folder / "whole.nc");
  for (int round = 0; round < 4; ++round) {
    const std::int64_t stop = 1 + std::int64_t(random() % 69);
    const std::filesystem::path file = folder / fmt::format("{}.nc", round);
    const int before = 1 + int(random() % 4), after = 1 + int(random() % 4);
    SCOPED_TRACE(fmt::format("{} ranks to step {}, then {}", before, stop, after));
    Life parts = live(recipe, before, 0, stop, file);
    const Life rest = live(recipe, after, stop, 70, file);
    parts.costs.insert(parts.costs.end(), rest.costs.begin(), rest.costs.end());
    EXPECT_EQ(parts.costs, whole.costs);
    EXPECT_TRUE(rest.state == whole.state);
    EXPECT_TRUE(read_text(file) == read_text(folder / "whole.nc"));
  }
}

// A file between two folds is a model as any other.
TEST(Factored, FilesHoldTheProduct) {
  const Recipe recipe = factored_recipe(FactoredRule::newton, Adam{});
  const TempDir folder;
  const Life trained = live(recipe, 1, 0, 13, folder / "x.nc");
  const std::unique_ptr<Runtime> runtime = make_test_runtime(2);
  const std::unique_ptr<Communicator> alone = make_single_process();
  const Context context = runtime->context(*alone);
  context.compute.kernels.block_rule = recipe.blocks;
  ModelInfo info = read_model_info(TensorFileReader(folder / "x.nc"));
  EXPECT_TRUE(info.network.layers[2].factored.is_on());
  Network network(make_graph(info.network, recipe.shapes(), "x"), recipe.shapes(), context, 37,
                  Pass::prediction);
  load_weights(folder / "x.nc", info, network);
  RecipeData data(recipe);
  const BoundBatch batch = data.batch(0);
  const MatrixView<const float> y = network.outputs(batch, 2);
  for (Index e = 0; e < y.rows; ++e)
    for (Index i = 0; i < y.cols; ++i)
      ASSERT_NEAR(y(e, i), trained.outputs[std::size_t(e * y.cols + i)], 2e-6 * tolerance_factor());
}

// The cost of held-out targets, and with it the outputs, is that of the network that is saved, also
// long after W' W was summed.
TEST(Factored, TellsTheCostOfHeldOutTargets) {
  Recipe recipe = factored_recipe(FactoredRule::newton, Adam{});
  recipe.network.layers[2].factored.fold_every = 40;
  const std::unique_ptr<Runtime> runtime = make_test_runtime(2);
  const std::unique_ptr<Communicator> alone = make_single_process();
  const std::unique_ptr<Network> network = network_of(recipe, runtime->context(*alone));
  RecipeData data(recipe);
  train_steps(*network, data, 399);
  const BoundBatch batch = data.batch(1);
  const MatrixView<const float> y = network->outputs(batch, 2);
  const HostBatch& targets = *batch.of_layer[2];
  double expected = 0.0;
  for (Index e = 0; e < y.rows; ++e) {
    std::vector<double> target(std::size_t(y.cols), 0.0);
    const CsrView x = targets.csr();
    for (RowOffset i = x.row_begin[e]; i < x.row_begin[e + 1]; ++i)
      target[x.column[i]] = double(x.value[i]);
    for (Index i = 0; i < y.cols; ++i)
      expected += std::pow(double(y(e, i)) - target[std::size_t(i)], 2) / 2.0;
  }
  const double cost = network->cost(batch).value();
  EXPECT_NEAR(cost, expected, 1e-5 * expected);
  const FixedSum both =
      network->predict_with_cost(batch, 2, [](Range, MatrixView<const float>, int) {});
  EXPECT_EQ(both.value(), cost);
}

TEST_F(FactoredLayer, RefusesExamplesThatWeighLessThanNothing) {
  const NetworkDescriptor descriptor = draw_network();
  Problem problem;
  problem.network = descriptor;
  problem.planned_batch = descriptor.training.batch;
  const Step step = draw_step(descriptor, false, true, false);
  step.targets->weight.back() = -0.5f;
  step.targets->example.back() = 77;
  problem.set_data("In", {.sparse = false}, descriptor.training.batch, 1);
  problem.set_data("Out", {}, descriptor.training.batch, 1);
  Engine engine(problem, Pass::training);
  problem.data = {step.x, step.targets};
  try {
    engine.network().train_step(problem.bound(), {0, 0, 1});
    FAIL() << "its weight has no root";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(),
                 "layer \"Out\": example 77 weighs -0.5, and Factored needs weights of at least 0; "
                 "change the data set, or remove \"Factored\"");
  }
}

}  // namespace
}  // namespace norn::test
