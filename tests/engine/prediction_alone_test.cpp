// SPDX-License-Identifier: Apache-2.0
// What is predicted for an example depends on the example and the model alone: random batches of
// random neighbours, planned for random sizes, on random numbers of threads and ranks, as lists of
// the best units and as all scores, have the bits of one prediction. NORN_BATCHINGS: how many are
// drawn for each network.
#include "src/engine/predict/predictor.h"
#include "tests/support/problem.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace norn::test {
namespace {

constexpr Index kExamples = 60;
constexpr std::uint64_t kWeightsSeed = 11;

int batchings() {
  const char* word = std::getenv("NORN_BATCHINGS");
  return word == nullptr ? 5 : std::atoi(word);
}

/// A network, and what its examples look like.
struct Subject {
  std::string name;
  NetworkDescriptor network;
  DataKind inputs;
  std::optional<BlockRule> blocks = kMediumBlocks;  ///< none: the device's own
};

Subject subject(std::string name, std::vector<LayerDescriptor> layers, const DataKind& inputs = {},
                const std::optional<BlockRule>& blocks = kMediumBlocks) {
  Subject made{std::move(name), {}, inputs, blocks};
  made.network.layers = std::move(layers);
  return made;
}

std::vector<Subject> subjects() {
  const Activation relu = Relu{}, sigmoid = Sigmoid{}, linear = Linear{};
  std::vector<Subject> all;
  all.push_back(subject("SoftMaxOfWeightedFeatures",
                        {input_layer("In", 61), hidden_layer("First", 77, {"In"}),
                         hidden_layer("Second", 50, {"First"}, relu),
                         output_layer("Out", 1003, {"Second"}, SoftMax{})}));
  all.back().network.layers[0].normalize = InputNormalization::l2;
  all.back().network.layers[0].input_weighting = InverseDocumentFrequency{};
  all.push_back(subject(
      "BatchNormOverDenseInputs",
      {input_layer("In", 33), hidden_layer("First", 71, {"In"}, Activation(Selu{})),
       hidden_layer("Second", 40, {"First"}, SoftMax{}), hidden_layer("Third", 71, {"Second"}),
       output_layer("Out", 203, {"Third", "In"}, sigmoid)},
      {.name = "dense", .sparse = false}, kSmallBlocks));
  all.back().network.layers[0].normalize = InputNormalization::l2;
  all.back().network.layers[1].batch_normalization = true;
  all.back().network.layers[3].batch_normalization = true;
  all.back().network.layers[3].skips = {"First"};
  const Recipe by_source = by_source_recipe("by source", Sgd{}, 0.1f);
  all.push_back(subject("EdgesBySource", by_source.network.layers, {}, by_source.blocks));
  all.back().network.layers[0].extent[0] = 61;
  all.push_back(subject("SharedWeights", {input_layer("In", 61), hidden_layer("Hidden", 77, {"In"}),
                                          output_layer("Out", 61, {"Hidden"}, sigmoid)}));
  all.back().network.layers[2].shared_weights = {{"Hidden", "In", "Hidden", true}};
  all.push_back(subject("OneUnitEach",
                        {input_layer("In", 5), hidden_layer("Hidden", 1, {"In"}),
                         output_layer("Out", 1, {"Hidden"}, linear)},
                        {.name = "dense", .sparse = false}));
  all.push_back(subject("DeepSums",
                        {input_layer("In", 61), hidden_layer("Hidden", 1024, {"In"}),
                         output_layer("Out", 515, {"Hidden"}, linear)},
                        {.valued = true, .weighted = true}, std::nullopt));
  all.push_back(subject("ManyScores",
                        {input_layer("In", 61), hidden_layer("Hidden", 64, {"In"}),
                         output_layer("Out", 20'011, {"Hidden"}, sigmoid)},
                        {}, std::nullopt));
  all.push_back(subject("ManyProbabilities",
                        {input_layer("In", 61), hidden_layer("Hidden", 72, {"In"}),
                         output_layer("Out", 17'003, {"Hidden"}, SoftMax{})},
                        {}, std::nullopt));
  return all;
}

/// A network of random depth, widths and functions.
Subject drawn_subject(std::mt19937_64& random) {
  const auto below = [&](Index count) { return Index(random() % std::uint64_t(count)); };
  const std::vector<LayerActivation> functions = {Activation(Tanh{}),    Activation(Relu{}),
                                                  Activation(Sigmoid{}), Activation(Selu{}),
                                                  Activation(Linear{}),  SoftMax{}};
  const auto function = [&] { return functions[std::size_t(below(Index(functions.size())))]; };
  Subject made{"Drawn", {}, {.sparse = below(2) == 0, .valued = below(2) == 0}, std::nullopt};
  std::vector<LayerDescriptor>& layers = made.network.layers;
  layers.push_back(input_layer("In", 1 + below(300)));
  const Index hidden = 1 + below(3);
  for (Index i = 0; i < hidden; ++i) {
    std::vector<std::string> sources = {layers.back().name};
    if (i > 0 && below(3) == 0) sources.push_back("In");
    layers.push_back(hidden_layer(fmt::format("Hidden{}", i), 1 + below(700), sources, function()));
    layers.back().batch_normalization = below(4) == 0;
  }
  layers.push_back(output_layer("Out", 1 + below(3000), {layers.back().name}, function()));
  for (const auto& rule : {kSmallBlocks, kMediumBlocks})
    if (below(3) == 0) made.blocks = rule;
  return made;
}

/// All examples of a subject, by layer.
class Examples {
 public:
  Examples(const Subject& subject, std::uint64_t seed) : all_(subject.network.layers.size()) {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (subject.network.layers[i].kind == LayerKind::input)
        all_[i] = std::make_shared<HostBatch>(
            random_batch(subject.inputs, kExamples, subject.network.layers[i].units(), seed + i));
  }
  /// Some of them, in that order; valid until the next call.
  BoundBatch batch(const std::vector<Index>& examples) {
    chosen_.clear();
    chosen_.resize(all_.size());
    BoundBatch bound;
    bound.examples = Index(examples.size());
    bound.ignore_absent.assign(all_.size(), false);
    bound.of_layer.assign(all_.size(), nullptr);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!all_[i]) continue;
      choose(*all_[i], examples, chosen_[i]);
      bound.of_layer[i] = &chosen_[i];
    }
    return bound;
  }

 private:
  static void choose(const HostBatch& all, const std::vector<Index>& examples, HostBatch& chosen) {
    chosen.examples = Index(examples.size());
    chosen.width = all.width;
    chosen.is_sparse = all.is_sparse;
    for (const Index e : examples) {
      chosen.example.push_back(e);
      if (!all.weight.empty()) chosen.weight.push_back(all.weight[std::size_t(e)]);
    }
    if (all.is_sparse) return choose_sparse(all, examples, chosen);
    chosen.dense = Matrix<float>(chosen.examples, all.width);
    for (Index r = 0; r < chosen.examples; ++r)
      std::copy_n(all.dense.view().row(examples[std::size_t(r)]), all.width,
                  chosen.dense.view().row(r));
  }
  static void choose_sparse(const HostBatch& all, const std::vector<Index>& examples,
                            HostBatch& chosen) {
    const CsrView from = all.csr();
    std::vector<RowOffset> begin = {0};
    for (const Index e : examples)
      begin.push_back(begin.back() + from.row_begin[e + 1] - from.row_begin[e]);
    CsrBuffer& to = chosen.sparse;
    to.rows = chosen.examples;
    to.cols = all.width;
    to.has_values = from.value != nullptr;
    to.row_begin = Buffer<RowOffset>(Index(begin.size()));
    std::copy(begin.begin(), begin.end(), to.row_begin.data());
    to.column = Buffer<Column>(Index(begin.back()));
    if (to.has_values) to.value = Buffer<float>(Index(begin.back()));
    for (std::size_t r = 0; r < examples.size(); ++r) {
      const RowOffset first = from.row_begin[examples[r]], count = begin[r + 1] - begin[r];
      std::copy_n(from.column + first, count, to.column.data() + begin[r]);
      if (to.has_values) std::copy_n(from.value + first, count, to.value.data() + begin[r]);
    }
  }
  std::vector<std::shared_ptr<HostBatch>> all_;
  std::vector<HostBatch> chosen_;
};

/// How predictions are made.
struct Setting {
  Index planned = kExamples;
  int threads = 1;
  int ranks = 1;
  Pass purpose = Pass::prediction;
};

std::vector<DatasetShape> shapes_of(const Subject& subject) {
  std::vector<DatasetShape> shapes;
  for (const LayerDescriptor& layer : subject.network.layers)
    if (layer.kind != LayerKind::hidden)
      shapes.push_back({layer.dataset,
                        1,
                        {layer.units(), 1, 1},
                        layer.kind == LayerKind::output || subject.inputs.sparse});
  return shapes;
}

// Biases and statistics that are another number for each unit, whoever has it.
void set_unit_numbers(Network& network) {
  for (int layer : network.order()) {
    UnitLayer* unit = network.unit_layer(layer);
    if (!unit) continue;
    const auto set = [&](Buffer<float>& buffer, float low, float high) {
      std::vector<float> values(std::size_t(buffer.size()));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto number = std::uint64_t(unit->mine().begin) + i;
        values[i] = low + (high - low) * float(number * 2654435761u % 1000) / 1000.0f;
      }
      if (!values.empty()) buffer.write(values.data(), buffer.size());
    };
    set(unit->bias.value, -0.5f, 0.5f);
    set(unit->running_mean, -0.5f, 0.5f);
    set(unit->running_variance, 0.5f, 2.0f);
  }
}

/// Calls body(network, rank's communicator) on every rank.
template <typename Body>
void with_network(const Subject& subject, const Setting& setting, const Body& body) {
  const auto of_rank = [&](Communicator& communicator) {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(setting.threads);
    const Context context = runtime->context(communicator);
    if (subject.blocks) context.compute.kernels.block_rule = *subject.blocks;
    Network network(make_graph(subject.network, shapes_of(subject), subject.name),
                    shapes_of(subject), context, setting.planned, setting.purpose);
    network.initialise(kWeightsSeed);
    set_unit_numbers(network);
    for (std::size_t i = 0; i < subject.network.layers.size(); ++i)
      if (network.weights_features(int(i))) {
        std::vector<float> weights;
        for (Index u = 0; u < subject.network.layers[i].units(); ++u)
          weights.push_back(0.2f + 0.1f * float(u % 13));
        network.set_feature_weights(int(i), weights);
      }
    body(network, communicator);
  };
  if (setting.ranks == 1)
    of_rank(*make_single_process());
  else
    run_thread_group(setting.ranks, of_rank);
}

std::vector<int> outputs_of(const Subject& subject) {
  std::vector<int> layers;
  for (std::size_t i = 0; i < subject.network.layers.size(); ++i)
    if (subject.network.layers[i].kind == LayerKind::output) layers.push_back(int(i));
  return layers;
}

using Scores = std::vector<std::vector<float>>;  // by example

/// Every output layer's scores of all examples, one prediction for each of them.
std::vector<Scores> predict_one_by_one(const Subject& subject, Examples& examples,
                                       const Setting& setting) {
  std::vector<Scores> scores;
  with_network(subject, setting, [&](Network& network, Communicator&) {
    for (const int layer : outputs_of(subject)) {
      scores.emplace_back();
      for (Index e = 0; e < kExamples; ++e) {
        const MatrixView<const float> y = network.outputs(examples.batch({e}), layer);
        scores.back().emplace_back(y.row(0), y.row(0) + y.cols);
      }
    }
  });
  return scores;
}

/// How many examples of a batch have other scores than those.
int different_scores(Network& network, const BoundBatch& batch, const std::vector<Index>& examples,
                     int layer, const Scores& expected) {
  const MatrixView<const float> y = network.outputs(batch, layer);
  const Range mine = network.unit_layer(layer)->mine();
  int different = 0;
  for (Index r = 0; r < y.rows; ++r)
    different += mine.count() > 0 &&
                 std::memcmp(y.row(r) + mine.begin,
                             expected[std::size_t(examples[std::size_t(r)])].data() + mine.begin,
                             std::size_t(mine.count()) * sizeof(float)) != 0;
  return different;
}

/// How many of them have other lists of the best k units than those scores have.
int different_lists(Network& network, const BoundBatch& batch, const std::vector<Index>& examples,
                    int layer, Index k, const Scores& expected) {
  Predictor predictor(network, layer, k);
  const TopK& best = predictor.predict(batch, {});
  int different = 0;
  for (Index r = 0; r < batch.examples; ++r) {
    const std::vector<float>& scores = expected[std::size_t(examples[std::size_t(r)])];
    std::vector<Index> order(scores.size());
    std::iota(order.begin(), order.end(), Index(0));
    const auto count = std::min<std::ptrdiff_t>(k, std::ptrdiff_t(order.size()));
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](Index a, Index b) {
      const float x = scores[std::size_t(a)], y = scores[std::size_t(b)];
      return x > y || (x == y && a < b);
    });
    bool same = best.count.data()[r] == count;
    for (Index i = 0; same && i < count; ++i)
      same = best.unit.view()(r, i) == order[std::size_t(i)] &&
             std::memcmp(&best.score.view()(r, i), &scores[std::size_t(order[std::size_t(i)])],
                         sizeof(float)) == 0;
    different += !same;
  }
  return different;
}

const int kDrawn = int(subjects().size());  ///< a network that is drawn

class PredictionAlone : public testing::TestWithParam<int> {
 protected:
  Index below(Index count) { return Index(random_() % std::uint64_t(count)); }
  std::vector<Index> draw_batch(Index most) {
    std::vector<Index> examples(std::size_t(1 + below(most)));
    for (Index& e : examples) e = below(kExamples);
    return examples;
  }
  /// Predicts random batches and expects the scores that each example has by itself.
  void expect_same(const Setting& setting, const std::vector<Scores>& expected) {
    SCOPED_TRACE(fmt::format("planned for {}, {} threads, {} ranks", setting.planned,
                             setting.threads, setting.ranks));
    std::vector<std::vector<Index>> batches;
    for (int i = 0; i < 3; ++i) batches.push_back(draw_batch(setting.planned));
    const Index k = 1 + below(60);
    std::atomic<int> scores = 0, lists = 0;
    with_network(subject_, setting, [&](Network& network, Communicator&) {
      Examples examples(subject_, seed_);
      const std::vector<int> layers = outputs_of(subject_);
      for (const std::vector<Index>& chosen : batches) {
        const BoundBatch batch = examples.batch(chosen);
        for (std::size_t i = 0; i < layers.size(); ++i) {
          scores += different_scores(network, batch, chosen, layers[i], expected[i]);
          lists += different_lists(network, batch, chosen, layers[i], k, expected[i]);
        }
      }
    });
    EXPECT_EQ(scores, 0) << "examples with other scores";
    EXPECT_EQ(lists, 0) << "examples with other lists of " << k;
  }

  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
  Subject subject_ =
      GetParam() == kDrawn ? drawn_subject(random_) : subjects().at(std::size_t(GetParam()));
};

TEST_P(PredictionAlone, HasTheSameBitsInAnyBatchPlanThreadsAndRanks) {
  std::printf("seed %u\n", seed_);
  Examples examples(subject_, seed_);
  std::vector<Scores> expected = predict_one_by_one(subject_, examples, {});
  for (int i = 0; i < batchings() && !HasFailure(); ++i) {
    if (GetParam() == kDrawn && i > 0) {
      subject_ = drawn_subject(random_);
      Examples others(subject_, seed_);
      expected = predict_one_by_one(subject_, others, {});
    }
    const Index planned = below(3) ? 1 + below(64) : 1 + below(1024);
    expect_same({planned, 1 + int(below(4)), 1 + int(below(3))}, expected);
  }
}

// Validation: the blocks of SoftMax and of sums over sources are those of the training batch.
TEST_P(PredictionAlone, OfANetworkInTrainingDoesNotDependOnNeighbours) {
  Examples examples(subject_, seed_);
  const Index planned = 1 + below(300);
  const Setting alone{planned, 1, 1, Pass::training};
  const std::vector<Scores> expected = predict_one_by_one(subject_, examples, alone);
  expect_same({planned, 1 + int(below(4)), 1 + int(below(3)), Pass::training}, expected);
}

std::string subject_name(const testing::TestParamInfo<int>& info) {
  return info.param == kDrawn ? "Drawn" : subjects()[std::size_t(info.param)].name;
}

INSTANTIATE_TEST_SUITE_P(Networks, PredictionAlone, testing::Range(0, kDrawn + 1), subject_name);

}  // namespace
}  // namespace norn::test
