// SPDX-License-Identifier: Apache-2.0
// Features of the units of an output layer: what they come to, and tables in model files.
#include "src/data/tensor_file.h"
#include "src/engine/model/model_features.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"

#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

namespace norn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Steps of a network without hidden layers, whose output layer has the features given.
std::vector<double> costs_of(const LayerActivation& output, Index units, float rate,
                             std::shared_ptr<const FeatureTable> table, std::uint64_t seed) {
  Recipe recipe = recipe_base("features", Sgd{}, rate);
  recipe.network.training.lambda = recipe.network.training.lambda1 = 0.0f;
  recipe.data_seed = seed;
  recipe.network.layers = {input_layer("In", 133), output_layer("Out", units, {"In"}, output)};
  if (table) {
    recipe.network.layers[1].features = "one-hot";
    add_features(recipe.network, 1, std::move(table));
  }
  RecipeData data(recipe);
  const auto alone = make_single_process();
  const auto runtime = make_test_runtime(2);
  const auto network = network_of(recipe, runtime->context(*alone));
  return train_steps(*network, data, 12);
}

// A feature of each unit's own has the same gradients as its weights, so that both make the steps
// of one table at twice the rate, but for the rounding of sums in another order.
TEST(UnitFeatures, ThatAreOneHotAreATableAtTwiceTheRate) {
  std::mt19937_64 random(std::random_device{}());
  for (const LayerActivation& output :
       {LayerActivation(SoftMax{}), LayerActivation(Activation(Sigmoid{}))}) {
    const Index units = 30 + Index(random() % 300);
    const std::uint64_t seed = random();
    SCOPED_TRACE(fmt::format("{} units, data {}", units, seed));
    auto one_hot = std::make_shared<FeatureTable>();
    one_hot->features = units;
    for (Index unit = 0; unit < units; ++unit) {
      one_hot->column.push_back(Column((unit * 7 + 3) % units));
      one_hot->row_begin.push_back(unit + 1);
    }
    if (units % 7 == 0)
      for (Index unit = 0; unit < units; ++unit) one_hot->column[std::size_t(unit)] = Column(unit);
    const std::vector<double> by_features = costs_of(output, units, 0.05f, one_hot, seed);
    const std::vector<double> by_table = costs_of(output, units, 0.1f, nullptr, seed);
    ASSERT_EQ(by_features.size(), by_table.size());
    EXPECT_NE(by_table.front(), by_table.back());
    for (std::size_t step = 0; step < by_table.size(); ++step)
      EXPECT_NEAR(by_features[step], by_table[step],
                  2e-5 * tolerance_factor() * std::abs(by_table[step]));
  }
}

class FeatureItems : public testing::Test {
 protected:
  FeatureItems() {
    network_.layers = {input_layer("In", 9), output_layer("Out", 23, {"In"}, SoftMax{})};
    give_features(network_, "Out", 6, true, std::random_device{}());
  }
  ~FeatureItems() override { std::filesystem::remove(path_); }

  FeatureTable written(const std::function<void(std::string&, std::vector<double>&)>& spoil = {}) {
    {
      TensorFileWriter file(path_);
      define_features(file, network_);
      write_features(network_, [&](std::string item, Index first, ConstValues values) {
        if (const auto* numbers = std::get_if<std::span<const double>>(&values)) {
          std::vector<double> copy(numbers->begin(), numbers->end());
          if (spoil) spoil(item, copy);
          file.write(item, first, std::span<const double>(copy));
        } else {
          file.write(item, first, std::get<std::span<const float>>(values));
        }
      });
      file.commit();
    }
    NetworkDescriptor read = network_;
    read.layers[1].feature_table.reset();
    read_features(TensorFileReader(path_), read);
    return *read.layers[1].feature_table;
  }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / fmt::format("features_{}.nc", ::getpid());
  NetworkDescriptor network_;
};

TEST_F(FeatureItems, ComeBackAsTheyWere) {
  const FeatureTable& table = *network_.layers[1].feature_table;
  const FeatureTable read = written();
  EXPECT_EQ(read.features, table.features);
  EXPECT_EQ(read.row_begin, table.row_begin);
  EXPECT_EQ(read.column, table.column);
  EXPECT_EQ(read.value, table.value);
}

TEST_F(FeatureItems, ThatAreDamagedAreRefused) {
  const auto refused = [&](const char* ending, std::size_t at, double value) {
    EXPECT_THROW(written([&](std::string& item, std::vector<double>& numbers) {
                   if (item.ends_with(ending)) numbers.at(at) = value;
                 }),
                 DataError)
        << ending << " " << at << " " << value;
  };
  refused("Start", 0, 1);
  refused("Start", 2, 1e9);
  refused("Start", 3, 0.5);
  refused("Start", 4, -1);
  refused("Column", 0, 6);
  refused("Column", 0, -1);
  refused("Column", 1, 0);  // the first unit has all features
  refused("Column", 2, std::nan(""));
  try {
    written([](std::string& item, std::vector<double>& numbers) {
      if (item.ends_with("Start")) numbers.at(0) = 1;
    });
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(),
              path_.string() +
                  ": \"layer1_featureStart\" does not hold the features of a layer of "
                  "23 units; the file is damaged, use an older copy of it");
  }
}

TEST_F(FeatureItems, WithoutTheLayerOfWhatIsLearntAreRefused) {
  written();
  network_.layers.pop_back();
  try {
    read_features(TensorFileReader(path_), network_);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(),
              path_.string() + ": the layer \"Out features\" is missing; the file is damaged");
  }
}

class FeatureFaults : public testing::Test {
 protected:
  FeatureFaults() {
    network_.layers = {input_layer("In", 9), output_layer("Out", 7, {"In"}, Activation(Linear{}))};
    network_.layers[1].features = "kinds";
  }

  std::shared_ptr<const FeatureTable> table(Index units) {
    FeatureTable made;
    made.features = 5;
    made.column.assign(std::size_t(units), 2);
    for (Index unit = 0; unit < units; ++unit) made.row_begin.push_back(unit + 1);
    return std::make_shared<const FeatureTable>(std::move(made));
  }
  std::string fault(const std::vector<DatasetShape>& data = {}) {
    try {
      make_graph(network_, data, "net");
      return "none";
    } catch (const UsageError& error) {
      return error.what();
    }
  }

  NetworkDescriptor network_;
};

TEST_F(FeatureFaults, OfTables) {
  add_features(network_, 1, table(9));
  EXPECT_THAT(fault(), HasSubstr("Features \"kinds\" are of 9 units, and this layer has 7"));
  network_.layers[1].feature_table = table(7);
  EXPECT_EQ(fault(), "none");
  network_.layers[2].extent[0] = 4;
  EXPECT_THAT(fault(), HasSubstr("Features \"kinds\" need the layer \"Out features\" to be a "
                                 "FullyConnected Hidden layer of 5 units, one a feature"));
  network_.layers.pop_back();
  EXPECT_THAT(fault(),
              HasSubstr("Features \"kinds\" need the layer \"Out features\", which is missing"));
}

TEST_F(FeatureFaults, OfALayerOfAnotherWidth) {
  network_.layers.push_back(hidden_layer("Out features", 3, {"In"}, Linear{}));
  try {
    add_features(network_, 1, table(7));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "layer \"Out features\": N is 3, but data set \"kinds\" has 5 features; they must "
                 "be the same");
  }
}

TEST_F(FeatureFaults, OfWhatHasNone) {
  EXPECT_THAT(fault({{"In", 1, {9, 1, 1}, true}, {"Out", 1, {7, 1, 1}, true}}),
              HasSubstr("Features: data set \"kinds\" is not among the data; give it with them, or "
                        "remove the key"));
  network_.layers[1].factored.rule = FactoredRule::newton;
  network_.training.method = TrainingMethod::ease;
  EXPECT_THAT(fault(),
              AllOf(HasSubstr("Features \"kinds\" and Factored exclude each other: steps of a "
                              "factored layer know of its stored targets alone; remove one of the "
                              "two"),
                    HasSubstr("Features \"kinds\": EASE has no features; take another recipe, or "
                              "remove the key")));
}

}  // namespace
}  // namespace norn::test
