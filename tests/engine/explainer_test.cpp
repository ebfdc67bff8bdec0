// SPDX-License-Identifier: Apache-2.0
// Effects of entries against predictions of examples that are written without them, by bits: drawn
// networks, inputs, batches, threads and ranks.
#include "src/engine/predict/explainer.h"

#include "norn/base/error.h"
#include "tests/support/message_of.h"
#include "tests/support/problem.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace norn::test {
namespace {

/// What an example has of one input: entries with ascending columns, or a value for each unit.
struct InputRow {
  std::vector<std::pair<Column, float>> entries;
  std::vector<float> dense;
  float weight = 1.0f;
};

struct Input {
  Index units = 1;
  bool sparse = true;
  bool valued = false;
  bool weighted = false;
  std::vector<InputRow> rows;  // by example
};

HostBatch batch_of(const Input& input, const std::vector<const InputRow*>& rows) {
  HostBatch batch;
  batch.examples = Index(rows.size());
  batch.width = input.units;
  batch.is_sparse = input.sparse;
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  std::vector<float> values;
  if (!input.sparse) batch.dense = Matrix<float>(batch.examples, input.units);
  for (Index r = 0; r < batch.examples; ++r) {
    const InputRow& row = *rows[std::size_t(r)];
    batch.example.push_back(r);
    if (input.weighted) batch.weight.push_back(row.weight);
    if (!input.sparse) std::ranges::copy(row.dense, batch.dense.view().row(r));
    for (const auto& [column, value] : row.entries) {
      columns.push_back(column);
      values.push_back(value);
    }
    begin.push_back(RowOffset(columns.size()));
  }
  if (!input.sparse) return batch;
  batch.sparse = csr_of(begin, columns, input.units);
  batch.sparse.has_values = input.valued;
  if (!input.valued) return batch;
  batch.sparse.value = Buffer<float>(Index(values.size()));
  std::ranges::copy(values, batch.sparse.value.data());
  return batch;
}

/// A network of one hidden layer, and examples of its inputs.
struct Subject {
  NetworkDescriptor network;
  std::vector<Input> inputs;  // the first layers
  Index examples = 1;
  int output = 0;

  std::vector<DatasetShape> shapes() const {
    std::vector<DatasetShape> all;
    for (std::size_t i = 0; i < network.layers.size(); ++i)
      if (network.layers[i].kind != LayerKind::hidden)
        all.push_back({network.layers[i].dataset,
                       1,
                       {network.layers[i].units(), 1, 1},
                       i >= inputs.size() || inputs[i].sparse});
    return all;
  }

  /// Examples as `row(input, example)` says they are.
  template <typename Row>
  std::vector<HostBatch> batches(Index count, const Row& row) const {
    std::vector<HostBatch> all;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<const InputRow*> rows;
      for (Index e = 0; e < count; ++e) rows.push_back(row(i, e));
      all.push_back(batch_of(inputs[i], rows));
    }
    return all;
  }

  BoundBatch bound(const std::vector<HostBatch>& batches) const {
    BoundBatch batch;
    batch.examples = batches.front().examples;
    batch.of_layer.assign(network.layers.size(), nullptr);
    batch.ignore_absent.assign(network.layers.size(), false);
    for (std::size_t i = 0; i < batches.size(); ++i) batch.of_layer[i] = &batches[i];
    return batch;
  }
};

class ExplainerTest : public testing::Test {
 protected:
  Index below(Index count) { return Index(random_() % std::uint64_t(count)); }
  bool one_in(Index count) { return below(count) == 0; }

  Input draw_input(Index examples, bool sparse) {
    Input input{1 + below(one_in(3) ? 400 : 40), sparse, one_in(2), one_in(4), {}};
    std::normal_distribution<float> value(0.5f, 1.0f);
    const double density = std::uniform_real_distribution<double>(0.0, 0.5)(random_);
    for (Index e = 0; e < examples; ++e) {
      InputRow row;
      row.weight = 0.5f + 0.1f * float(below(10));
      for (Index u = 0; u < input.units && !sparse; ++u) row.dense.push_back(value(random_));
      for (Index u = 0; u < input.units && sparse; ++u)
        if (std::bernoulli_distribution(density)(random_))
          for (Index times = one_in(30) ? 2 : 1; times > 0; --times)
            row.entries.emplace_back(Column(u), value(random_));
      input.rows.push_back(std::move(row));
    }
    return input;
  }

  Subject draw() {
    Subject subject;
    subject.examples = 1 + below(12);
    const Index inputs = 1 + below(3);
    std::vector<std::string> sources;
    for (Index i = 0; i < inputs; ++i) {
      subject.inputs.push_back(draw_input(subject.examples, i == 0 || !one_in(3)));
      sources.push_back(fmt::format("In{}", i));
      LayerDescriptor layer = input_layer(sources.back(), subject.inputs.back().units);
      if (one_in(2)) layer.normalize = InputNormalization::l2;
      if (one_in(2) && subject.inputs.back().sparse)
        layer.input_weighting = InverseDocumentFrequency{};
      subject.network.layers.push_back(std::move(layer));
    }
    const std::vector<LayerActivation> functions = {Activation(Sigmoid{}), SoftMax{},
                                                    Activation(Linear{}), Activation(Relu{})};
    subject.network.layers.push_back(hidden_layer("Hidden", 1 + below(60), sources));
    subject.network.layers.push_back(output_layer("Out", 1 + below(one_in(3) ? 2000 : 60),
                                                  {"Hidden"}, functions[std::size_t(below(4))]));
    subject.output = int(subject.network.layers.size()) - 1;
    return subject;
  }

  /// Calls body(network) on every rank.
  template <typename Body>
  void with_network(const Subject& subject, Index planned, int threads, int ranks,
                    const Body& body) {
    const auto of_rank = [&](Communicator& communicator) {
      const std::unique_ptr<Runtime> runtime = make_test_runtime(threads);
      const Context context = runtime->context(communicator);
      context.compute.kernels.block_rule = kSmallBlocks;
      Network network(make_graph(subject.network, subject.shapes(), "test"), subject.shapes(),
                      context, planned, Pass::prediction);
      network.initialise(seed_);
      for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
        if (!network.weights_features(int(i))) continue;
        std::vector<float> weights;
        for (Index u = 0; u < subject.inputs[i].units; ++u)
          weights.push_back(0.2f + 0.3f * float(u % 7));
        network.set_feature_weights(int(i), weights);
      }
      body(network);
    };
    if (ranks == 1)
      of_rank(*make_single_process());
    else
      run_thread_group(ranks, of_rank);
  }

  std::vector<Index> draw_units(const Subject& subject) {
    const Index width = subject.network.layers.back().units();
    std::vector<Index> units(std::size_t(subject.examples * (1 + below(5))));
    for (Index& unit : units) unit = one_in(8) ? -1 : below(width);
    return units;
  }

  /// What each entry brings, by predicting one example at a time.
  std::vector<Explanation> by_hand(const Subject& subject, const std::vector<Index>& units) {
    std::vector<Explanation> all(units.size());
    const std::size_t asked = units.size() / std::size_t(subject.examples);
    with_network(subject, 1, 1, 1, [&](Network& network) {
      for (Index e = 0; e < subject.examples; ++e) {
        const auto scores = [&](std::size_t changed, const InputRow* instead) {
          const auto batches = subject.batches(1, [&](std::size_t i, Index) {
            return i == changed ? instead : &subject.inputs[i].rows[std::size_t(e)];
          });
          const MatrixView<const float> y = network.outputs(subject.bound(batches), subject.output);
          return std::vector<float>(y.row(0), y.row(0) + y.cols);
        };
        const std::vector<float> whole = scores(subject.inputs.size(), nullptr);
        for (std::size_t j = 0; j < asked; ++j) {
          Explanation& one = all[std::size_t(e) * asked + j];
          one.unit = units[std::size_t(e) * asked + j];
          if (one.unit >= 0) one.score = whole[std::size_t(one.unit)];
        }
        for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
          const InputRow& row = subject.inputs[i].rows[std::size_t(e)];
          for (Index u = 0; u < subject.inputs[i].units; ++u) {
            InputRow without = row;
            std::erase_if(without.entries, [&](const auto& entry) { return entry.first == u; });
            if (without.entries.size() == row.entries.size()) continue;
            const std::vector<float> left = scores(i, &without);
            for (std::size_t j = 0; j < asked; ++j) {
              Explanation& one = all[std::size_t(e) * asked + j];
              if (one.unit >= 0)
                one.effects.push_back({int(i), Column(u), one.score - left[std::size_t(one.unit)]});
            }
          }
        }
      }
    });
    for (Explanation& one : all)
      std::ranges::sort(one.effects, {}, [](const EntryEffect& entry) {
        return std::tuple(-std::abs(entry.effect), entry.input, entry.unit);
      });
    return all;
  }

  static void expect_same(const std::vector<Explanation>& found,
                          const std::vector<Explanation>& expected, Index most) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(fmt::format("explanation {}", i));
      EXPECT_EQ(found[i].unit, expected[i].unit);
      EXPECT_EQ(std::isnan(found[i].score), expected[i].unit < 0);
      if (expected[i].unit >= 0) {
        EXPECT_EQ(found[i].score, expected[i].score);
      }
      ASSERT_EQ(found[i].effects.size(), std::min(expected[i].effects.size(), std::size_t(most)));
      for (std::size_t at = 0; at < found[i].effects.size(); ++at) {
        const EntryEffect &one = found[i].effects[at], &other = expected[i].effects[at];
        EXPECT_EQ(one.input, other.input);
        EXPECT_EQ(one.unit, other.unit);
        EXPECT_EQ(one.effect, other.effect);
      }
    }
  }

  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
};

TEST_F(ExplainerTest, SaysWhatLeavingOutEachEntryByHandSays) {
  for (int round = 0; round < 6 && !HasFailure(); ++round) {
    const Subject subject = draw();
    const std::vector<Index> units = draw_units(subject);
    const std::vector<Explanation> expected = by_hand(subject, units);
    for (int way = 0; way < 3; ++way) {
      const Index planned = subject.examples + below(30), most = 1 + below(8);
      const int threads = 1 + int(below(3)), ranks = 1 + int(below(3));
      const Index most_scores = one_in(2) ? Explainer::kMostScores : 1 + below(200);
      SCOPED_TRACE(fmt::format("planned for {}, {} threads, {} ranks", planned, threads, ranks));
      std::mutex one_at_a_time;
      with_network(subject, planned, threads, ranks, [&](Network& network) {
        const auto batches = subject.batches(subject.examples, [&](std::size_t i, Index e) {
          return &subject.inputs[i].rows[std::size_t(e)];
        });
        Explainer explainer(network, subject.output, most, most_scores);
        std::vector<std::vector<Explanation>> found;
        for (int again = 0; again < 2; ++again)
          found.push_back(explainer.explain(subject.bound(batches), units));
        const std::lock_guard lock(one_at_a_time);
        for (const auto& answers : found) expect_same(answers, expected, most);
      });
    }
  }
}

TEST_F(ExplainerTest, LeavesAnEntryOutOfAllLayersThatReadItsData) {
  Subject subject;
  subject.examples = 1 + below(5);
  subject.inputs = {draw_input(subject.examples, true)};
  subject.inputs.push_back(subject.inputs.front());
  for (const char* name : {"In", "Again"}) {
    subject.network.layers.push_back(input_layer(name, subject.inputs.front().units));
    subject.network.layers.back().dataset = "In";
  }
  subject.network.layers.push_back(hidden_layer("Hidden", 7, {"In", "Again"}));
  subject.network.layers.push_back(output_layer("Out", 9, {"Hidden"}));
  subject.output = 3;
  std::vector<Index> units(std::size_t(subject.examples), below(9));
  with_network(subject, 8, 1, 1, [&](Network& network) {
    const auto scores = [&](Index e, Column without) {
      InputRow row = subject.inputs[0].rows[std::size_t(e)];
      std::erase_if(row.entries, [&](const auto& entry) { return entry.first == without; });
      const auto batches = subject.batches(1, [&](std::size_t, Index) { return &row; });
      return network.outputs(subject.bound(batches), subject.output)(0, units.front());
    };
    const auto batches = subject.batches(subject.examples, [&](std::size_t i, Index e) {
      return &subject.inputs[i].rows[std::size_t(e)];
    });
    const auto found = Explainer(network, 3, 1000).explain(subject.bound(batches), units);
    for (Index e = 0; e < subject.examples; ++e) {
      const Explanation& one = found[std::size_t(e)];
      for (const EntryEffect& entry : one.effects) {
        EXPECT_EQ(entry.input, 0);
        EXPECT_EQ(entry.effect, one.score - scores(e, entry.unit));
      }
    }
  });
}

// Counts the batches of a network with one hidden layer.
class CountingQueue final : public WorkQueue {
 public:
  explicit CountingQueue(Index& batches) : batches_(batches) {}
  void stage(const char* name) override { batches_ += std::string_view(name) == "activation"; }

 private:
  Index& batches_;
};

TEST_F(ExplainerTest, PredictsFullBatchesUnlessTheirScoresAreMany) {
  Subject subject;
  subject.examples = 2 + below(9);
  subject.inputs = {draw_input(subject.examples, true)};
  subject.network.layers = {input_layer("In", subject.inputs[0].units),
                            hidden_layer("Hidden", 5, {"In"}), output_layer("Out", 30, {"Hidden"})};
  subject.output = 2;
  const std::vector<Index> units(std::size_t(subject.examples), below(30));
  Index rows = 0;  // whole, and without each entry
  for (const InputRow& row : subject.inputs[0].rows) {
    std::set<Column> columns;
    for (const auto& entry : row.entries) columns.insert(entry.first);
    rows += 1 + Index(columns.size());
  }
  const Index planned = subject.examples + below(30);
  with_network(subject, planned, 1, 1, [&](Network& network) {
    const Context& context = network.context();
    if (!context.compute.memory.is_host()) GTEST_SKIP() << "a GPU's queue cannot be replaced";
    Index predicted = 0;
    context.compute.kernels.queue = std::make_unique<CountingQueue>(predicted);
    const auto batches = subject.batches(subject.examples, [&](std::size_t i, Index e) {
      return &subject.inputs[i].rows[std::size_t(e)];
    });
    Explainer(network, 2, 10).explain(subject.bound(batches), units);
    EXPECT_EQ(predicted, (rows + planned - 1) / planned);
    predicted = 0;
    Explainer(network, 2, 10, 1).explain(subject.bound(batches), units);
    EXPECT_EQ(predicted, rows) << "one score at a time";
  });
}

TEST_F(ExplainerTest, RefusesInputsWithoutEntries) {
  Subject subject;
  subject.inputs = {draw_input(1, false), draw_input(1, false)};
  subject.network.layers = {input_layer("Pixels", subject.inputs[0].units),
                            input_layer("Sounds", subject.inputs[1].units),
                            output_layer("Out", 3, {"Pixels", "Sounds"})};
  EXPECT_EQ(
      message_of<UsageError>([&] { require_entries(subject.network, subject.shapes()); }),
      "the model's inputs are dense (\"Pixels\", \"Sounds\"): they have no entries that could "
      "be left out; explanations are of sparse inputs");
  subject.inputs[1].sparse = true;
  require_entries(subject.network, subject.shapes());
}

}  // namespace
}  // namespace norn::test
