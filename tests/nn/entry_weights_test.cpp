// SPDX-License-Identifier: Apache-2.0
#include "src/nn/entry_weights.h"

#include "norn/base/problem.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace norn {
namespace {

TEST(EntryWeights, AreTheFormulasOfTheirSchemes) {
  std::mt19937_64 random(std::random_device{}());
  std::uniform_real_distribution<float> number(0.01f, 50.0f);
  for (int i = 0; i < 1000; ++i) {
    const float v = number(random);
    const float alpha = number(random), epsilon = number(random);
    const auto near = [](double x) { return 1e-6 * x; };
    EXPECT_EQ((EntryWeights{EntryWeightScheme::value}.weight(v)), v);
    const double linear = 1 + double(alpha) * double(v);
    EXPECT_NEAR((EntryWeights{EntryWeightScheme::linear, alpha}.weight(v)), linear, near(linear));
    const double log = 1 + double(alpha) * std::log(1 + double(v) / double(epsilon));
    EXPECT_NEAR((EntryWeights{EntryWeightScheme::log, alpha, epsilon}.weight(v)), log, near(log));
  }
}

TEST(EntryWeights, OfNothingAreOneButForTheValueItself) {
  EXPECT_EQ(EntryWeights{EntryWeightScheme::value}.weight(0.0f), 0.0f);
  EXPECT_EQ((EntryWeights{EntryWeightScheme::linear, 40.0f}.weight(0.0f)), 1.0f);
  EXPECT_EQ((EntryWeights{EntryWeightScheme::log, 40.0f, 0.1f}.weight(0.0f)), 1.0f);
  EXPECT_EQ(EntryWeights{}.weight(7.0f), 1.0f);
  EXPECT_FALSE(EntryWeights{}.is_on());
}

TEST(EntryWeights, ThatNoFloatHoldsAreInfinite) {
  const float most = std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isinf(EntryWeights{EntryWeightScheme::linear, 2.0f}.weight(most)));
  EXPECT_TRUE(std::isfinite(EntryWeights{EntryWeightScheme::log, 2.0f}.weight(most)));
}

TEST(EntryWeights, AreOfSparseTargetsByParametersOfTheirScheme) {
  const std::vector<DatasetShape> data = {{"users", 1, {10, 1, 1}, true},
                                          {"images", 3, {32, 32, 3}, false}};
  const auto with = [&](const std::string& set, const std::string& keys) -> std::string {
    const std::string text =
        R"({"Layers": [{"N": "auto", "DataSet": "users"}, {"N": "auto", "DataSet": ")" + set +
        R"(", "EntryWeights": {"Scheme": )" + keys + "}}]}";
    try {
      make_graph(parse_network_json(text, "net.json"), data, "net");
      return "none";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(with("users", R"("Value")"), "none");
  EXPECT_EQ(with("users", R"("linear", "Alpha": 40)"), "none");
  EXPECT_EQ(with("users", R"("Log", "Alpha": 2, "Epsilon": 0.1)"), "none");
  EXPECT_EQ(with("images", R"("Linear")"),
            "net:1: layer \"Output1\": EntryWeights Linear is for sparse targets, and data set "
            "\"images\" is dense: its values are targets; remove the key, or import the data as "
            "sparse");
  EXPECT_EQ(with("users", R"("Value", "Alpha": 2)"),
            "net:1: layer \"Output1\": EntryWeights: Alpha 2 has no effect with Scheme Value; "
            "remove it");
  EXPECT_EQ(with("users", R"("Linear", "Epsilon": 2)"),
            "net:1: layer \"Output1\": EntryWeights: Epsilon 2 has no effect with Scheme Linear; "
            "remove it");
  for (const auto& [keys, fault] : std::vector<std::pair<std::string, std::string>>{
           {R"("Linear", "Alpha": -1)", "EntryWeights: Alpha -1 is out of range"},
           {R"("Log", "Epsilon": 0)", "EntryWeights: Epsilon 0 is out of range"},
           {R"("TFIDF")", "EntryWeights: Scheme \"TFIDF\" is unknown. Known: Value, Linear, Log"}})
    EXPECT_NE(with("users", keys).find(fault), std::string::npos) << with("users", keys);
}

}  // namespace
}  // namespace norn
