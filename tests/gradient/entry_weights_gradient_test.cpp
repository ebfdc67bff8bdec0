// SPDX-License-Identifier: Apache-2.0
// Weights of entries: gradients of every loss, and those of rows that are repeated.
#include "tests/gradient/kinds.h"

#include <cmath>
#include <random>

#include <fmt/format.h>

namespace norn::test {
namespace {

// Of problems of any size, and whatever is drawn: costs and gradients may be next to nothing.
constexpr Tolerance kTolerance = {.cost = 1e-5, .gradient = 2e-5, .cancelled = 1e-6};

std::uint64_t drawn_seed() {
  const char* word = std::getenv("NORN_TEST_SEED");
  return word != nullptr ? std::strtoull(word, nullptr, 10) : std::random_device{}();
}

class EntryWeightsGradient : public testing::Test {
 protected:
  Index between(Index low, Index high) {
    return low + Index(random_() % std::uint64_t(high - low + 1));
  }
  Problem one_hidden_layer(const Loss& loss, const LayerActivation& output, Index units) {
    Problem problem;
    problem.network.loss = loss;
    problem.network.layers = {input_layer("In", between(1, 12)),
                              hidden_layer("Hidden", between(1, 9), {"In"}),
                              output_layer("Out", units, {"Hidden"}, output)};
    problem.network.layers[2].entry_weights.scheme = EntryWeightScheme::value;
    return problem;
  }

  const std::uint64_t seed_ = drawn_seed();
  std::mt19937_64 random_{seed_};
  testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("NORN_TEST_SEED={}", seed_)};
};

TEST_F(EntryWeightsGradient, OfEveryLossAgreesWithFloat64) {
  const std::vector<DataKind> kinds = {
      {.valued = true, .low = 0.0f, .high = 3.0f},
      {.valued = true, .weighted = true, .low = 0.0f, .high = 3.0f},
      {.valued = true, .ignore_absent = true, .low = 0.0f, .high = 3.0f}};
  for (const std::string& name : names_of<Loss>())
    for (const LayerActivation& output :
         {LayerActivation(SoftMax{}), LayerActivation(Activation(Sigmoid{})),
          LayerActivation(Activation(Linear{}))})
      for (const DataKind& kind : kinds) {
        const Loss loss = loss_named(name);
        const auto* f = std::get_if<Activation>(&output);
        if (f && std::holds_alternative<Linear>(*f) && is_cross_entropy(loss)) continue;
        SCOPED_TRACE(fmt::format("{}, {}{}{}", name, f ? name_of(*f) : SoftMax::name,
                                 kind.weighted ? ", weighted" : "",
                                 kind.ignore_absent ? ", zeros ignored" : ""));
        Problem problem = one_hidden_layer(loss, output, between(2, 11));
        problem.network.target_weight =
            between(0, 1) == 0 ? TargetWeight::one : TargetWeight::inverse_count;
        const Index examples = between(1, 7);
        problem.set_data("In", {.valued = true}, examples, random_());
        problem.set_data("Out", kind, examples, random_());
        EXPECT_TRUE(engine_agrees(problem, random_() % 1000000, kTolerance));
      }
}

/// Rows of `batch`, row r as often as `times` says, without values.
HostBatch repeated(const HostBatch& batch, const std::vector<Index>& times, bool keeps_values) {
  const CsrView x = batch.csr();
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  std::vector<float> values;
  HostBatch all;
  all.width = batch.width;
  for (std::size_t r = 0; r < times.size(); ++r)
    for (Index n = 0; n < times[r]; ++n) {
      for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i) {
        columns.push_back(x.column[i]);
        if (keeps_values) values.push_back(x.value[i]);
      }
      begin.push_back(RowOffset(columns.size()));
      all.example.push_back(batch.example[r]);
    }
  all.examples = Index(all.example.size());
  all.sparse = csr_of(begin, columns, batch.width);
  all.sparse.has_values = keeps_values;
  if (keeps_values) {
    all.sparse.value = Buffer<float>(Index(values.size()));
    all.sparse.value.write(values.data(), Index(values.size()));
  }
  return all;
}

// Where zeros count for nothing of their own, an example of k in all its entries is k examples.
TEST_F(EntryWeightsGradient, OfWholeNumbersIsThatOfRepeatedRows) {
  for (int draw = 0; draw < 20; ++draw)
    for (const bool softmax : {true, false}) {
      const LayerActivation output =
          softmax ? LayerActivation(SoftMax{}) : LayerActivation(Activation(Sigmoid{}));
      Problem weighed = one_hidden_layer(CrossEntropy{}, output, between(2, 30));
      const Index examples = between(1, 9);
      weighed.planned_batch = 6 * examples;
      weighed.set_data("In", {.valued = true}, examples, random_());
      weighed.set_data("Out", {.valued = true, .ignore_absent = !softmax}, examples, random_());
      std::vector<Index> times;
      HostBatch targets =
          repeated(*weighed.data[2], std::vector<Index>(std::size_t(examples), 1), true);
      for (Index r = 0; r < examples; ++r) {
        times.push_back(between(1, 6));
        const CsrView x = targets.csr();
        for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i)
          targets.sparse.value.data()[i] = float(times.back());
      }
      Problem rows = weighed;
      rows.network.layers[2].entry_weights = {};
      rows.data[0] = std::make_shared<HostBatch>(repeated(*weighed.data[0], times, true));
      rows.data[2] = std::make_shared<HostBatch>(repeated(targets, times, false));
      weighed.data[2] = std::make_shared<HostBatch>(std::move(targets));
      const reference::Network network(rows.network, rows.planned_batch, Pass::training,
                                       rows.position);
      const auto parameters = random_parameters(network, random_());
      const EngineStep one = engine_step(weighed, parameters);
      EngineStep many = engine_step(rows, parameters);
      EXPECT_NEAR(one.cost, many.cost, kTolerance.cost * std::abs(many.cost) * tolerance_factor());
      // Means over other numbers of examples.
      const double share = double(rows.data[0]->examples) / double(examples);
      for (reference::Row& row : many.gradient.weight)
        for (double& value : row) value *= share;
      for (auto& [item, layers] : many.gradient.unit)
        for (reference::Row& row : layers)
          for (double& value : row) value *= share;
      // Those of many are read from changes of parameters, and multiplied.
      Tolerance tolerance = kTolerance;
      tolerance.cancelled *= share;
      EXPECT_TRUE(gradients_agree(network, many.gradient, parameters, one.gradient, tolerance));
    }
}

TEST_F(EntryWeightsGradient, OfNothingIsNeitherThatOfAOneNorOfAZero) {
  Problem problem = one_hidden_layer(CrossEntropy{}, Activation(Sigmoid{}), 1);
  problem.set_data("In", {.valued = true}, 3, random_());
  problem.set_data("Out", {.valued = true, .labels = true, .low = 0.0f, .high = 0.0f}, 3,
                   random_());
  const reference::Network network(problem.network, problem.planned_batch, Pass::training,
                                   problem.position);
  const auto parameters = random_parameters(network, random_());
  const EngineStep step = engine_step(problem, parameters);
  EXPECT_EQ(step.cost, 0.0);
  for (const reference::Row& row : step.gradient.weight)
    for (const double value : row) EXPECT_EQ(value, 0.0);
  for (const double value : step.gradient.of("bias")[2]) EXPECT_EQ(value, 0.0);
}

}  // namespace
}  // namespace norn::test
