// SPDX-License-Identifier: Apache-2.0
// The parts of make_graph() that look at data sets, skips and shared weights.
#pragma once

#include "norn/base/problem.h"
#include "src/base/text.h"
#include "src/nn/graph.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

namespace norn::graph_parts {

/// Errors so far, each with its place in the descriptor, which is that of the graph at hand; its
/// layers must stay where they are.
class Faults {
 public:
  Faults(std::string where, const NetworkDescriptor& network)
      : where_(std::move(where)), network_(network) {}
  /// An error of the network as a whole.
  void add(const std::string& message) { problems_.push_back({where_, 0, 0, {}, message}); }
  /// An error of a layer of the graph: of its key, or with an empty one of the layer itself.
  void add(const LayerDescriptor& layer, const std::string& key, const std::string& message);
  const std::vector<Problem>& problems() const { return problems_; }
  void throw_any() const {
    if (!problems_.empty()) throw ProblemsError(problems_);
  }

 private:
  std::string where_;
  const NetworkDescriptor& network_;
  std::vector<Problem> problems_;
};

/// Finds layers by name. The network must stay as it is.
class LayerNumbers {
 public:
  explicit LayerNumbers(const NetworkDescriptor& network) {
    for (std::size_t i = 0; i < network.layers.size(); ++i)
      numbers_.emplace(network.layers[i].name, int(i));
  }
  /// -1 when there is none.
  int of(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? -1 : found->second;
  }

 private:
  std::unordered_map<std::string_view, int> numbers_;
};

/// Which layers have a size that is a number: not those that are "auto" while the data are unknown,
/// nor those whose windows do not fit.
using KnownSizes = std::vector<bool>;

/// Sources and skips that are no layers.
std::vector<Problem> unknown_names(const NetworkDescriptor& network, const std::string& where);
/// Gives "N": "auto" its extent; the size is a number from then on.
void bind_datasets(Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults);
/// Layers at least as wide as their data; of the data's very shape when both have several axes.
void check_widths(const Graph& graph, const std::vector<DatasetShape>& datasets,
                  const KnownSizes& known, Faults& faults);
/// Features of units: the table that a layer names is there where `complete`, and fits.
void check_features(const Graph& graph, bool complete, const KnownSizes& known, Faults& faults);
/// Edges from unit to unit: between layers of the same width, from dense ones.
void check_edges_by_unit(const Graph& graph, const std::vector<DatasetShape>& datasets,
                         const KnownSizes& known, Faults& faults);
/// Windows, and whatever else computes by unit without adding up, see dense data only.
void check_windows(const Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults);
/// Convolutional layers and edges into them that no kernel computes.
void find_idle_windows(const Graph& graph, Faults& faults);
/// What of them training alone would do: what is said of units where they have channels, or of a
/// layer where they have places.
void find_idle_on_channels(const Graph& graph, Faults& faults);
/// Features are weighted in sparse data only.
void check_weighting(const Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults);
/// Entries are weighed in sparse data only, by a scheme that has the parameters which are given.
void check_entry_weights(const Graph& graph, const std::vector<DatasetShape>& datasets,
                         Faults& faults);
/// Images are moved in dense data only, by less than their size.
void check_augmentation(const Graph& graph, const std::vector<DatasetShape>& datasets,
                        const KnownSizes& known, Faults& faults);
/// What factored output layers cannot be combined with; and that their source is dense and their
/// targets sparse.
void find_idle_factors(const Graph& graph, Faults& faults);
void check_factors(const Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults);
/// Sets shared_with and transposed of edges; chains lead to the edge that owns the weights.
void resolve_shared_weights(Graph& graph, const KnownSizes& known, Faults& faults);
/// Whether those weights exist, and are stored as all their users read them: a sparse input reads
/// whole rows.
void check_shared_weights(const Graph& graph, const std::vector<DatasetShape>& datasets,
                          Faults& faults);

}  // namespace norn::graph_parts
