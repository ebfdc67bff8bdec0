// SPDX-License-Identifier: Apache-2.0
// Networks of very many layers: work and messages that would grow with the square of their number.
#include "norn/base/problem.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"

#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::HasSubstr;

Graph graph_of(const std::string& layers) {
  return make_graph(parse_network_json("{\"Layers\": [" + layers + "]}", "net.json"), {}, "net");
}

// Each layer looked up among all others would be 10^10 looks.
TEST(ManyLayers, AreResolved) {
  constexpr int kLayers = 100000;
  std::string layers = R"({"N": 1})";
  for (int i = 1; i < kLayers; ++i) layers += R"(, {"N": 1})";
  EXPECT_EQ(int(graph_of(layers).order.size()), kLayers);
}

TEST(ManyLayers, ThatNameNoLayersAreToldOfInShort) {
  constexpr int kLayers = 20000;
  std::string layers = R"({"N": 1, "Name": "In"})";
  for (int i = 1; i < kLayers; ++i) layers += R"(, {"N": 1, "Source": "Inn"})";
  try {
    graph_of(layers);
    FAIL() << "no error";
  } catch (const ProblemsError& error) {
    ASSERT_EQ(int(error.problems().size()), kLayers - 1);
    EXPECT_THAT(error.problems().front().message, HasSubstr("; did you mean \"In\"? Layers: In, "));
    EXPECT_THAT(error.problems().front().message, HasSubstr(" and 19900 more"));
    EXPECT_LT(error.problems().front().message.size(), 2000u);
    EXPECT_LT(error.problems().back().message.size(), 100u);
  }
}

}  // namespace
}  // namespace norn
