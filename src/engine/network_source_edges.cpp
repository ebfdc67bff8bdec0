// SPDX-License-Identifier: Apache-2.0
// Edges whose weights are shared out by source units: forward, the ranks' parts of a narrow layer's
// pre-activations are added up; backward, its delta is gathered, and what the source hears of it is
// summed where the source's units are.
#include "norn/base/error.h"
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {

Range Network::own_blocks(const UnitLayer& layer) const {
  return layer.partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
}

void Network::build_source_sums() {
  source_sums_.resize(units_.size());
  Index count = 0;
  for (int number : order_) {
    const UnitLayer* layer = unit_layer(number);
    if (!layer) continue;
    DeltaSum::Shape shape{batch_, layer->partition().width()};
    for (std::size_t c = 0; c < layer->connections.size(); ++c)
      if (layer->connections[c].by_source())
        shape.terms += unit_layer(layer->source_layers[c])->partition().blocks();
    if (shape.terms == 0) continue;
    shape.joins = context_.communicator.size() > 1;
    shape.format = FixedFormat::of_any_step(shape.terms);
    auto sum = std::make_unique<SourceSum>();
    Memory& memory = context_.compute.memory;
    sum->parts = DeltaSum(shape, memory);
    sum->z = Matrix<float>(batch_, layer->mine().count(), memory);
    sum->first_flag = 2 * count++;
    if (purpose_ == Pass::training) {
      sum->delta = Matrix<float>(batch_, shape.units, memory);
      if (context_.compute.kernels.rounds_operands)
        sum->rounded_delta = Matrix<Bfloat16>(batch_, shape.units, memory);
    }
    source_sums_[std::size_t(number)] = std::move(sum);
  }
  prediction_flags_ = Buffer<std::int64_t>::zeros(2 * count, context_.compute.memory);
}

// `flags`: two words for each sum. They become 0 after this, because sums look at their old ones.
void Network::begin_source_sums(Index examples, std::int64_t* flags) {
  for (const auto& sum : source_sums_)
    if (sum) sum->parts.begin(examples, flags + sum->first_flag);
}

void Network::begin_prediction(Index examples) {
  begin_source_sums(examples, prediction_flags_.data());
  prediction_flags_.fill_zero();
}

// A sum without the terms that were out of range must not pass for a prediction, on any rank.
void Network::require_sums_in_range() const {
  if (prediction_flags_.empty()) return;
  std::vector<std::int64_t> flags(std::size_t(prediction_flags_.size()));
  context_.collectives->wait_for_all(*context_.compute.kernels.queue);
  prediction_flags_.read(flags.data(), prediction_flags_.size());
  context_.communicator.all_reduce_sum(flags);
  for (int layer : order_)
    if (const auto& sum = source_sums_[std::size_t(layer)];
        sum && flags[std::size_t(sum->first_flag) + 1] != 0)
      throw DivergenceError(
          fmt::format("layer \"{}\": a pre-activation is not finite or too large; the model has "
                      "diverged, or the inputs are far from what it was trained on",
                      graph_.network.layers[std::size_t(layer)].name));
}

// Every block of every source, on whatever rank, gives one part of all of the layer's
// pre-activations. Ranks without units of the layer have parts too.
void Network::sum_source_parts(int number, Index examples) {
  SourceSum* sum = source_sums_[std::size_t(number)].get();
  if (!sum) return;
  const UnitLayer& layer = *unit_layer(number);
  const Compute& compute = context_.compute;
  DeltaSum& parts = sum->parts;
  const Index width = layer.partition().width();
  stage(layer.is_output() ? "output forward" : "hidden forward");
  for (std::size_t c = 0; c < layer.connections.size(); ++c) {
    const Connection& connection = layer.connections[c];
    if (!connection.by_source()) continue;
    const UnitLayer& source = *unit_layer(layer.source_layers[c]);
    const DenseOperand x = output_of(layer.source_layers[c], examples).dense;
    const Range blocks = own_blocks(source);
    compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
      const Range units = source.partition().units(blocks.begin + b);
      MatrixView<float> part = parts.next_term(compute);
      if (part.data == nullptr)
        part = {scratch_[std::size_t(lane)].dx.view().data, examples, width, width};
      connection.forward_part(compute, x.columns(units.begin, units.count()), units, part);
      parts.add(compute, 0, part);
    });
  }
  if (context_.collectives->size() > 1) {
    stage("reduce");
    join_words(parts, shares_[std::size_t(number)]);
  }
  stage("fixed point");
  parts.take(compute, layer.mine().begin, sum->z.first_rows(examples));
}

// z += what sum_source_parts() found for these units of this rank.
void Network::add_source_sum(const UnitLayer& layer, Range units, MatrixView<float> z) {
  SourceSum* sum = source_sums_[std::size_t(layer.settings().number)].get();
  if (!sum) return;
  context_.compute.kernels.pointwise->add(
      sum->z.first_rows(z.rows).columns(units.begin - layer.mine().begin, units.count()), z);
}

// Keeps the delta of these units of this rank for send_delta_by_source().
void Network::keep_delta_by_source(const UnitLayer& layer, Range units,
                                   MatrixView<const float> delta) {
  SourceSum* sum = source_sums_[std::size_t(layer.settings().number)].get();
  if (!sum || units.count() == 0) return;
  context_.compute.kernels.pointwise->copy(
      delta, sum->delta.first_rows(delta.rows).columns(units.begin, units.count()));
}

// The layer's delta, gathered, goes to the sources' units of this rank, then into their weights: in
// that order, because the sources must see the weights as they were.
void Network::send_delta_by_source(const UnitLayer& layer, Index examples, const WeightStep& step) {
  const int number = layer.settings().number;
  SourceSum* sum = source_sums_[std::size_t(number)].get();
  if (!sum) return;
  const Compute& compute = context_.compute;
  const MatrixView<float> whole = sum->delta.first_rows(examples);
  stage("gather");
  context_.collectives->all_gather_columns(whole, shares_[std::size_t(number)]);
  DenseOperand delta(whole);
  if (!sum->rounded_delta.empty()) {
    delta.rounded = sum->rounded_delta.first_rows(examples);
    compute.kernels.pointwise->round(whole, sum->rounded_delta.first_rows(examples));
  }
  for (std::size_t c = 0; c < layer.connections.size(); ++c)
    if (layer.connections[c].by_source())
      backward_by_source(layer.connections[c], layer.source_layers[c], delta, step,
                         layer.is_output());
}

void Network::backward_by_source(const Connection& connection, int source_layer,
                                 const DenseOperand& delta, const WeightStep& step,
                                 bool of_output) {
  UnitLayer& source = *unit_layer(source_layer);
  const Range mine = source.mine();
  if (mine.count() == 0) return;
  const Compute& compute = context_.compute;
  const Index examples = delta.rows();
  const DenseOperand x = output_of(source_layer, examples).dense;
  const MatrixView<float> term = source.delta_sum.next_term(compute);
  const Range blocks = own_blocks(source);
  compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
    const Range units = source.partition().units(blocks.begin + b);
    Scratch& scratch = scratch_[std::size_t(lane)];
    MatrixView<float> dx{scratch.dx.view().data, examples, units.count(), units.count()};
    if (term.data != nullptr) dx = term.columns(units.begin - mine.begin, units.count());
    stage(of_output ? "output input delta" : "hidden input delta");
    connection.source_delta(compute, delta, units, dx);
    if (term.data == nullptr) source.delta_sum.add(compute, units.begin, dx);
    stage(of_output ? "output update" : "hidden update");
    connection.update_by_source(compute, step, x.columns(units.begin, units.count()), delta, units,
                                scratch);
  });
  if (term.data != nullptr) source.delta_sum.add(compute, mine.begin, term);
}

}  // namespace norn
