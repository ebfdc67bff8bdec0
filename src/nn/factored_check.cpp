// SPDX-License-Identifier: Apache-2.0
// What a factored output layer cannot be combined with.
#include "kernels/named_variant.h"
#include "src/nn/graph_parts.h"
#include "src/nn/naming.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::graph_parts {
namespace {

class Check {
 public:
  Check(const Graph& graph, std::size_t number, Faults& faults)
      : graph_(graph),
        number_(int(number)),
        layer_(graph.network.layers[number]),
        faults_(faults) {}

  // What its step is exact for.
  void formulas() const {
    const Activation* f = std::get_if<Activation>(&layer_.activation);
    if (!f || !std::holds_alternative<Linear>(*f))
      fail(fmt::format("needs Activation Linear, and that is {}; write \"Linear\"",
                       f ? name_of(*f) : SoftMax::name));
    if (!std::holds_alternative<SquaredError>(graph_.network.loss))
      fail(fmt::format("needs ErrorFunction L2, and that is {}; write \"L2\"",
                       name_of(graph_.network.loss)));
  }

  void edges() const {
    const std::vector<int>& sources = graph_.sources[std::size_t(number_)];
    if (sources.size() != 1)
      fail(
          fmt::format("needs one source and no skips, and there are {}; put a Hidden layer "
                      "between them",
                      sources.size()));
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      const Edge& edge = graph_.edges[e];
      const int shared = edge.shared_with;
      if (shared >= 0 &&
          (edge.destination == number_ || graph_.edges[std::size_t(shared)].destination == number_))
        return fail("needs weights of its own; remove \"SharedWeights\"");
    }
  }

  // What looks at weights or gradients one by one.
  void elements() const {
    const TrainingDescriptor& training = graph_.network.training;
    if (layer_.weight_norm > 0.0f) clash("WeightNorm", layer_.weight_norm);
    if (layer_.delta_norm > 0.0f) clash("DeltaNorm", layer_.delta_norm);
    if (layer_.entry_weights.is_on()) fail("cannot be combined with EntryWeights; remove that key");
    if (training.lambda != 0.0f) clash("Lambda", training.lambda);
    if (training.lambda1 != 0.0f) clash("Lambda1", training.lambda1);
    if (training.clip_gradient != 0.0f) clash("ClipGradient", training.clip_gradient);
  }

 private:
  void clash(const char* key, float value) const {
    fail(
        fmt::format("cannot be combined with {} {}, which looks at each weight of the layer; set "
                    "that to 0",
                    key, value));
  }
  void fail(const std::string& message) const {
    faults_.add(layer_, "Factored", fmt::format("Factored {}, or remove \"Factored\"", message));
  }

  const Graph& graph_;
  int number_;
  const LayerDescriptor& layer_;
  Faults& faults_;
};

const DatasetShape* find(const std::vector<DatasetShape>& datasets, const std::string& name) {
  const auto found = std::ranges::find_if(
      datasets, [&](const DatasetShape& each) { return !name.empty() && each.name == name; });
  return found == datasets.end() ? nullptr : &*found;
}

}  // namespace

void find_idle_factors(const Graph& graph, Faults& faults) {
  for (std::size_t i = 0; i < graph.network.layers.size(); ++i) {
    if (!graph.network.layers[i].factored.is_on()) continue;
    const Check check(graph, i, faults);
    check.formulas();
    check.edges();
    check.elements();
  }
}

void check_factors(const Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults) {
  for (std::size_t i = 0; i < graph.network.layers.size(); ++i) {
    const LayerDescriptor& layer = graph.network.layers[i];
    if (!layer.factored.is_on()) continue;
    if (const DatasetShape* targets = find(datasets, layer.dataset);
        targets && !targets->gives_sparse_batches)
      faults.add(layer, "Factored",
                 fmt::format("Factored is for sparse targets, and data set \"{}\" is dense; import "
                             "it as sparse, or remove \"Factored\"",
                             targets->name));
    for (int edge : graph.sources[i]) {
      const LayerDescriptor& source =
          graph.network.layers[std::size_t(graph.edges[std::size_t(edge)].source)];
      const DatasetShape* inputs = find(datasets, source.dataset);
      if (source.kind != LayerKind::input || !inputs || !inputs->gives_sparse_batches) continue;
      faults.add(layer, "Factored",
                 fmt::format("Factored needs a source of dense activations, and data set \"{}\" of "
                             "layer \"{}\" is sparse; put a Hidden layer between them, or remove "
                             "\"Factored\"",
                             inputs->name, source.name));
    }
  }
}

}  // namespace norn::graph_parts
