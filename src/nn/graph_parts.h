// SPDX-License-Identifier: Apache-2.0
// The parts of make_graph() that look at data sets, skips and shared weights.
#pragma once

#include "norn/base/error.h"
#include "norn/base/text.h"
#include "norn/nn/graph.h"

#include <string>
#include <vector>

#include <fmt/format.h>

namespace norn::graph_parts {

/// Errors so far, each with the place of the descriptor.
class Faults {
 public:
  explicit Faults(std::string where) : where_(std::move(where)) {}
  void add(const std::string& message) { lines_.push_back(fmt::format("{}: {}", where_, message)); }
  void add(const LayerDescriptor& layer, const std::string& message) {
    add(fmt::format("layer \"{}\": {}", layer.name, message));
  }
  void throw_any() const {
    if (!lines_.empty()) throw UsageError(join(lines_, "\n"));
  }

 private:
  std::string where_;
  std::vector<std::string> lines_;
};

/// Gives "N": "auto" its extent; the size is a number from then on.
void bind_datasets(Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults);
/// Layers at least as wide as their data; of the data's very shape when both have several axes.
void check_widths(const Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults);
void check_skips(const Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults);
/// Sets shared_with and transposed of edges; chains lead to the edge that owns the weights.
void resolve_shared_weights(Graph& graph, Faults& faults);

}  // namespace norn::graph_parts
