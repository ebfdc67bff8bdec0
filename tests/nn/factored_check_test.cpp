// SPDX-License-Identifier: Apache-2.0
// What a factored output layer cannot be combined with is refused by name.
#include "norn/base/problem.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

const std::vector<DatasetShape> kData = {{"users", 1, {10, 1, 1}, true},
                                         {"items", 1, {20, 1, 1}, true},
                                         {"images", 1, {30, 1, 1}, false}};

struct Parts {
  std::string loss = "L2";
  std::string activation = "Linear";
  std::string network = {};  ///< keys of it
  std::string layer = {};    ///< keys of the factored one
  std::string before = R"({"N": 10, "DataSet": "users"}, {"Name": "Hidden", "N": 30})";
};

// What is said of a network that is to be trained.
std::string fault_of(const Parts& parts) {
  const std::string text = fmt::format(
      R"({{"ErrorFunction": "{}", "Training": {{"Lambda": 0{}}}, "Layers": [{},
           {{"Name": "Out", "N": 30, "Activation": "{}", "Factored": {{"Rule": "Newton"}}{}}}]}})",
      parts.loss, parts.network, parts.before, parts.activation, parts.layer);
  try {
    const Graph graph = make_graph(parse_network_json(text, "net.json"), kData, "net");
    if (const auto reason = why_not_runnable(graph, Use::prediction)) return *reason;
    return why_not_runnable(graph, Use::training).value_or("none");
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::string refused(const std::string& what) {
  return "layer \"Out\": Factored " + what;
}

TEST(FactoredCheck, AllowsWhatItsStepIsExactFor) {
  EXPECT_EQ(fault_of({}), "none");
  EXPECT_EQ(fault_of({.layer = R"(, "DataSet": "items")"}), "none");
  EXPECT_EQ(fault_of({.before = R"({"N": 30, "DataSet": "images"})"}), "none");
}

TEST(FactoredCheck, RefusesOtherLossesAndActivations) {
  EXPECT_EQ(fault_of({.activation = "Sigmoid"}),
            refused("needs Activation Linear, and that is Sigmoid; write \"Linear\", or remove "
                    "\"Factored\""));
  EXPECT_EQ(fault_of({.activation = "SoftMax"}),
            refused("needs Activation Linear, and that is SoftMax; write \"Linear\", or remove "
                    "\"Factored\""));
  EXPECT_EQ(fault_of({.loss = "Huber"}),
            refused("needs ErrorFunction L2, and that is Huber; write \"L2\", or remove "
                    "\"Factored\""));
}

TEST(FactoredCheck, RefusesOtherEdges) {
  const std::string several = refused(
      "needs one source and no skips, and there are 2; put a Hidden layer between them, or "
      "remove \"Factored\"");
  EXPECT_EQ(fault_of({.layer = R"(, "Skip": "Hidden")"}), several);
  EXPECT_EQ(fault_of({.layer = R"(, "Source": ["Hidden", "Other"])",
                      .before = R"({"N": 10, "DataSet": "users"}, {"Name": "Hidden", "N": 30},
                                   {"Name": "Other", "N": 3, "Source": "Hidden"})"}),
            several);
  EXPECT_EQ(
      fault_of({.layer = R"(, "SharedWeights": [{"InputLayer": "Last", "SourceInputLayer": "Hidden",
                                                "SourceOutputLayer": "Last"}])",
                .before = R"({"N": 10, "DataSet": "users"}, {"Name": "Hidden", "N": 30},
                             {"Name": "Last", "N": 30})"}),
      refused("needs weights of its own; remove \"SharedWeights\", or remove \"Factored\""));
  EXPECT_EQ(fault_of({.before = R"({"Name": "In", "N": 10, "DataSet": "users"})"}),
            "net:2: layer \"Out\": Factored needs a source of dense activations, and data set "
            "\"users\" of layer \"In\" is sparse; put a Hidden layer between them, or remove "
            "\"Factored\"");
  EXPECT_EQ(fault_of({.layer = R"(, "DataSet": "images")"}),
            "net:2: layer \"Out\": Factored is for sparse targets, and data set \"images\" is "
            "dense; import it as sparse, or remove \"Factored\"");
}

TEST(FactoredCheck, RefusesWhatLooksAtSingleWeights) {
  const auto clash = [](const std::string& key) {
    return refused("cannot be combined with " + key +
                   ", which looks at each weight of the layer; set that to 0, or remove "
                   "\"Factored\"");
  };
  EXPECT_EQ(fault_of({.layer = R"(, "WeightNorm": 2.5)"}),
            refused("cannot be combined with WeightNorm 2.5, which looks at each weight of the "
                    "layer; set that to 0, or remove \"Factored\""));
  EXPECT_EQ(fault_of({.layer = R"(, "DeltaNorm": 0.5)"}), clash("DeltaNorm 0.5"));
  EXPECT_EQ(fault_of({.network = R"(, "Lambda1": 0.25)"}), clash("Lambda1 0.25"));
  EXPECT_EQ(fault_of({.network = R"(, "ClipGradient": 3)"}), clash("ClipGradient 3"));
}

TEST(FactoredCheck, RefusesWeightsOfEntries) {
  EXPECT_EQ(fault_of({.layer = R"(, "EntryWeights": {"Scheme": "Value"})"}),
            refused("cannot be combined with EntryWeights; remove that key, or remove "
                    "\"Factored\""));
}

TEST(FactoredCheck, RefusesNumbersThatMakeNoStep) {
  const auto fault = [](const std::string& keys) {
    try {
      parse_network_json(R"({"Layers": [{"N": 3}, {"N": 4}, {"N": 3, )" + keys + "}]}", "net.json");
      return std::string("none");
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  const auto says = [&](const std::string& keys, const std::string& words) {
    EXPECT_NE(fault("\"Factored\": {" + keys + "}").find(words), std::string::npos)
        << fault("\"Factored\": {" + keys + "}");
  };
  says(R"("Rule": "Newton", "Damping": 0)",
       "Factored: Damping 0 is out of range; expected a number above 0");
  says(R"("Rule": "SGD", "FoldEvery": 0)", "Factored: FoldEvery 0 is out of range");
  says(R"("Rule": "SGD", "Rate": -1)",
       "Factored: Rate -1 is out of range; expected a number above 0");
  says(R"("Rule": "Adam")", "Factored: Rule \"Adam\" is unknown. Known: Newton, SGD");
  says(R"("FoldEvery": 3)", "Factored: Rule is missing; expected one of Newton, SGD");
  EXPECT_NE(fault(R"("Kind": "Hidden", "Factored": {"Rule": "SGD"})").find("Factored"),
            std::string::npos);
}

}  // namespace
}  // namespace norn
