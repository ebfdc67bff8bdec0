// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"
#include "src/step/edges/edges.h"
#include "src/step/layers/rooms.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

/// Every array that a network holds beside its batches, declared once: a network at work gives it
/// memory, a plan adds it up.
namespace norn {

/// What connects a layer to sources whose weights are shared out by source units.
struct SourceSum {
  DeltaSum
      parts;  ///< [B x all units] of pre-activations, one partial sum for each block of a source
  HeldMatrix<float> z;              ///< [B x own units] their sum
  HeldMatrix<float> delta;          ///< [B x all units], in training
  HeldMatrix<Bfloat16> bf16_delta;  ///< [B x all units], where products read it
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    parts.for_each_tensor(visit);
    visit(z);
    visit(delta);
    visit(bf16_delta);
  }
};

/// The gradient that one connection gives to weights that it shares with others.
struct SharedGradient {
  HeldMatrix<float> part;  ///< this connection's
  HeldMatrix<float> sum;   ///< at the owner's edge: all connections', in the order in which their
                           ///< layers go backward
};

struct StepTensors {
  explicit StepTensors(const StepFacts& facts);

  // By layer.
  Numbered<std::unique_ptr<UnitLayer>> units;        ///< of all but input layers
  Numbered<step::LayerRoom> rooms;                   ///< what layers of its kind hold
  Numbered<std::vector<step::EdgeRoom>> unit_edges;  ///< as StepFacts::unit_edges()
  Numbered<std::unique_ptr<SourceSum>> source_sums;
  Numbered<HeldBuffer<double>> weight_squares;  ///< with WeightNorm over several sources
  template <typename Room>
  Room& room(int layer) {
    return std::get<Room>(rooms[layer]);
  }
  template <typename Room>
  const Room& room(int layer) const {
    return std::get<Room>(rooms[layer]);
  }
  // By edge.
  Numbered<std::unique_ptr<Weights>> weights;  ///< of those that own theirs
  Numbered<std::unique_ptr<SharedGradient>> shared;
  // Of all.
  std::vector<Workspace> workspace;  ///< by lane
  HeldBuffer<FixedSum> row_squares;  ///< [lanes x B], with DeltaNorm
  /// As StepFacts::outcome(), in turn: one is downloaded during the next step.
  std::array<HeldBuffer<std::byte>, 2> outcomes;
  HeldBuffer<SumFlags> prediction_flags;  ///< of sums over sources
  HeldBuffer<float> maxima;               ///< of hidden layers with a delta, last layers first

  /// visit(name of what it belongs to or "", array)
  template <typename Visit>
  void for_each(const StepFacts& facts, const Visit& visit);
  /// visit(array), of those that belong to a layer.
  template <typename Visit>
  void for_each_of(int layer, const Visit& visit);
  /// The same, of those that model files hold: vectors of its units, which are HeldBuffer<float>,
  /// parameters and state of the rule; and state of any other shape, whole or with a row a unit,
  /// which is float32 or float64.
  template <typename Visit>
  void for_each_item_of(int layer, const Visit& visit);
  /// All parameters of the network: matrix(edge, Weights), then vector(layer, HeldBuffer<float>).
  template <typename Matrix, typename Vector>
  void for_each_parameter(const StepFacts& facts, const Matrix& matrix, const Vector& vector);
  Index bytes(const StepFacts& facts, Purpose purpose);

 private:
  void add_layer(const StepFacts& facts, int layer);
  void add_edge(const StepFacts& facts, int edge);
  void add_lanes(const StepFacts& facts);
};

/// "Hidden1 -> Output"
std::string edge_name(const StepFacts& facts, int edge);

template <typename Visit>
void StepTensors::for_each_of(int layer, const Visit& visit) {
  if (units[layer]) units[layer]->for_each_tensor(visit);
  std::visit(
      [&]<typename Room>(Room& room) {
        if constexpr (!std::is_same_v<Room, std::monostate>) room.for_each_tensor(visit);
      },
      rooms[layer]);
  for (step::EdgeRoom& edge : unit_edges[layer])
    std::visit([&](auto& room) { room.for_each_tensor(visit); }, edge);
  if (source_sums[layer]) source_sums[layer]->for_each_tensor(visit);
  visit(weight_squares[layer]);
}

template <typename Visit>
void StepTensors::for_each_item_of(int layer, const Visit& visit) {
  for_each_of(layer, [&]<typename Array>(Array& array) {
    if (array.tensor().item.empty()) return;
    if constexpr (std::is_same_v<Array, HeldBuffer<float>>) {
      visit(array);
    } else if constexpr (std::is_same_v<Array, HeldMatrix<float>> ||
                         std::is_same_v<Array, HeldMatrix<double>> ||
                         std::is_same_v<Array, HeldBuffer<double>>) {
      require(array.tensor().purpose == Purpose::state,
              "StepTensors: parameters that are no weights are vectors of units, of float32");
      visit(array);
    } else {
      require(false, "StepTensors: model files hold float32 and float64");
    }
  });
}

template <typename Matrix, typename Vector>
void StepTensors::for_each_parameter(const StepFacts& facts, const Matrix& matrix,
                                     const Vector& vector) {
  for (int edge = 0; edge < facts.edges(); ++edge)
    if (weights[edge]) matrix(edge, *weights[edge]);
  for (int layer : facts.order())
    for_each_item_of(layer, [&]<typename Array>(Array& array) {
      if constexpr (std::is_same_v<Array, HeldBuffer<float>>)
        if (array.tensor().purpose == Purpose::parameter) vector(layer, array);
    });
}

template <typename Visit>
void StepTensors::for_each(const StepFacts& facts, const Visit& visit) {
  std::string name;
  const auto one = [&](auto& array) { visit(name, array); };
  for (int layer : facts.order()) {
    name = facts.layer(layer).name;
    for_each_of(layer, one);
  }
  for (int edge = 0; edge < facts.edges(); ++edge) {
    name = edge_name(facts, edge);
    if (weights[edge]) weights[edge]->for_each_tensor(one);
    if (!shared[edge]) continue;
    one(shared[edge]->part);
    one(shared[edge]->sum);
  }
  name.clear();
  for (Workspace& lane : workspace) lane.for_each_tensor(one);
  one(row_squares);
  for (auto& outcome : outcomes) one(outcome);
  one(prediction_flags);
  one(maxima);
}

}  // namespace norn
