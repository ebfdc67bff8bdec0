// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/batch_loader.h"
#include "src/engine/network/context.h"
#include "src/nn/layer.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

/// A network at work on this rank: its part of every layer and weight matrix, and the steps that it
/// can make.
namespace norn {

class Outcome;

/// What an op of a step took.
struct OpTime {
  std::string name;
  std::string place;  ///< the layer or the weights that it is for, or nothing
  double seconds = 0.0;
};

/// This rank's part of a weight matrix, or of a vector of a layer's units.
struct NetworkParameter {
  std::string name;  ///< "Hidden1 -> Output", "Hidden1 bias"
  int edge = -1;
  Weights* matrix = nullptr;
  int layer = -1;
  HeldBuffer<float>* vector = nullptr;
};

/// This rank's part of state that is no vector of a layer's units.
struct NetworkArray {
  const Tensor* tensor = nullptr;
  std::byte* data = nullptr;
};

class Network {
 public:
  /// `shapes` tell which inputs are sparse. `batch` is the largest number of examples of a step;
  /// with the layers' widths it fixes the blocks, by the rule of the device unless `blocks` is
  /// given. `by_example` as in StepSettings. Throws UsageError for networks that this build cannot
  /// run, naming layer and key.
  Network(Graph graph, const std::vector<DatasetShape>& shapes, const Context& context, Index batch,
          Pass purpose, const BlockRule* blocks = nullptr, std::vector<bool> by_example = {});
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Graph& graph() const;
  const NetworkDescriptor& descriptor() const { return graph().network; }
  Index batch() const;
  const Context& context() const;
  /// The learning rate of step t = 0, 1, 2 ...
  float rate_at(std::int64_t t) const;

  /// From step `step` on the rate is this, before Decay and but for the first `warm_up` steps of
  /// the run. Rows that lag behind go through the steps before with the rate of before.
  void set_rate(float rate, std::int64_t warm_up, std::int64_t step);

  /// Draws initial weights from the seed; biases take their layers' initial value.
  void initialise(std::uint64_t seed);

  /// One update: forward, cost, backward, with every rank. Returns the batch's cost summed over its
  /// examples. Throws DivergenceError naming layer and step when a delta or the cost is no longer
  /// finite.
  FixedSum train_step(const BoundBatch& batch, const StepPosition& position);
  /// The same in two halves, so that a GPU is never waited for: begin_step() hands the step over
  /// and may return before it is done; finish_step() waits for the oldest one begun. At most
  /// max_steps_in_flight() + 1 may be begun and not finished. On the CPU begin_step() does
  /// everything.
  void begin_step(const BoundBatch& batch, const StepPosition& position);
  FixedSum finish_step();
  int steps_in_flight() const;
  /// How many steps may be begun before an earlier one is finished: 0 on the CPU.
  int max_steps_in_flight() const { return context().compute.kernels.queue->depth(); }
  /// From now on steps are measured op by op, but for a network's first one; of a GPU's 50.
  void measure_ops();
  /// The mean of those on this rank, in the order of plan_step()'s ops; nothing where none was.
  std::vector<OpTime> op_times();
  /// Puts rows of sparse weights that lag behind through the steps before `step`. Before anything
  /// but training reads weights, and before they are saved.
  void catch_up(std::int64_t step);
  /// lambda / 2 * sum of w^2 + lambda1 * sum of |w|, shared matrices once. Weights must have caught
  /// up.
  double regularization_cost();

  /// The cost of a batch's targets as the network is, summed over its examples and all output
  /// layers: nothing is dropped and nothing learnt. Weights must have caught up, and no step may be
  /// in flight. Throws DivergenceError when it is not finite.
  FixedSum cost(const BoundBatch& batch);

  /// Called with the outputs of each block of this rank, from several lanes at a time. On a GPU
  /// they stand in its memory, and what the visitor does must be work for its queue.
  using BlockVisitor = std::function<void(Range units, MatrixView<const float> y, int lane)>;
  /// The outputs of one output layer for a batch.
  void predict(const BoundBatch& batch, int output_layer, const BlockVisitor& visit);
  /// predict() and cost() of the same batch, to the bit, in one pass over the network.
  FixedSum predict_with_cost(const BoundBatch& batch, int output_layer, const BlockVisitor& visit);
  /// A search for the best units of an output layer that does not write their scores.
  struct BestSearch {
    Index units;                    ///< the candidates: those below
    const Candidates& candidates;   ///< which of them, in the device's memory
    TopK& found;                    ///< just begun, longer than the list that is wanted
    Buffer<std::int64_t>& gave_up;  ///< [1] on the device: 1 when the lists are void
  };
  /// Whether the device can search `units` units of an output layer for lists of k.
  bool finds_best(int output_layer, Index units, Index k) const;
  /// Fills search.found with those of this rank's units that have the highest pre-activations.
  /// Only where the device finds them.
  void find_best(const BoundBatch& batch, int output_layer, const BestSearch& search);
  /// From the units that were found, on all ranks, to the best by score: `best` has just been
  /// begun.
  void score_best(int output_layer, const BestSearch& search, TopK& best);
  /// The outputs of an output layer for a batch, [B x width], in main memory, valid until the next
  /// step: the columns of this rank's units.
  MatrixView<const float> outputs(const BoundBatch& batch, int output_layer);
  /// The activations of a hidden layer for a batch, [B x width], in main memory, valid until the
  /// next step.
  MatrixView<const float> activations(const BoundBatch& batch, int hidden_layer);

  /// Layers that take part, sources first. A hidden layer that leads to no output takes no part.
  const std::vector<int>& order() const;
  UnitLayer* unit_layer(int layer);
  const UnitLayer* unit_layer(int layer) const;
  /// The weights of an edge of the graph; null for an edge that shares another's, and for layers
  /// that take no part.
  Weights* weights(int edge);
  const std::vector<Range>& shares(int layer) const;
  /// What a BatchLoader is to read of an input layer's data set: this rank's examples where no
  /// layer looks at others.
  ExamplesRead examples_read(int layer) const;
  /// All that the network has learnt or measured: matrices, then vectors of layers, sources first.
  std::vector<NetworkParameter> parameters();
  /// The vectors of a layer's own units that model files hold, in their order: parameters, and the
  /// state of the update rule.
  std::vector<HeldBuffer<float>*> unit_vectors(int layer);
  /// The state of any other shape that files hold to resume from.
  std::vector<NetworkArray> state_arrays(int layer);
  /// Whether an output layer's weights are a product in training (src/step/layers/factored.h); its
  /// columns of this rank's units, of which the last one after those of the source is the bias; and
  /// that weights or bias have been written.   w [own units x columns]
  bool is_factored(int layer) const;
  void factored_columns(int layer, Range columns, MatrixView<float> w);
  void restart_factors(int layer);
  /// All arrays that a step leaves behind for the next one: parameters and state.
  void for_each_state(const std::function<void(const Tensor& tensor, std::byte* data)>& visit);
  /// Whether a layer is an input that multiplies entries by weights of their features; which they
  /// are must be set before the first batch. [units], the same on all ranks.
  bool weights_features(int layer) const;
  void set_feature_weights(int layer, const std::vector<float>& weights);
  std::vector<float> feature_weights(int layer) const;
  /// By layer, the labels of its units, for model files; unknown unless they are set.
  void set_unit_labels(std::vector<LabelTable> labels);
  const std::vector<LabelTable>& unit_labels() const;
  /// How a search chose the network's settings, JSON, for model files; empty: none did.
  void set_chosen(std::string record);
  const std::string& chosen() const;
  /// Of activations, deltas and whatever else a step needs beside weights and their state.
  Index working_bytes() const;

 private:
  struct Parts;

  FixedSum cost_and_outputs(const BoundBatch& batch, int visited, const BlockVisitor& visit);
  FixedSum all_reduce_outcome(std::vector<std::int64_t>& trouble, const FixedSum& cost);
  FixedSum read_cost(const Outcome& outcome);
  void require_sums_in_range();
  /// The activations of all ranks' examples, of a layer by example.
  MatrixView<const float> rows_of_all(UnitLayer& layer, Index examples);
  MatrixView<const float> in_main_memory(MatrixView<const float> values);

  std::unique_ptr<Parts> parts_;
};

}  // namespace norn
