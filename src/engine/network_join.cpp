// SPDX-License-Identifier: Apache-2.0
// Where ranks meet in a step: activations are gathered, deltas, norms and shared gradients joined.
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

namespace norn {

// In one collective, for it is made at every step.
FixedSum Network::join_outcome(std::vector<std::int64_t>& trouble, const FixedSum& cost) {
  if (context_.communicator.size() == 1) return cost;
  for (std::int64_t word : {cost.high(), cost.low(), cost.magnitude()}) trouble.push_back(word);
  context_.communicator.all_reduce_sum(trouble);
  const std::size_t at = trouble.size() - 3;
  const FixedSum all = FixedSum::from_words(trouble[at], trouble[at + 1], trouble[at + 2]);
  trouble.resize(at);
  return all;
}

// Every rank's activations of a hidden layer, as products read them.
void Network::gather_output(UnitLayer& unit, Index examples, Pass pass) {
  const Compute& compute = context_.compute;
  const std::vector<Range>& shares = shares_[std::size_t(unit.settings().number)];
  if (unit.settings().is_joined) {
    stage("gather");
    if (unit.gives_rounded(pass)) {
      context_.collectives->all_gather_columns(unit.rounded(examples), shares);
      return;
    }
    context_.collectives->all_gather_columns(unit.whole(examples), shares);
  }
  if (unit.is_softmax()) unit.softmax(compute, examples);
  unit.round_output(compute, examples);
  if (pass == Pass::training) unit.turn_output(compute, examples);
}

// Few terms go from rank to rank as they are; more are added up to words, which are reduced.
void Network::join_terms(UnitLayer& unit) {
  Collectives& collectives = *context_.collectives;
  DeltaSum& sum = unit.delta_sum;
  const int layer = unit.settings().number;
  const std::vector<Range>& shares = shares_[std::size_t(layer)];
  if (exchanges_terms(layer)) {
    std::vector<Index> counts;
    for (int r = 0; r < collectives.size(); ++r) counts.push_back(terms_of_rank(layer, r));
    sum.receive(collectives.exchange_columns(sum.waiting(), sum.examples(), counts, shares));
    return;
  }
  join_words(sum, shares);
}

void Network::join_words(DeltaSum& sum, std::span<const Range> shares) {
  Collectives& collectives = *context_.collectives;
  sum.fill_words(context_.compute);
  sum.join(
      [&](std::span<const MatrixView<std::int64_t>> words) {
        collectives.reduce_scatter_columns(words, shares);
      },
      [&](std::span<std::int64_t> flags) { collectives.all_reduce_sum(flags); });
}

// Joins what all destinations of a hidden layer, on all ranks, say about its activations.
void Network::receive_delta(int layer, Index examples, const StepPosition& position) {
  UnitLayer& unit = *units_[std::size_t(layer)];
  Collectives& collectives = *context_.collectives;
  const bool alone = collectives.size() == 1;
  if (!alone && unit.settings().is_joined) {
    stage("reduce");
    collectives.beside([&] { join_terms(unit); });
    overlap_->later.run(overlap_->next++);
    stage("reduce");
    collectives.join();
    stage("hidden delta");
  }
  unit.take_delta(context_.compute, examples, position, alone);
  if (!unit.is_softmax()) return;
  const SparsenessPenalty& sparseness = unit.settings().sparseness;
  if (sparseness.beta > 0.0f)
    context_.compute.kernels.normalization->sparseness_penalty(
        sparseness.p, sparseness.beta, unit.own(examples), unit.delta(examples));
  // The Jacobian of SoftMax joins all units of a row: every rank forms the whole rows.
  Matrix<float> rows(examples, unit.partition().width(), context_.compute.memory);
  const MatrixView<float> own = rows.view().columns(unit.mine().begin, unit.mine().count());
  PointwiseKernels& pointwise = *context_.compute.kernels.pointwise;
  pointwise.copy(unit.delta(examples), own);
  collectives.all_gather_columns(rows.view(), shares_[std::size_t(layer)]);
  pointwise.softmax_rows_backward(unit.whole(examples), rows.view());
  pointwise.copy(own, unit.delta(examples));
}

// Sums of squares of a row over all blocks and ranks, in fixed point: the lanes' sums, joined in
// the first lane's place.
void Network::reduce_row_squares(Index examples) {
  FixedSum* sums = row_squares_.data();
  // Several lanes, like several ranks, are the host's.
  for (std::size_t lane = 1; lane < scratch_.size(); ++lane)
    for (Index b = 0; b < examples; ++b) sums[b].add(sums[Index(lane) * batch_ + b]);
  // Their words may be added as they are.
  context_.collectives->all_reduce_sum(
      {reinterpret_cast<std::int64_t*>(sums), FixedSum::kWords * std::size_t(examples)});
}

// A layer that uses shared weights has filled its own part of their gradient: complete it and add
// it up.
void Network::add_shared_gradients(UnitLayer& layer) {
  const int number = layer.settings().number;
  for (std::size_t c = 0; c < layer.connections.size(); ++c) {
    const Connection& connection = layer.connections[c];
    if (!connection.shared()) continue;
    const int edge = graph_.sources[std::size_t(number)][c];
    const int owner = graph_.edges[std::size_t(edge)].shared_with;
    const MatrixView<float> part = shared_gradient(layer, c).part.view();
    const bool rows = connection.weights().shape().by_destination != connection.transposed();
    const std::vector<Range>& shares = shares_[std::size_t(number)];
    if (rows)
      context_.collectives->all_gather_rows(part, shares);
    else
      context_.collectives->all_gather_columns(part, shares);
    context_.compute.kernels.pointwise->add(
        part, shared_[std::size_t(owner >= 0 ? owner : edge)]->sum.view());
  }
}

}  // namespace norn
