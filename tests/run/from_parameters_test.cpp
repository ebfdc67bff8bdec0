// SPDX-License-Identifier: Apache-2.0
// Models of arrays: what train() gave comes back with its bits, and what does not fit is told at
// once.
#include "norn/run/from_parameters.h"

#include "norn/base/problem.h"
#include "norn/run/recommend.h"
#include "norn/run/train.h"
#include "src/parallel/communicator.h"
#include "tests/data/support.h"
#include "tests/support/message_of.h"
#include "tests/support/thread_group.h"

#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>

namespace norn::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Index kWidth = 43;
constexpr Index kRows = 90;

// Batch normalisation, skips, sources of their own, shared and transposed weights, and an input
// whose features have weights.
const char* const kNetwork = R"({"ErrorFunction": "CrossEntropy",
  "Training": {"Optimizer": "Adam", "Alpha": 0.01, "Batch": 30, "Epochs": 2},
  "Layers": [
    {"Name": "In", "Kind": "Input", "N": 43, "DataSet": "films_input", "Normalize": "L2",
     "InputWeighting": {"Scheme": "IDF"}},
    {"Name": "First", "Kind": "Hidden", "N": 13, "Source": "In", "Activation": "Relu",
     "BatchNormalization": true},
    {"Name": "Second", "Kind": "Hidden", "N": 13, "Source": "First", "Skip": "First",
     "Activation": "SELU", "SELULambda": 1.25},
    {"Name": "Out", "Kind": "Output", "N": 43, "DataSet": "films_output", "Activation": "SoftMax",
     "Source": ["Second", "First"], "SharedWeights": {"InputLayer": "Second",
     "SourceInputLayer": "In", "SourceOutputLayer": "First", "Transposed": true}}]})";

class FromParameters : public testing::Test {
 protected:
  FromParameters() {
    const unsigned seed = std::random_device{}();
    RecordProperty("seed", int(seed % 1000000));
    std::mt19937 random(seed);
    for (Index row = 0; row < kRows; ++row) {
      std::set<Column> basket;
      while (basket.size() < 2 + random() % 5) basket.insert(Column(random() % kWidth));
      columns_.insert(columns_.end(), basket.begin(), basket.end());
      begin_.push_back(RowOffset(columns_.size()));
    }
  }
  MemorySet set(std::string name) const {
    return {.name = std::move(name), .width = kWidth, .row_begin = begin_, .columns = columns_};
  }
  static ModelOptions on_cpu() {
    ModelOptions options;
    options.device.kind = DeviceChoice::Kind::cpu;
    options.device.threads = 1;
    return options;
  }
  std::unique_ptr<Model> trained(const std::string& network = kNetwork) const {
    TrainOptions options;
    options.network = network;
    options.sets = {set("films_input"), set("films_output")};
    options.device = on_cpu().device;
    return std::move(train(options).model);
  }
  Recommendations best(Model& model) const {
    RecommendOptions options;
    options.sets = {set("films_input")};
    options.k = 5;
    return recommend(model, options);
  }
  static ModelParts parts_of(Model& model) { return {model.network(), model.parameters(), {}}; }
  static std::vector<std::string> messages(const ModelParts& parts) {
    std::vector<std::string> all;
    try {
      model_from_parameters(parts, on_cpu());
    } catch (const ProblemsError& error) {
      for (const Problem& problem : error.problems()) all.push_back(problem.message);
    }
    return all;
  }
  static void expect_equal(const std::vector<Parameter>& a, const std::vector<Parameter>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      SCOPED_TRACE(a[i].name);
      EXPECT_EQ(a[i].name, b[i].name);
      ASSERT_EQ(a[i].extent, b[i].extent);
      for (Index row = 0; row < a[i].extent[0]; ++row)
        for (Index column = 0; column < (a[i].extent.size() > 1 ? a[i].extent[1] : 1); ++column)
          ASSERT_EQ(a[i].at(row, column), b[i].at(row, column)) << row << ' ' << column;
    }
  }

  std::vector<RowOffset> begin_ = {0};
  std::vector<Column> columns_;
  TempDir folder_;
};

// Also without data, from which would follow that the input is dense.
TEST_F(FromParameters, OfConvolutionsAreArraysOfAllTheirAxes) {
  std::mt19937 random(std::random_device{}());
  std::vector<float> pictures(std::size_t(kRows * 24));
  for (float& value : pictures) value = std::uniform_real_distribution<float>(-1.0f, 1.0f)(random);
  TrainOptions options;
  options.network = R"({"Layers": [
    {"Kind": "Input", "Type": "Convolutional", "N": [4, 3, 2], "DataSet": "pictures"},
    {"Kind": "Hidden", "Type": "Convolutional", "N": 5, "Kernel": [3, 1], "Activation": "Tanh"},
    {"Kind": "Output", "N": 43, "DataSet": "films_output"}],
    "Training": {"Batch": 30, "Epochs": 1}})";
  options.sets = {{.name = "pictures", .width = 24, .dense = pictures}, set("films_output")};
  options.device = on_cpu().device;
  const std::unique_ptr<Model> model = std::move(train(options).model);
  const std::vector<Parameter> held = model->parameters();
  ASSERT_EQ(held.size(), 4u);
  EXPECT_THAT(held[0].extent, ElementsAre(5, 2, 1, 3));
  EXPECT_THAT(held[1].extent, ElementsAre(4 * 3 * 5, kWidth));
  const std::string file = folder_ / "pictures.nc";
  model->save(file);
  expect_equal(Model(file, on_cpu()).parameters(), held);
  expect_equal(model_from_parameters(parts_of(*model), on_cpu())->parameters(), held);
}

TEST_F(FromParameters, GiveTheModelTheyCameFrom) {
  const std::unique_ptr<Model> model = trained();
  const std::unique_ptr<Model> again = model_from_parameters(parts_of(*model), on_cpu());
  EXPECT_EQ(again->network(), model->network());
  expect_equal(again->parameters(), model->parameters());
  const Recommendations here = best(*model);
  const Recommendations there = best(*again);
  EXPECT_EQ(here.units, there.units);
  EXPECT_EQ(here.scores, there.scores);
  EXPECT_EQ(model_from_parameters(parts_of(*again), on_cpu())->bytes(), again->bytes());
}

TEST_F(FromParameters, NameTheWeightsOfFeatures) {
  const std::vector<Parameter> parameters = trained()->parameters();
  const auto found = std::ranges::find(parameters, "In featureWeights", &Parameter::name);
  ASSERT_NE(found, parameters.end());
  ASSERT_THAT(found->extent, ElementsAre(kWidth));
  std::set<float> weights;
  for (Index unit = 0; unit < kWidth; ++unit) weights.insert(found->at(unit));
  EXPECT_GT(weights.size(), 3u);
  EXPECT_GT(*weights.begin(), 0.99f);
}

TEST_F(FromParameters, AreReadInAnyOrderAndWithAnyStride) {
  const std::unique_ptr<Model> model = trained();
  ModelParts parts = parts_of(*model);
  std::vector<std::vector<float>> transposed;
  for (Parameter& parameter : parts.parameters) {
    if (parameter.extent.size() < 2) continue;
    const Index rows = parameter.extent[0], columns = parameter.extent[1];
    std::vector<float> values(std::size_t(rows * columns));
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j) values[std::size_t(j * rows + i)] = parameter.at(i, j);
    transposed.push_back(std::move(values));
    parameter.data = transposed.back().data();
    parameter.stride = {1, rows};
  }
  std::ranges::reverse(parts.parameters);
  expect_equal(model_from_parameters(parts, on_cpu())->parameters(), model->parameters());
}

TEST_F(FromParameters, OfAModelWithoutStrideFollowOneAnother) {
  const std::vector<float> matrix = {1, 2, 3, 4, 5, 6}, bias = {7, 8, 9};
  const ModelParts parts{
      R"({"Layers": [{"Name": "In", "Kind": "Input", "N": 2, "DataSet": "x"},
                     {"Name": "Out", "Kind": "Output", "N": 3, "DataSet": "y"}]})",
      {{"In -> Out", {2, 3}, {}, matrix.data(), {}}, {"Out bias", {3}, {}, bias.data(), {}}},
      {}};
  const std::vector<Parameter> found = model_from_parameters(parts, on_cpu())->parameters();
  ASSERT_EQ(found.size(), 2u);
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(found[0].at(i / 3, i % 3), float(i + 1));
  for (Index i = 0; i < 3; ++i) EXPECT_EQ(found[1].at(i), float(7 + i));
}

TEST_F(FromParameters, MakeAFileThatATrainingBeginsWith) {
  const std::unique_ptr<Model> model = trained();
  model_from_parameters(parts_of(*model), on_cpu())->save(folder_ / "model.nc");
  TrainOptions options;
  options.config = folder_ / "model.nc";
  options.sets = {set("films_input"), set("films_output")};
  options.device = on_cpu().device;
  options.epochs = 0;
  expect_equal(train(options).model->parameters(), model->parameters());
}

TEST_F(FromParameters, ThatDoNotFitAreAllNamedAtOnce) {
  const std::unique_ptr<Model> model = trained();
  ModelParts parts = parts_of(*model);
  const std::vector<float> other(kWidth * 14, 1.0f);
  std::vector<float> broken(kWidth, 0.5f);
  broken[17] = std::numeric_limits<float>::quiet_NaN();
  for (Parameter& parameter : parts.parameters) {
    if (parameter.name == "In -> First")
      parameter = {"In -> First", {kWidth, 14}, {}, other.data(), {}};
    if (parameter.name == "Out bias") parameter.data = broken.data();
    if (parameter.name == "First scaleBN") parameter.name = "First scale";
  }
  parts.parameters.push_back(parts.parameters.back());
  LabelIndex labels;
  for (Index i = 0; i <= kWidth; ++i) labels.add("film" + std::to_string(i));
  parts.unit_labels["Out"] = LabelTable::of(labels);
  parts.unit_labels["First"] = LabelTable::numbers(3);
  const std::string names =
      "In -> First, First -> Second, First -> Out, First bias, First scaleBN, First biasBN, "
      "First runningMeanBN, First runningVarianceBN, Second bias, Out bias, In featureWeights";
  EXPECT_THAT(
      messages(parts),
      ElementsAre(
          "`parameters`: \"In -> First\" is 43 x 14, but the network needs 43 x 13",
          "`parameters`: \"First scaleBN\" is missing; give it as 13",
          "`parameters`: \"Out bias\" is nan at element 17; give finite numbers",
          "`parameters`: the network has no \"First scale\"; did you mean \"First scaleBN\"? It "
          "has: " +
              names,
          "`parameters`: \"In featureWeights\" is given more than once; give it once",
          "`unit_labels`: the network has no Input or Output layer \"First\". It has: In, Out",
          "`unit_labels`: layer \"Out\" has 43 units, but 44 labels"));
}

TEST_F(FromParameters, NeedADescriptorThatSaysAllSizes) {
  const ModelParts parts{
      R"({"Layers": [{"Name": "In", "Kind": "Input", "N": "auto", "DataSet": "x"},
                     {"Name": "Out", "Kind": "Output", "N": "auto", "DataSet": "y"}]})",
      {},
      {}};
  const std::string why =
      ": N is \"auto\", and there are no data to take it from; give the number of units that the "
      "parameters have";
  EXPECT_THAT(messages(parts), ElementsAre("layer \"In\"" + why, "layer \"Out\"" + why));
  EXPECT_THAT(message_of<UsageError>([] {
                model_from_parameters({R"({"Layers": [{"Nmae": "x"}]})", {}, {}}, on_cpu());
              }),
              HasSubstr("Nmae"));
}

TEST_F(FromParameters, TellOfKeysThatHaveNoEffect) {
  std::vector<std::string> told;
  ModelOptions options = on_cpu();
  options.log = Log([&](LogLevel level, const std::string& text) {
    if (level == LogLevel::warning) told.push_back(text);
  });
  const std::vector<float> matrix = {1, 2, 3, 4, 5, 6}, bias = {7, 8, 9};
  const ModelParts parts{
      R"({"Denoising": {"p": 0.5},
          "Layers": [{"Name": "In", "Kind": "Input", "N": 2, "DataSet": "x"},
                     {"Name": "Out", "Kind": "Output", "N": 3, "DataSet": "y"}]})",
      {{"In -> Out", {2, 3}, {}, matrix.data(), {}}, {"Out bias", {3}, {}, bias.data(), {}}},
      {}};
  model_from_parameters(parts, options);
  EXPECT_THAT(told, ElementsAre(HasSubstr("Denoising has no effect: no Input layer says")));
}

TEST(CanonicalNetwork, FillsInWhatADescriptorLeavesOut) {
  const std::string canonical = canonical_network(
      R"({"layers": [{"n": "auto", "DataSet": "x"}, {"N": 3, "activation": "silu"}, {"N": 2}]})");
  EXPECT_THAT(canonical, HasSubstr(R"("N": "auto")"));
  EXPECT_THAT(canonical, HasSubstr(R"("Name": "Hidden1")"));
  EXPECT_THAT(canonical, HasSubstr(R"("Source": "Input0")"));
  EXPECT_THAT(canonical, HasSubstr(R"("Activation": "Swish")"));
  EXPECT_EQ(canonical_network(canonical), canonical);
}

TEST_F(FromParameters, KeepLabelsOfUnits) {
  const std::unique_ptr<Model> model = trained();
  ModelParts parts = parts_of(*model);
  LabelIndex index;
  for (Index unit = 0; unit < kWidth; ++unit) index.add("film" + std::to_string(unit * 7));
  parts.unit_labels = {{"In", LabelTable::of(index)}, {"Out", LabelTable::numbers(40)}};
  const auto bytes = model_from_parameters(parts, on_cpu())->bytes();
  const auto loaded = Model::from_bytes(bytes, on_cpu());
  EXPECT_EQ(loaded->unit_labels("In").list()[42], "film294");
  EXPECT_TRUE(loaded->unit_labels("Out").are_numbers());
  EXPECT_EQ(loaded->unit_labels("Out").size(), 40);
}

TEST_F(FromParameters, GiveTheSameBytesOnAnyNumberOfRanks) {
  const std::unique_ptr<Model> model = trained();
  const ModelParts parts = parts_of(*model);
  const std::string bytes = model_from_parameters(parts, on_cpu())->bytes();
  run_thread_group(3, [&](Communicator& communicator) {
    ModelOptions options = on_cpu();
    options.ranks = std::shared_ptr<Communicator>(&communicator, [](Communicator*) {});
    EXPECT_EQ(model_from_parameters(parts, options)->bytes(), bytes);
  });
}

}  // namespace
}  // namespace norn::run
