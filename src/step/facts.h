// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/layer.h"
#include "src/nn/shapes.h"
#include "src/step/layouts.h"
#include "src/step/numbered.h"
#include "src/step/outcome.h"
#include "src/step/sharding.h"
#include "src/tensor/example_partition.h"

#include <vector>

/// All that is decided of a step before it is made, from sizes alone: what takes part, who owns
/// what, which sums there are and how large. A network at work and its plans read the same.
namespace norn {

/// What a step depends on beside the network.
struct StepSettings {
  Index batch = 1;
  int rank = 0;  ///< plans ask for rank 0, which owns the most
  int ranks = 1;
  int lanes = 1;
  Pass purpose = Pass::training;
  DeviceTraits device;
  bool exchanges = false;          ///< Collectives::exchanges()
  std::vector<bool> sparse_input;  ///< by layer: its data set gives sparse batches
  std::vector<bool> by_example;    ///< by layer: hidden ones that shall be so; none where empty
  std::vector<double> entries;     ///< by layer: stored entries of an example; plans of work only
};

/// Units of a rank's share. The graph must outlive it.
class StepFacts {
 public:
  StepFacts(const Graph& graph, StepSettings settings);

  const Graph& graph() const { return graph_; }
  const StepSettings& settings() const { return settings_; }
  const DeviceTraits& device() const { return settings_.device; }
  Index batch() const { return settings_.batch; }
  int ranks() const { return settings_.ranks; }
  bool training() const { return settings_.purpose == Pass::training; }
  bool on_gpu() const { return !settings_.device.is_host; }

  /// Layers that take part, sources first: those that lead to an output, or all where there is
  /// none.
  const std::vector<int>& order() const { return order_; }
  bool takes_part(int layer) const { return takes_part_[std::size_t(layer)]; }
  int layers() const { return int(graph_.network.layers.size()); }
  int edges() const { return int(graph_.edges.size()); }
  const LayerDescriptor& layer(int number) const {
    return graph_.network.layers[std::size_t(number)];
  }
  bool is_input(int layer) const { return this->layer(layer).kind == LayerKind::input; }
  bool is_hidden(int layer) const { return this->layer(layer).kind == LayerKind::hidden; }
  bool is_output(int layer) const { return this->layer(layer).kind == LayerKind::output; }
  bool is_softmax(int layer) const {
    return std::holds_alternative<SoftMax>(this->layer(layer).activation);
  }
  bool sparse_input(int layer) const { return settings_.sparse_input[std::size_t(layer)]; }
  double entries(int layer) const { return settings_.entries[std::size_t(layer)]; }

  /// Whether ranks share out the layer's units or the examples, and why.
  const LayerLayout& layout(int layer) const { return layouts_[std::size_t(layer)]; }
  bool by_example(int layer) const { return layout(layer).layout == Layout::by_example; }
  /// Of a batch of layers by example: this rank's, those of every rank, and how many runs each rank
  /// has that are not empty.
  Range own_examples(Index examples) const {
    return ExamplePartition::make(examples).examples_of(settings_.rank, settings_.ranks);
  }
  std::vector<Range> example_shares(Index examples) const;
  std::vector<Index> filled_runs(Index examples) const;
  /// Examples that this rank may have of any batch.
  Index example_capacity() const {
    return ExamplePartition::make(batch()).most_of(settings_.rank, settings_.ranks);
  }
  /// Of a layer by example: its units are `places` times `channels`, which stand channels last
  /// where they are computed. What an edge into one reads at a window.
  Index channels(int layer) const { return channels_together(graph_, layer); }
  Index places(int layer) const { return this->layer(layer).units() / channels(layer); }
  bool is_convolution(int layer) const {
    return this->layer(layer).type == LayerType::convolutional;
  }
  Window window(int edge) const;
  /// Whether the device reads the windows of a convolution's source where they stand, in bf16. Then
  /// a layer by example that feeds one by such an edge gives its rows in bf16, too, and the
  /// convolution its delta.
  bool reads_windows(int edge) const;
  bool gives_bf16_rows(int layer) const;
  bool gives_bf16_delta(int layer) const;
  /// Whether the outputs of a convolution are its function of one product and nothing else is kept
  /// of them, so that a device may apply the function in that product. Whether one convolution or
  /// pooling gives all of such a layer's delta: then that may apply the slope.
  bool activates_alone(int layer) const;
  bool gets_whole_delta(int layer) const;
  /// Whether that is what happens, in bf16 or tf32.
  bool activates_in_product(int layer) const;
  bool slopes_in_product(int layer) const;
  /// Whether the outputs of a layer by example, or its delta, stand in bf16 alone: on devices that
  /// compute so, where convolutions and poolings alone make them and read them.
  bool rows_in_bf16(int layer) const;
  bool delta_in_bf16(int layer) const;
  /// Whether a hidden layer feeds some by example, and whether one by example feeds some by unit:
  /// then the rows of all ranks are gathered.
  bool feeds_by_example(int layer) const { return feeds(layer, Layout::by_example); }
  bool gathers_rows(int layer) const { return by_example(layer) && feeds(layer, Layout::by_unit); }
  /// Of a layer by example: whether the sum of what layers by unit say is made beside the delta,
  /// because other floats are there, or it is in another order.
  bool takes_delta_aside(int layer) const {
    return sums_delta(layer) && (feeds_by_example(layer) || places(layer) > 1);
  }
  /// Of the edges from a layer by example to others, the one whose delta comes first backward.
  bool sends_first(int edge) const;

  const BlockPartition& partition(int layer) const { return partitions_[layer]; }
  /// Units of every rank; of a layer by example, those whose parameters it updates.
  const std::vector<Range>& shares(int layer) const { return shares_[layer]; }
  Range mine(int layer) const { return shares(layer)[std::size_t(settings_.rank)]; }
  Index units(int layer) const { return mine(layer).count(); }
  Range own_blocks(int layer) const {
    return partition(layer).blocks_of(settings_.rank, settings_.ranks);
  }

  const Edge& edge(int number) const { return graph_.edges[std::size_t(number)]; }
  /// All edges into a layer; those that are weight matrices; those from unit to unit.
  const std::vector<int>& sources(int layer) const { return graph_.sources[std::size_t(layer)]; }
  const std::vector<int>& matrices(int layer) const { return matrices_[layer]; }
  const std::vector<int>& unit_edges(int layer) const { return unit_edges_[layer]; }
  bool has_weights(int edge) const { return this->edge(edge).has_weights(); }
  bool edge_takes_part(int edge) const { return takes_part(this->edge(edge).destination); }
  bool is_sparse_source(int edge) const { return sparse_input(this->edge(edge).source); }
  int owner(int edge) const {
    const int shared = this->edge(edge).shared_with;
    return shared >= 0 ? shared : edge;
  }
  /// Edges that use the weights that `edge` owns, among those that take part.
  int users(int edge) const;
  bool is_shared(int edge) const { return users(owner(edge)) > 1; }
  /// How the weights that an edge uses are updated, and how vectors of layers' units are, biases
  /// among them; and how many arrays of state each of their elements has, none without training.
  const UpdateRule& rule(int edge) const;
  const UpdateRule& unit_rule() const { return graph_.network.training.optimizer; }
  int slots(int edge) const { return training() ? slots_of(rule(edge)) : 0; }
  int unit_slots() const { return training() ? slots_of(unit_rule()) : 0; }
  /// Whether an edge's weights are rows of destination units as it uses them, so that a product
  /// begins with the bias.
  /// Of an edge that owns its matrix.
  WeightStorage weight_storage(int owner_edge) const;
  bool begins_with_bias(int edge) const;
  WeightShape weight_shape(int owner_edge) const;

  /// docs/user/parallel.md: whether the ranks share out an edge by source units, and whether they
  /// gather a layer's activations and reduce its delta.
  bool by_source(int edge) const { return sharding_.by_source[std::size_t(edge)]; }
  bool gathers(int layer) const { return sharding_.gathered[std::size_t(layer)]; }
  /// Whether a layer's pre-activations are sums over blocks of its sources, and that sum.
  bool sums_over_sources(int layer) const;
  SumShape source_sum(int layer) const;

  /// Whether a hidden layer needs the delta of its activations; whether that is a sum in fixed
  /// point, or a part of it is, and of how many partial sums: blocks of all destinations, and one
  /// for an edge by source, without weights, or from a layer by unit to one by example, but one for
  /// each pair that a layer by unit compares it in; and how many a rank gives. Floats go from one
  /// layer by example to another.
  bool wants_delta(int layer) const;
  bool sums_delta(int layer) const { return wants_delta(layer) && delta_partial_sums(layer) > 0; }
  Index delta_partial_sums(int layer) const;
  Index partial_sums_of_rank(int layer, int rank) const;
  std::vector<Index> partial_sums_by_rank(int layer) const;
  /// Whether ranks send each other their partial sums as they are: the same on all ranks.
  bool exchanges_partial_sums(int layer) const;

  /// Of an edge into a Pooling layer by unit: how often it compares the source with others.
  Index comparisons(int edge) const;
  /// Whether an edge without weights leads from it.
  bool feeds_units(int layer) const;
  /// Whether all of its units are read as floats: by a DotProduct or Cosine, by example, or by
  /// features.
  bool gives_floats(int layer) const;
  /// A factored layer reads it, of which a rank gives columns of one sum.
  bool feeds_factored(int layer) const;

  /// Whether the shape of an output layer allows its product, cost and delta to be one kernel in
  /// training.
  bool may_fuse_delta(int layer) const { return fuses_[std::size_t(layer)]; }
  /// Whether a SoftMax layer's pre-activations stay between its passes.
  bool keeps_z(int layer) const;
  /// Units of a layer that one call may have.
  Index units_at_once(int layer) const;
  /// Whether an output layer's weights are a product in training, and after how many steps that is
  /// folded.
  bool is_factored(int layer) const {
    return training() && is_output(layer) && this->layer(layer).factored.is_on();
  }
  Index fold_every(int layer) const;
  /// After how many its Gram matrix V' V is summed anew, whose sums lose digits.
  Index gram_every(int layer) const { return 10 * fold_every(layer); }
  /// Whether its steps are made in matrices of the source's width, not of the batch: of training,
  /// and the same for the short batches of it.
  bool is_wide_batch(int layer) const;
  /// How many units' outputs are made at a time, where they are shown.
  Index shown_at_once(int layer) const;
  /// After how many steps the damped covariance is factorised anew: so often that it costs a part
  /// of them. Wide batches need it in every step. `width` counts the bias.
  static Index curvature_every(Index width, Index batch) {
    return 4 * batch >= 3 * width ? 1 : (width + batch - 1) / batch;
  }
  /// Whether a layer has a bound on the norm of each unit's weights from all its sources together.
  bool bounds_sources_together(int layer) const {
    return this->layer(layer).weight_norm > 0.0f && matrices(layer).size() > 1;
  }
  UnitLayer::Settings layer_settings(int layer) const;

  /// What the host learns of a step.
  const OutcomeLayout& outcome() const { return outcome_; }

 private:
  void find_participants();
  void sort_edges();
  void lay_out_outcome();
  bool feeds(int layer, Layout layout) const;
  bool pools(int layer) const;
  std::vector<int> edges_from(int layer) const;
  bool is_function_of_product(int layer) const;
  bool has_bf16_shape(int layer) const;
  bool takes_bf16_delta(int layer) const;
  /// Whether the device multiplies windows where they stand, and those of this edge.
  bool has_window_products() const { return device().precision.rounds(); }
  bool multiplies_windows(int edge) const;
  bool gives_bf16_delta_by(int edge) const;
  bool stored_by_destination(int owner_edge) const;
  bool decide_fusing(int layer) const;

  const Graph& graph_;
  StepSettings settings_;
  std::vector<bool> takes_part_;
  std::vector<int> order_;
  Numbered<std::vector<int>> matrices_;
  Numbered<std::vector<int>> unit_edges_;
  std::vector<LayerLayout> layouts_;
  Sharding sharding_;
  Numbered<BlockPartition> partitions_;
  Numbered<std::vector<Range>> shares_;
  std::vector<bool> fuses_;
  OutcomeLayout outcome_;
};

}  // namespace norn
