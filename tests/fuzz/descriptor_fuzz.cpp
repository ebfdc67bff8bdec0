// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any text is either a network that is written back and resolved, or a
// UsageError.
#include "norn/base/error.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "descriptor_fuzz: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norn;
  const std::vector<DatasetShape> datasets = {{"a", 1, {7, 1, 1}, true},
                                              {"gl_input", 1, {1000, 1, 1}, true},
                                              {"gl_output", 1, {1000, 1, 1}, true},
                                              {"input", 3, {32, 32, 3}, false}};
  NetworkDescriptor network;
  try {
    const std::string text(reinterpret_cast<const char*>(data), size);
    network = parse_network_json(text, "fuzz", [](const std::string&) {});
  } catch (const UsageError&) {
    return 0;
  }
  const std::string written = to_json(network);
  try {
    expect(to_json(parse_network_json(written, "written")) == written, "does not read back");
  } catch (const UsageError& error) {
    expect(false, error.what());
  }
  try {
    const Graph graph = make_graph(network, datasets, "fuzz");
    expect(graph.order.size() == graph.network.layers.size(), "a layer is not in the order");
    why_not_runnable(graph, Use::training);
    make_graph(parse_network_json(to_json(graph.network), "resolved"), datasets, "resolved");
  } catch (const UsageError&) {
  }
  return 0;
}
