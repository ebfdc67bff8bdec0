// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/dataset.h"
#include "norn/engine/context.h"
#include "norn/nn/layer.h"

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// A network at work on this rank: its part of every layer and weight matrix, and the steps that it
/// can make.
namespace norn {

/// One step's examples, for each layer that is bound to a data set (null for the others).
struct BoundBatch {
  std::vector<const HostBatch*> of_layer;
  std::vector<bool> ignore_absent;  ///< by layer: the data set says SparseIgnoreZero
  Index examples = 0;
};

/// An input layer at work: the batch as the first layers see it.
class InputLayer;
/// Batches on their way to the device.
class DeviceBatch;
struct BatchView;
/// By which units the ranks share out every edge's weights (src/engine/sharding.h).
struct Sharding;

class Network {
 public:
  /// `shapes` tell which inputs are sparse. `batch` is the largest number of examples of a step;
  /// with the layers' widths it fixes the blocks. Throws UsageError for networks that this build
  /// cannot run, naming layer and key.
  Network(Graph graph, const std::vector<DatasetShape>& shapes, const Context& context, Index batch,
          Pass purpose);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Graph& graph() const { return graph_; }
  const NetworkDescriptor& descriptor() const { return graph_.network; }
  Index batch() const { return batch_; }
  const Context& context() const { return context_; }
  /// The learning rate of step t = 0, 1, 2 ...
  float rate_at(std::int64_t t) const { return schedule_.rate_at(t); }

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
  /// steps_ahead() + 1 may be begun and not finished. On the CPU begin_step() does everything.
  void begin_step(const BoundBatch& batch, const StepPosition& position);
  FixedSum finish_step();
  int steps_in_flight() const { return int(in_flight_.size()); }
  /// How many steps may be begun before an earlier one is finished: 0 on the CPU.
  int steps_ahead() const { return context_.compute.kernels.queue->depth(); }
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
  void score_best(int output_layer, Index examples, const BestSearch& search, TopK& best);
  /// The outputs of an output layer for a batch, [B x width], in main memory, valid until the next
  /// step: the columns of this rank's units.
  MatrixView<const float> outputs(const BoundBatch& batch, int output_layer);
  /// The activations of a hidden layer for a batch, [B x width], in main memory, valid until the
  /// next step.
  MatrixView<const float> activations(const BoundBatch& batch, int hidden_layer);

  /// Layers that take part, sources first. A hidden layer that leads to no output takes no part.
  const std::vector<int>& order() const { return order_; }
  UnitLayer* unit_layer(int layer) { return units_[std::size_t(layer)].get(); }
  const UnitLayer* unit_layer(int layer) const { return units_[std::size_t(layer)].get(); }
  /// The weights of an edge of the graph; null for an edge that shares another's, and for layers
  /// that take no part.
  Weights* weights(int edge) { return weights_[std::size_t(edge)].get(); }
  const std::vector<Range>& shares(int layer) const { return shares_[std::size_t(layer)]; }
  /// Whether a layer is an input that multiplies entries by weights of their features; which they
  /// are must be set before the first batch. [units], the same on all ranks.
  bool weights_features(int layer) const;
  void set_feature_weights(int layer, const std::vector<float>& weights);
  std::vector<float> feature_weights(int layer) const;
  /// By layer, the labels of its units, for model files; unknown unless they are set.
  void set_unit_labels(std::vector<LabelTable> labels) { unit_labels_ = std::move(labels); }
  const std::vector<LabelTable>& unit_labels() const { return unit_labels_; }
  bool sparse_input(int layer) const { return sparse_input_[std::size_t(layer)]; }
  Index working_bytes() const;

 private:
  struct SharedGradient;
  struct OutputState;
  struct SourceSum;
  struct Overlap;

  void select_layers();
  void check_runnable() const;
  void build_layers();
  void build_weights();
  bool store_by_destination(int owner_edge) const;
  void build_shared_gradients();
  void build_scratch();
  void build_softmax_rows(Index blocks, OutputState& state);
  void build_outcome();
  void build_source_sums();
  void build_overlap();

  void load(const BoundBatch& batch, Pass pass, const StepPosition& position,
            bool with_targets = false);
  void stage(const char* name) { context_.compute.kernels.queue->stage(name); }
  void enqueue_step(const BoundBatch& batch, const StepPosition& position);
  void forward_hidden(const BoundBatch& batch, Pass pass, const StepPosition& position);
  void catch_up_batch(int input_layer, std::int64_t step);
  void forward_layer(int layer, Index examples, Pass pass, const StepPosition& position);
  void gather_output(UnitLayer& layer, Index examples, Pass pass);
  FixedSum join_outcome(std::vector<std::int64_t>& trouble, const FixedSum& cost);
  LayerOutput output_of(int layer, Index examples) const;
  Range own_blocks(const UnitLayer& layer) const;
  void pre_activation(const UnitLayer& layer, Range units, MatrixView<float> z);
  WeightStep weight_step(const StepPosition& position, Index examples) const;

  void begin_source_sums(Index examples, std::int64_t* flags);
  void begin_prediction(Index examples);
  void require_sums_in_range() const;
  void sum_source_parts(int layer, Index examples);
  void add_source_sum(const UnitLayer& layer, Range units, MatrixView<float> z);
  void keep_delta_by_source(const UnitLayer& layer, Range units, MatrixView<const float> delta);
  void send_delta_by_source(const UnitLayer& layer, Index examples, const WeightStep& step);
  void backward_by_source(const Connection& connection, int source, const DenseOperand& delta,
                          const WeightStep& step, bool of_output);

  FixedSum cost_and_outputs(const BoundBatch& batch, int visited, const BlockVisitor& visit);
  void enqueue_cost(int output_layer, const BoundBatch& batch, const BlockVisitor& visit);
  FixedSum read_cost(std::span<const std::int64_t> words);
  void enqueue_prediction(const BoundBatch& batch, int output_layer, const BlockVisitor& visit);
  void activate_block(const UnitLayer& layer, const OutputState& state, MatrixView<float> z);
  ScoredUnits scored_units(int output_layer, Range units, Index examples) const;
  MatrixView<const float> in_main_memory(MatrixView<const float> values);
  Index run_fused_output(int layer, const TargetView& target, const WeightStep& step,
                         Index examples, double* costs);
  void run_output(int layer, const BoundBatch& batch, const StepPosition& position);
  TargetView target_view(int layer, const BoundBatch& batch) const;
  void join_maxima(OutputState& state, VectorView<float> maximum);
  bool fused_statistics(int layer, const TargetView& target, MatrixView<float> maxima,
                        MatrixView<float> sums);
  void softmax_rows(int layer, const TargetView* target, Index examples, bool fuses = false);
  SoftMaxRows rows_of(const OutputState& state, Index examples) const;
  MatrixView<float> block_z(const UnitLayer& layer, Range units, Index examples, int lane);
  DenseOperand block_delta(int layer, const TargetView& target, Range units, MatrixView<float> z,
                           double* cost, int lane);
  bool may_fuse_delta(int layer) const;
  OutputBlock output_block(int layer, const TargetView& target, Range units, Index examples) const;
  std::optional<DenseOperand> fused_delta(int layer, const TargetView& target, Range units,
                                          Index examples, float scale, double* cost);
  void clip_output_deltas(int layer, const TargetView& target, Index examples);

  void backward_hidden(int layer, Index examples, const StepPosition& position);
  Index terms_of_rank(int layer, int rank) const;
  bool exchanges_terms(int layer) const;
  void join_terms(UnitLayer& unit);
  void join_words(DeltaSum& sum, std::span<const Range> shares);
  void receive_delta(int layer, Index examples, const StepPosition& position);
  void clip_deltas(UnitLayer& layer, Index examples);
  bool keeps_updates() const;
  void keep_update(const UnitLayer& layer, std::size_t connection, const LayerOutput& x,
                   const DenseOperand& delta, Range units, const WeightStep& step);
  void begin_maxima();
  void finish_maxima();
  void reduce_row_squares(Index examples);
  void clip_weights(Weights& weights, Range units, float limit);
  void build_weight_squares();
  bool bounds_sources_together(const UnitLayer& layer) const;
  void bound_weights_together();
  static void for_blocks_of(const UnitLayer& layer, Range units,
                            const std::function<void(Range)>& body);
  void send_delta(const UnitLayer& layer, const Connection& connection, UnitLayer& source,
                  const DenseOperand& delta, Range units, int lane);
  void backward_block(UnitLayer& layer, Range units, const DenseOperand& delta,
                      const WeightStep& step, int lane, bool with_sparse, bool may_wait);
  void update_weights(const UnitLayer& layer, std::size_t connection, const LayerOutput& x,
                      const DenseOperand& delta, Range units, const WeightStep& step, int lane);
  void update_sparse(UnitLayer& layer, const DenseOperand& delta, const WeightStep& step);
  void finish_sparse(UnitLayer& layer, const WeightStep& step);
  SharedGradient& shared_gradient(const UnitLayer& layer, std::size_t connection);
  void add_shared_gradients(UnitLayer& layer);
  void update_biases(const WeightStep& step, Index examples);
  void update_shared(const WeightStep& step);

  Context context_;
  Graph graph_;
  Index batch_;
  Pass purpose_;
  UpdateSchedule schedule_;
  std::vector<int> order_;
  std::unique_ptr<const Sharding> sharding_;
  std::vector<LabelTable> unit_labels_;                  // by layer, or empty
  std::vector<bool> sparse_input_;                       // by layer
  std::vector<BlockPartition> partitions_;               // by layer
  std::vector<std::vector<Range>> shares_;               // by layer: units of every rank
  std::vector<std::unique_ptr<InputLayer>> inputs_;      // by layer
  std::vector<std::unique_ptr<UnitLayer>> units_;        // by layer
  std::vector<std::unique_ptr<Weights>> weights_;        // by edge
  std::vector<std::unique_ptr<SharedGradient>> shared_;  // by edge that uses shared weights
  std::vector<std::unique_ptr<OutputState>> outputs_;    // by layer
  std::vector<std::unique_ptr<SourceSum>> source_sums_;  // by layer with edges by source
  std::unique_ptr<Overlap> overlap_;                     // in training
  Buffer<std::int64_t> prediction_flags_;                // of source sums, two each
  std::vector<std::unique_ptr<DeviceBatch>> batches_;    // by layer that is bound to a data set
  std::vector<bool> loaded_;                             // by layer: whether this step has one
  std::vector<BatchView> bound_;                         // by layer: the batch of this step
  std::vector<Scratch> scratch_;                         // by lane
  Buffer<FixedSum> row_squares_;                         // [lanes x B], with DeltaNorm
  std::vector<Buffer<double>> weight_squares_;           // by layer with WeightNorm over sources
  Buffer<float> host_values_;                            // of outputs() and activations()
  std::vector<Buffer<float>> visited_;                   // by lane: of predict_with_cost()

  // What the host learns of a step, as words in the device's memory: flags of the layers, one cost
  // for each output block, flags of the source sums. Each step in flight has a place in main memory
  // to copy them to.
  struct InFlight {
    StepPosition position;
    std::int64_t* words = nullptr;
    WorkQueue::Mark done = 0;
  };
  Buffer<std::int64_t>& outcome() { return outcomes_[outcome_]; }
  std::array<Buffer<std::int64_t>, 2> outcomes_;  // in turn: one is downloaded beside the next step
  std::size_t outcome_ = 0;
  std::vector<Index> first_cost_;  // by layer: word of the first own block's cost
  Index first_sum_flag_ = 0;       // word of the first source sum's flags
  std::vector<std::int64_t*> places_;
  std::size_t next_place_ = 0;
  std::deque<InFlight> in_flight_;
};

}  // namespace norn
