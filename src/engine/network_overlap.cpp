// SPDX-License-Identifier: Apache-2.0
// What a step does while ranks join their deltas: updates of weights that nothing waits for, in as
// large parts as the joining lasts. And the maxima of all deltas, joined at once, which only the
// next step needs.
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

#include <algorithm>

namespace norn {
namespace {

// So many units of an update that are done apart have the bits that they have together.
constexpr Index kUnitsApart = 128;

}  // namespace

void Network::build_overlap() {
  overlap_ = std::make_unique<Overlap>();
  if (purpose_ != Pass::training || context_.collectives->size() == 1) return;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const UnitLayer* unit = unit_layer(*it);
    if (!unit || unit->is_output() || !unit->delta_sum.allocated()) continue;
    overlap_->summed.push_back(*it);
    if (unit->settings().is_joined) overlap_->meetings.push_back(*it);
  }
  overlap_->maxima = Buffer<float>::zeros(Index(overlap_->summed.size()), context_.compute.memory);
  for (std::size_t i = 0; i < overlap_->summed.size(); ++i)
    unit_layer(overlap_->summed[i])->delta_sum.keep_maximum_at(overlap_->maxima.data() + i);
}

// Several lanes would write over deltas that wait.
bool Network::keeps_updates() const {
  return overlap_->next < overlap_->meetings.size() && context_.collectives->goes_beside() &&
         scratch_.size() == 1;
}

// Hidden layers' updates are small: they go with the next meeting. An output layer's is done in
// parts, one with each meeting to come, where that leaves the bits as they are.
void Network::keep_update(const UnitLayer& layer, std::size_t connection, const LayerOutput& x,
                          const DenseOperand& delta, Range units, const WeightStep& step) {
  const auto update = [=, this, &layer](Range part) {
    update_weights(layer, connection, x, delta.columns(part.begin - units.begin, part.count()),
                   part, step, 0);
  };
  const Kernels& kernels = context_.compute.kernels;
  Weights& weights = layer.connections[connection].weights();
  const bool splits =
      layer.is_output() && kernels.fused &&
      kernels.fused->update_splits(delta, x.dense, weights.values_of(units),
                                   weights.slots_of(units), weights.rounded_of(units));
  if (!splits) {
    overlap_->later.keep(overlap_->next, [=] { update(units); });
    return;
  }
  const std::vector<Index> parts = parts_beside(units.count(), x.dense.cols(), delta.rows());
  Index first = units.begin;
  if (parts[0] > 0) update({first, first + parts[0]});
  first += parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Range part{first, first + parts[i]};
    if (part.count() > 0) overlap_->later.keep(overlap_->next + i - 1, [=] { update(part); });
    first = part.end;
  }
}

// Units of an update to be done at once, then those of every meeting to come: so many that they
// take about as long as it does, and no more, because kernels beside a collective leave it a part
// of the device.
std::vector<Index> Network::parts_beside(Index units, Index weights_of_unit, Index examples) const {
  constexpr double kLinkShare = 10.0;    // memory is so many times as fast as the links of ranks
  constexpr double kStartBytes = 3e7;    // of memory in the time that a collective takes to begin
  constexpr double kUpdateBytes = 26.0;  // of a weight, with Adam
  const int rank = context_.communicator.rank();
  const std::size_t meetings = overlap_->meetings.size() - overlap_->next;
  const Index most = (units / Index(meetings) + kUnitsApart - 1) / kUnitsApart * kUnitsApart;
  std::vector<Index> parts(1 + meetings, 0);
  Index left = units;
  for (std::size_t i = 0; i < meetings; ++i) {
    const int layer = overlap_->meetings[overlap_->next + i];
    const double bytes = exchanges_terms(layer) ? 4.0 * double(terms_of_rank(layer, rank)) : 16.0;
    const double sent = bytes * double(examples) * double(partitions_[std::size_t(layer)].width());
    const double wanted =
        (kLinkShare * sent + kStartBytes) / (kUpdateBytes * double(weights_of_unit));
    const Index whole = (Index(wanted) + kUnitsApart - 1) / kUnitsApart * kUnitsApart;
    parts[i + 1] = std::min({whole, most, left});
    left -= parts[i + 1];
  }
  parts[0] = left / kUnitsApart * kUnitsApart;
  parts.back() += left - parts[0];
  return parts;
}

// Formats of the next step's sums follow from the largest values of all ranks.
void Network::begin_maxima() {
  if (overlap_->summed.empty()) return;
  stage("reduce");
  context_.collectives->beside([this] {
    context_.collectives->all_reduce_max(
        {overlap_->maxima.data(), std::size_t(overlap_->maxima.size())});
  });
}

void Network::finish_maxima() {
  if (overlap_->summed.empty()) return;
  stage("reduce");
  context_.collectives->join();
  for (int layer : overlap_->summed) unit_layer(layer)->delta_sum.adapt(context_.compute);
}

}  // namespace norn
