// SPDX-License-Identifier: Apache-2.0
// Recipes: what follows from the data, on data of any shape, and what a text may change.
#include "norn/base/error.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"
#include "tests/nn/descriptor_equal.h"

#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::HasSubstr;

constexpr RecipeFacts kPackages = {17642, 7421, 137005};
constexpr RecipeFacts kDense = {943, 1682, 100415};

Index hidden_of(const NetworkDescriptor& network) {
  return network.find("Hidden")->units();
}
float bias_of(const NetworkDescriptor& network) {
  return network.find("Output")->init.bias;
}
double steps_of(const NetworkDescriptor& network, const RecipeFacts& facts) {
  const TrainingDescriptor& training = network.training;
  return double(training.epochs) * double(facts.examples) / double(training.batch);
}

// Reads a descriptor that names a recipe, for such data.
NetworkDescriptor changed(const std::string& text, const RecipeFacts& facts = kPackages,
                          std::vector<std::string>* asked = nullptr) {
  const RecipeSource data{[&](const std::string& dataset, const std::vector<std::string>& beside) {
                            if (asked) asked->push_back(dataset);
                            if (asked) asked->insert(asked->end(), beside.begin(), beside.end());
                            return facts;
                          },
                          {}};
  return parse_network_json(text, "net.json", {}, &data);
}

std::string error_of(const std::string& text, bool has_data = true) {
  try {
    if (has_data)
      changed(text);
    else
      parse_network_json(text, "net.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Recipe, IsToldWhichSetsHaveFeaturesOfUnits) {
  std::vector<std::string> asked;
  const NetworkDescriptor network =
      changed(R"({"Recipe": "softmax", "Layers": [{"Name": "Output", "Features": "kinds"}]})",
              kPackages, &asked);
  EXPECT_EQ(asked, (std::vector<std::string>{"auto", "kinds"}));
  EXPECT_EQ(network.find("Output")->features, "kinds");
}

TEST(Recipe, IsAWholeDescriptorThatReadsBack) {
  for (const RecipeKind kind : {RecipeKind::sigmoid, RecipeKind::softmax, RecipeKind::ease}) {
    const NetworkDescriptor network = make_recipe(kind, kPackages);
    test::expect_equal(parse_network_json(to_json(network), "recipe"), network);
    EXPECT_NO_THROW(check_network(network, "recipe"));
  }
}

TEST(Recipe, IsLongInStepsOnFewExamplesAndOnMany) {
  for (const Index examples : {50, 943, 6039, 17642, 100000, 140000}) {
    const RecipeFacts facts{examples, 4000, examples * 10};
    const double steps = steps_of(make_recipe(RecipeKind::sigmoid, facts), facts);
    EXPECT_GE(steps, 2000) << examples;
    EXPECT_LE(steps, 2400) << examples;
  }
  const RecipeFacts many{3000000, 4000, 30000000};
  EXPECT_EQ(make_recipe(RecipeKind::sigmoid, many).training.epochs, 8);
}

TEST(Recipe, TakesSmallerStepsAndFewerWhereRowsAreLonger) {
  NetworkDescriptor before = make_recipe(RecipeKind::sigmoid, {50000, 5000, 50000}, {{}, {}, 256});
  for (const Index row : {4, 12, 40, 130, 400, 2000}) {
    const NetworkDescriptor now =
        make_recipe(RecipeKind::sigmoid, {50000, 5000, 50000 * row}, {{}, {}, 256});
    EXPECT_LE(now.training.rate, before.training.rate) << row;
    EXPECT_LE(now.training.epochs, before.training.epochs) << row;
    EXPECT_LE(now.boost_one, before.boost_one) << row;
    EXPECT_GT(bias_of(now), bias_of(before)) << row;  // more ones
    before = now;
    before.training.rate *= 1.01f;  // numbers are rounded
  }
  EXPECT_LT(before.boost_one, 2.0f);
}

TEST(Recipe, TakesSmallerStepsWhereUnitsAreRare) {
  const auto rate = [](Index width) {
    return make_recipe(RecipeKind::sigmoid, {1000, width, 20000}, {{}, {}, 256}).training.rate;
  };
  EXPECT_EQ(rate(500), rate(2000));
  EXPECT_NEAR(rate(32000), rate(2000) / 2, 0.05 * rate(2000));
}

TEST(Recipe, GrowsWithTheData) {
  NetworkDescriptor before = make_recipe(RecipeKind::softmax, {10, 10, 100});
  for (Index examples = 30; examples < 10000000; examples *= 3) {
    const NetworkDescriptor now =
        make_recipe(RecipeKind::softmax, {examples, examples, examples * 10});
    EXPECT_GE(hidden_of(now), hidden_of(before)) << examples;
    EXPECT_GE(now.training.batch, before.training.batch) << examples;
    before = now;
  }
  EXPECT_EQ(hidden_of(before), 2048);
  EXPECT_EQ(before.training.batch, 512);
}

TEST(Recipe, HasMoreHiddenUnitsWhereFewRowsHaveManyUnits) {
  const auto sigmoid = [](const RecipeFacts& facts) {
    return hidden_of(make_recipe(RecipeKind::sigmoid, facts));
  };
  EXPECT_EQ(sigmoid({1000, 16128, 21472}), 256);
  EXPECT_EQ(sigmoid({2000, 24252, 41800}), 256);
  EXPECT_EQ(sigmoid({500, 9217, 9967}), 128);     // so few rows have not so many directions
  EXPECT_EQ(sigmoid({1000, 2635, 6302}), 128);    // nor so few units
  EXPECT_EQ(sigmoid({1000, 5000000, 600}), 128);  // nor those that no row has
  EXPECT_EQ(hidden_of(make_recipe(RecipeKind::softmax, {1000, 16128, 21472})), 128);
}

TEST(Recipe, HasAsManyHiddenUnitsAsMoreRowsAsked) {
  const std::pair<RecipeFacts, Index> known[] = {{kPackages, 256},
                                                 {kDense, 128},
                                                 {{29858, 40981, 810128}, 2048},
                                                 {{2000, 3944, 12413}, 128},
                                                 {{4000, 34187, 88800}, 256},
                                                 {{10958, 1000, 105200}, 128},
                                                 {{1000, 991, 31800}, 128},
                                                 {{6000, 3600, 839400}, 512},
                                                 {{30000, 46239, 111000}, 512}};
  for (const auto& [facts, hidden] : known)
    EXPECT_EQ(hidden_of(make_recipe(RecipeKind::sigmoid, facts)), hidden) << facts.examples;
}

TEST(Recipe, WeighsOnesMoreWhereMostUnitsHaveOne) {
  const auto boost = [](const RecipeFacts& facts) {
    return make_recipe(RecipeKind::sigmoid, facts).boost_one;
  };
  EXPECT_EQ(boost({1000, 16128, 21472}), 26.0f);
  EXPECT_EQ(boost({500, 9217, 9967}), 30.0f);     // as much as ones ever weigh
  EXPECT_EQ(boost({1000, 10736, 21472}), 13.0f);  // two entries a unit are no fewer
  EXPECT_EQ(boost({30000, 46239, 111000}), 30.0f);
  EXPECT_EQ(boost({4000, 34187, 88800}), 13.0f);
}

TEST(Recipe, NeverHasFewerHiddenUnitsNorLighterOnesForRarerUnits) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> power(0.0, 7.0);
  const auto drawn = [&](double scale) { return Index(std::pow(10, power(generator) * scale)); };
  for (int i = 0; i < 1000; ++i) {
    const RecipeFacts facts{drawn(1), drawn(1), drawn(1.4)};
    const RecipeFacts more[] = {{facts.examples * 3, facts.width, facts.entries},
                                {facts.examples, facts.width * 3, facts.entries},
                                {facts.examples, facts.width, facts.entries * 3}};
    for (const RecipeKind kind : {RecipeKind::sigmoid, RecipeKind::softmax}) {
      SCOPED_TRACE(fmt::format("{} x {}, {} ones", facts.examples, facts.width, facts.entries));
      const Index hidden = hidden_of(make_recipe(kind, facts));
      EXPECT_GE(hidden, 128);
      EXPECT_LE(hidden, 2048);
      EXPECT_EQ(hidden & (hidden - 1), 0);
      for (const RecipeFacts& larger : more)
        EXPECT_GE(hidden_of(make_recipe(kind, larger)), hidden);
      const float boost = make_recipe(kind, facts).boost_one;
      EXPECT_GE(boost, 1.0f);
      EXPECT_LE(boost, 30.0f);
      EXPECT_GE(make_recipe(kind, more[1]).boost_one, boost);
      EXPECT_LE(make_recipe(kind, more[2]).boost_one, boost);
    }
  }
}

TEST(Recipe, IsANetworkThatCanBeTrainedOnAnyData) {
  std::vector<RecipeFacts> all = {{1, 1, 1},    {1, 1, 0},
                                  {0, 0, 0},    {1, 5000000, 3},
                                  {7, 7, 49},   {5, 3, 0},
                                  {4000, 1, 0}, {4000, 1, 4000},
                                  {2, 9, 18},   {100000000, 4000000000, 5000000000},
                                  {33, 10, 1},  {31, 10, 310}};
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> power(0.0, 7.0);
  for (int i = 0; i < 200; ++i) {
    const Index examples = Index(std::pow(10, power(generator)));
    const Index width = Index(std::pow(10, power(generator)));
    const double row = std::min(double(width), std::pow(10, power(generator) / 2));
    all.push_back({examples, width, std::int64_t(row * double(examples))});
  }
  for (const RecipeFacts& facts : all)
    for (const RecipeKind kind : {RecipeKind::sigmoid, RecipeKind::softmax}) {
      SCOPED_TRACE(fmt::format("{} x {}, {} ones", facts.examples, facts.width, facts.entries));
      const NetworkDescriptor network = make_recipe(kind, facts);
      EXPECT_TRUE(std::isfinite(bias_of(network)));
      EXPECT_GT(network.training.rate, 0.0f);
      EXPECT_LT(network.training.rate, 0.02f);
      EXPECT_GE(network.training.batch, 1);
      EXPECT_LE(network.training.batch, std::max<Index>(1, facts.examples));
      EXPECT_GE(network.training.epochs, 8);
      EXPECT_LT(network.training.schedule.warm_up, 0.1f * float(network.training.epochs));
      test::expect_equal(parse_network_json(to_json(network), "recipe"), network);
    }
}

TEST(Recipe, LengthAndRateFollowWhatIsGiven) {
  const NetworkDescriptor usual = make_recipe(RecipeKind::sigmoid, kPackages);
  const NetworkDescriptor small = make_recipe(RecipeKind::sigmoid, kPackages, {128, {}, {}});
  EXPECT_EQ(small.training.batch, 128);
  EXPECT_LT(small.training.epochs, usual.training.epochs / 3);
  const NetworkDescriptor wide = make_recipe(RecipeKind::sigmoid, kPackages, {{}, {}, 1024});
  EXPECT_EQ(hidden_of(wide), 1024);
  const NetworkDescriptor brief = make_recipe(RecipeKind::sigmoid, kPackages, {{}, 20, {}});
  EXPECT_EQ(brief.training.epochs, 20);
  EXPECT_EQ(brief.training.schedule.warm_up, 1.0f);
  EXPECT_NEAR(wide.training.rate, usual.training.rate / 2, 0.05 * usual.training.rate);
}

TEST(Recipe, OfEaseHasNoHiddenLayerAndALambdaThatGrowsWithTheData) {
  float before = 0.0f;
  for (const Index entries : {0, 10000, 137005, 400000, 5000000}) {
    const NetworkDescriptor network = make_recipe(RecipeKind::ease, {17642, 7421, entries});
    EXPECT_EQ(network.find("Hidden"), nullptr);
    EXPECT_EQ(network.training.method, TrainingMethod::ease);
    EXPECT_GT(network.training.lambda, before);
    before = network.training.lambda;
  }
  EXPECT_EQ(make_recipe(RecipeKind::ease, kPackages).training.lambda, 30.0f);
}

TEST(Recipe, NamesAreKnownInAnyCase) {
  EXPECT_EQ(recipe_named("SoftMax"), RecipeKind::softmax);
  EXPECT_EQ(recipe_named("sigmoid"), RecipeKind::sigmoid);
  EXPECT_EQ(recipe_named("EASE"), RecipeKind::ease);
  EXPECT_FALSE(recipe_named("tanh").has_value());
}

TEST(RecipeInAText, GivesWhatTheTextDoesNotSay) {
  test::expect_equal(changed(R"({"Recipe": "Sigmoid"})"),
                     make_recipe(RecipeKind::sigmoid, kPackages));
  test::expect_equal(changed(R"({"recipe": "softmax"})", kDense),
                     make_recipe(RecipeKind::softmax, kDense));
}

TEST(RecipeInAText, WhatTheTextSaysWins) {
  const NetworkDescriptor network = changed(R"({
    "Recipe": "sigmoid", "Name": "mine", "DeltaBoost": {"one": 3},
    "Training": {"Seed": 5, "Epochs": 7, "RateSchedule": "Constant"},
    "Layers": [{"Name": "Output", "WeightInit": {"Bias": -2}, "DataSet": "b"},
               {"Name": "Hidden", "pDropout": 0.1}]})");
  NetworkDescriptor expected = make_recipe(RecipeKind::sigmoid, kPackages);
  expected.name = "mine";
  expected.boost_one = 3.0f;
  expected.training.seed = 5;
  expected.training.epochs = 7;
  expected.training.schedule.warm_up = 0.35f;
  expected.training.schedule.kind = RateKind::constant;
  expected.layers[1].dropout = 0.1f;
  expected.layers[2].init.bias = -2.0f;
  expected.layers[2].dataset = "b";
  test::expect_equal(network, expected);
}

TEST(RecipeInAText, FollowsItsBatchAndHiddenUnits) {
  test::expect_equal(changed(R"({"Training": {"Batch": 64}, "Recipe": "sigmoid",
                  "Layers": {"Name": "Hidden", "N": 100}})"),
                     make_recipe(RecipeKind::sigmoid, kPackages, {64, {}, 100}));
}

TEST(RecipeInAText, AsksForTheFactsOfTheOutputsDataSet) {
  std::vector<std::string> asked;
  changed(R"({"Recipe": "sigmoid"})", kPackages, &asked);
  changed(R"({"Recipe": "sigmoid", "Layers": [{"Name": "Output", "DataSet": "clicks"}]})",
          kPackages, &asked);
  EXPECT_THAT(asked, testing::ElementsAre("auto", "clicks"));
}

TEST(RecipeInAText, IsRefusedWithTheReason) {
  EXPECT_THAT(
      error_of(R"({"Recipe": "sigmoid"})", false),
      HasSubstr("net.json:1: Recipe needs the data that it is for: give them together, or what "
                "`print_recipe` writes"));
  EXPECT_THAT(error_of(R"({"Recipe": "tanh"})"), HasSubstr("Recipe \"tanh\" is unknown"));
  EXPECT_THAT(
      error_of(R"({"Recipe": "sigmoid", "Layers": [{"Name": "Second", "N": 5}]})"),
      HasSubstr(
          "layer \"Second\": is none of the recipe's layers Input, Hidden and Output; name one "
          "of them, or edit what `print_recipe` writes"));
  EXPECT_THAT(error_of(R"({"Recipe": "sigmoid", "Layers": [{"N": 5}]})"),
              HasSubstr("is none of the recipe's layers"));
  EXPECT_THAT(error_of(R"({"Recipe": "sigmoid", "Layers": [
                             {"Name": "Hidden"}, {"Name": "Hidden", "N": 5}]})"),
              HasSubstr("names of layers must differ"));
  EXPECT_THAT(error_of(R"({"Recipe": "sigmoid", "Training": {"Batch": 0}})"), HasSubstr("Batch"));
}

TEST(RecipeInAText, OfAWrongNameIsTheOneErrorAndHidesNoOther) {
  EXPECT_EQ(error_of(R"({"Recipe": "sigmod"})"),
            "net.json:1: Recipe \"sigmod\" is unknown; did you mean \"sigmoid\"? Known: sigmoid, "
            "softmax, ease");
  EXPECT_EQ(error_of(R"({"Recipe": 5, "Layers": [{"Name": "Hidden", "N": 512}]})"),
            "net.json:1: Recipe 5 is a number; expected one of sigmoid, softmax, ease");
  const std::string two = error_of(R"({"Recipe": "sigmod", "Layers": [{"Name": "Hiden"}]})");
  EXPECT_THAT(two, HasSubstr("did you mean \"sigmoid\"?"));
  EXPECT_THAT(two, HasSubstr("layer \"Hiden\": is none of the recipe's layers"));
}

}  // namespace
}  // namespace norn
