// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/facts.h"

#include <string>

/// Every array that a network holds beside its batches, declared once: a network at work allocates
/// from this table, a plan adds it up.
namespace norn {

/// What a lane needs, sized for the largest connection.
struct LaneTensors {
  Tensor z, dx, gradient, rounded_delta, turned_delta;
};

/// An output layer, streamed block by block.
struct OutputTensors {
  Tensor kept_z;                    ///< pre-activations of all own blocks, block after block
  Tensor block_maximum, block_sum;  ///< [own blocks x B], SoftMax
  Tensor rank_maximum;              ///< [ranks x B], with several ranks
  Tensor maximum, total, coupling;  ///< [B]
  Tensor target_places;             ///< where stored targets are, for blocks judged in the product
};

/// What joins a layer to sources whose weights are shared out by source units.
struct SourceSumTensors {
  DeltaSum::Tensors parts;  ///< [B x all units]
  Tensor z;                 ///< [B x own units]
  Tensor delta;             ///< [B x all units], in training
  Tensor rounded_delta;
};

/// The gradient that one connection gives to weights that it shares with others.
struct SharedTensors {
  Tensor part;  ///< this connection's
  Tensor sum;   ///< at the owner's edge: all connections'
};

struct StepTensors {
  explicit StepTensors(const StepFacts& facts);

  // By layer.
  Numbered<UnitLayer::Tensors> units;
  Numbered<OutputTensors> outputs;
  Numbered<SourceSumTensors> source_sums;
  Numbered<Tensor> feature_weights;  ///< of inputs with InputWeighting
  Numbered<Tensor> weight_squares;   ///< with WeightNorm over several sources
  // By edge.
  Numbered<WeightTensors> weights;
  Numbered<SharedTensors> shared;
  // Of all.
  LaneTensors lane;
  Tensor row_squares;       ///< [lanes x B], with DeltaNorm
  Tensor outcome;           ///< two of them: one is downloaded beside the next step
  Tensor prediction_flags;  ///< of sums over sources
  Tensor maxima;            ///< of all deltas, with several ranks

  /// visit(name of what it belongs to or "", tensor, how many there are)
  template <typename Visit>
  void for_each(const StepFacts& facts, const Visit& visit) const;
  Index bytes(const StepFacts& facts, Purpose purpose) const;

 private:
  void add_layer(const StepFacts& facts, int layer);
  void add_output(const StepFacts& facts, int layer);
  void add_edge(const StepFacts& facts, int edge);
  void add_lane(const StepFacts& facts);
};

/// "Hidden1 -> Output"
std::string edge_name(const StepFacts& facts, int edge);

template <typename Visit>
void StepTensors::for_each(const StepFacts& facts, const Visit& visit) const {
  for (int layer : facts.order()) {
    const std::string& name = facts.layer(layer).name;
    const auto one = [&](const Tensor& tensor, int count = 1) {
      if (count > 0 && !tensor.empty()) visit(name, tensor, count);
    };
    units[layer].for_each(one);
    const OutputTensors& output = outputs[layer];
    for (const Tensor* tensor :
         {&output.target_places, &output.block_maximum, &output.block_sum, &output.rank_maximum,
          &output.maximum, &output.total, &output.coupling, &output.kept_z, &weight_squares[layer],
          &feature_weights[layer]})
      one(*tensor);
    const SourceSumTensors& sum = source_sums[layer];
    sum.parts.for_each(one);
    for (const Tensor* tensor : {&sum.z, &sum.delta, &sum.rounded_delta}) one(*tensor);
  }
  for (int edge = 0; edge < facts.edges(); ++edge) {
    const std::string name = edge_name(facts, edge);
    const auto one = [&](const Tensor& tensor, int count) {
      if (count > 0 && !tensor.empty()) visit(name, tensor, count);
    };
    one(shared[edge].part, 1);
    one(shared[edge].sum, 1);
    weights[edge].for_each(one);
  }
  const auto of_all = [&](const Tensor& tensor, int count) {
    if (!tensor.empty()) visit(std::string(), tensor, count);
  };
  for (const Tensor* tensor :
       {&lane.z, &lane.dx, &lane.gradient, &lane.turned_delta, &lane.rounded_delta})
    of_all(*tensor, facts.settings().lanes);
  of_all(row_squares, 1);
  of_all(outcome, 2);
  of_all(prediction_flags, 1);
  of_all(maxima, 1);
}

}  // namespace norn
