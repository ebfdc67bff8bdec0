// SPDX-License-Identifier: Apache-2.0
// One update: forward through the hidden layers, the output layers block by block, backward, with
// the collectives that join the ranks. Layers themselves know nothing of ranks.
#include "norn/base/error.h"
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

namespace norn {

WeightStep Network::weight_step(const StepPosition& position, Index examples) const {
  return {graph_.network.training.optimizer, schedule_, position.step, 1.0f / float(examples)};
}

FixedSum Network::train_step(const BoundBatch& batch, const StepPosition& position) {
  require(in_flight_.empty(), "Network::train_step: steps begun before must be finished first");
  begin_step(batch, position);
  return finish_step();
}

void Network::begin_step(const BoundBatch& batch, const StepPosition& position) {
  require(purpose_ == Pass::training, "Network::train_step: the network was built for prediction");
  require(batch.examples >= 1 && batch.examples <= batch_,
          "Network::train_step: batch is empty or larger than planned");
  require(in_flight_.size() < places_.size(), "Network::begin_step: too many steps are in flight");
  WorkQueue& queue = *context_.compute.kernels.queue;
  load(batch, Pass::training, position);
  outcome_ = 1 - outcome_;
  queue.run([&] { enqueue_step(batch, position); });
  InFlight step{position, places_[next_place_++ % places_.size()]};
  queue.download(step.words, outcome().data(), std::size_t(outcome().bytes()));
  step.done = queue.mark();
  in_flight_.push_back(step);
}

// Puts the batch where the kernels can read it, prepared for the first layers; predictions need no
// targets.
void Network::load(const BoundBatch& batch, Pass pass, const StepPosition& position,
                   bool with_targets) {
  loaded_.assign(batches_.size(), false);
  for (int layer : order_) {
    const auto at = std::size_t(layer);
    require(!inputs_[at] || inputs_[at]->is_ready(),
            "Network: weights of features were not set; call weigh_features, or load a model");
    if (!batches_[at] || !batch.of_layer[at]) continue;
    if (pass == Pass::prediction && !inputs_[at] && !with_targets) continue;
    batches_[at]->load(context_, *batch.of_layer[at]);
    loaded_[at] = true;
  }
  context_.compute.kernels.queue->prepare([&] {
    for (std::size_t at = 0; at < batches_.size(); ++at)
      if (loaded_[at]) bound_[at] = batches_[at]->view(context_.compute);
    if (pass == Pass::training)
      for (std::size_t at = 0; at < outputs_.size(); ++at)
        if (outputs_[at] && outputs_[at]->target_runs && loaded_[at] && bound_[at].is_sparse)
          outputs_[at]->target_runs->begin(context_.compute, bound_[at].sparse);
    for (int layer : order_) {
      const auto at = std::size_t(layer);
      if (!inputs_[at]) continue;
      require(batch.of_layer[at] != nullptr, "Network: an input layer has no data set");
      inputs_[at]->prepare(context_.compute, bound_[at], batch_, pass, purpose_ == Pass::training,
                           position);
    }
  });
}

void Network::enqueue_step(const BoundBatch& batch, const StepPosition& position) {
  overlap_->next = 0;
  overlap_->later.clear();
  stage("batch");
  for (int layer : order_)
    if (UnitLayer* unit = unit_layer(layer); unit && unit->delta_sum.allocated())
      unit->delta_sum.begin(batch.examples, outcome().data() + 2 * layer);
  begin_source_sums(batch.examples, outcome().data() + first_sum_flag_);
  outcome().fill_zero();
  forward_hidden(batch, Pass::training, position);
  if (context_.compute.kernels.fused) context_.compute.kernels.fused->begin_totals();
  stage("other");
  for (int layer : order_)
    if (outputs_[std::size_t(layer)]) run_output(layer, batch, position);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it)
    if (units_[std::size_t(*it)] && !outputs_[std::size_t(*it)])
      backward_hidden(*it, batch.examples, position);
  overlap_->later.run_all();
  begin_maxima();
  stage("bias update");
  update_biases(weight_step(position, batch.examples), batch.examples);
  stage("other");
  update_shared(weight_step(position, batch.examples));
  bound_weights_together();
  finish_maxima();
  stage("end");
}

FixedSum Network::finish_step() {
  require(!in_flight_.empty(), "Network::finish_step: no step was begun");
  const InFlight step = in_flight_.front();
  in_flight_.pop_front();
  context_.collectives->wait(*context_.compute.kernels.queue, step.done);
  const auto& layers = graph_.network.layers;
  // One word a layer, which ranks add up: costs that are not finite, or deltas of a hidden layer,
  // count 1, sums of SoftMax that are out of range 2^32. Then one a layer for its source sum.
  constexpr std::int64_t kSumOutOfRange = std::int64_t(1) << 32;
  std::vector<std::int64_t> trouble(2 * layers.size(), 0);
  FixedSum cost;
  const Communicator& ranks = context_.communicator;
  for (int layer : order_) {
    const auto at = std::size_t(layer);
    const bool flagged = step.words[2 * at + 1] != 0;
    if (units_[at] && flagged) trouble[at] = outputs_[at] ? kSumOutOfRange : 1;
    if (const auto& sum = source_sums_[at])
      trouble[layers.size() + at] = step.words[first_sum_flag_ + sum->first_flag + 1];
    if (!outputs_[at]) continue;
    const Range blocks = units_[at]->partition().blocks_of(ranks.rank(), ranks.size());
    for (Index b = 0; b < blocks.count(); ++b) {
      const double part = std::bit_cast<double>(step.words[first_cost_[at] + b]);
      if (std::isfinite(part))
        cost.add(part);
      else
        trouble[at] += 1;
    }
  }
  const FixedSum all = join_outcome(trouble, cost);
  const auto divergence = [&](int layer, const char* what) {
    return DivergenceError(fmt::format(
        "layer \"{}\": {} at step {} (epoch {}); lower the learning rate",
        layers[std::size_t(layer)].name, what, step.position.step, step.position.epoch + 1));
  };
  for (int layer : order_)  // these come first in a step
    if (trouble[layers.size() + std::size_t(layer)] != 0)
      throw divergence(layer, "a pre-activation is not finite or beyond 2^34");
  for (int layer : order_) {
    const std::int64_t of_layer = trouble[std::size_t(layer)];
    if (of_layer == 0) continue;
    throw divergence(layer, !outputs_[std::size_t(layer)] ? "a delta is not finite"
                            : of_layer % kSumOutOfRange == 0
                                ? "a sum over its units is beyond 2^26, check the targets' values,"
                                : "the cost is not finite");
  }
  if (!all.is_finite())
    throw DivergenceError(fmt::format(
        "the cost is beyond 2^62 at step {} (epoch {}), check the targets' values, or lower the "
        "learning rate",
        step.position.step, step.position.epoch + 1));
  return all;
}

void Network::forward_hidden(const BoundBatch& batch, Pass pass, const StepPosition& position) {
  for (int layer : order_) {
    const auto at = std::size_t(layer);
    if (inputs_[at]) {
      if (pass == Pass::training) catch_up_batch(layer, position.step);
    } else if (!outputs_[at]) {
      forward_layer(layer, batch.examples, pass, position);
    }
  }
}

// The products of this batch must see the rows that it reads as the dense rule would have left
// them.
void Network::catch_up_batch(int input_layer, std::int64_t step) {
  const LayerOutput& x = inputs_[std::size_t(input_layer)]->output();
  if (!x.is_sparse) return;
  for (int edge : graph_.destinations[std::size_t(input_layer)]) {
    Weights* weights = weights_[std::size_t(edge)].get();
    stage("rows caught up");
    if (weights && weights->users == 1)
      context_.compute.kernels.sparse->catch_up(graph_.network.training.optimizer, schedule_, step,
                                                *x.transposed,
                                                weights->row_state(weights->shape().mine));
  }
}

// All own units at once. Sums over sparse sources do not depend on blocks; products with dense
// sources are told where the blocks are, so that their bits do not depend on how many of them a
// rank owns.
void Network::forward_layer(int layer, Index examples, Pass pass, const StepPosition& position) {
  UnitLayer& unit = *units_[std::size_t(layer)];
  const Compute& compute = context_.compute;
  // The product that the bias goes into comes first of all.
  const auto first_sparse =
      std::find_if(unit.connections.begin(), unit.connections.end(),
                   [](const Connection& connection) { return connection.sparse_source(); });
  const bool has_sparse = first_sparse != unit.connections.end();
  const Connection* with_bias = nullptr;
  if (has_sparse)
    with_bias = &*first_sparse;
  else if (!unit.connections.empty() && unit.connections[0].begins_with_bias())
    with_bias = &unit.connections[0];
  const auto connection_forward = [&](bool sparse) {
    for (std::size_t c = 0; c < unit.connections.size(); ++c) {
      const Connection& connection = unit.connections[c];
      if (connection.sparse_source() != sparse || connection.by_source()) continue;
      const LayerOutput x = output_of(unit.source_layers[c], examples);
      if (&connection == with_bias)
        unit.begin_with_product(compute, connection, x, examples);
      else
        connection.forward(compute, x, unit.mine(), unit.block(), unit.own(examples));
    }
  };
  sum_source_parts(layer, examples);
  if (unit.mine().count() > 0) {
    stage("sparse forward");
    if (!with_bias) unit.begin_forward(compute, examples);
    if (has_sparse) connection_forward(true);
    stage("hidden forward");
    connection_forward(false);
    add_source_sum(unit, unit.mine(), unit.own(examples));
    for (int skip : graph_.skips[std::size_t(layer)]) {
      const LayerOutput source = output_of(skip, examples);
      compute.kernels.pointwise->add(
          source.dense.values.columns(unit.mine().begin, unit.mine().count()), unit.own(examples));
    }
    stage("activation");
    unit.finish_forward(compute, examples, pass, position);
  }
  gather_output(unit, examples, pass);
}

LayerOutput Network::output_of(int layer, Index examples) const {
  const auto at = std::size_t(layer);
  return inputs_[at] ? inputs_[at]->output() : units_[at]->output(examples);
}

Network::SharedGradient& Network::shared_gradient(const UnitLayer& layer, std::size_t connection) {
  return *shared_[std::size_t(graph_.sources[std::size_t(layer.settings().number)][connection])];
}

// The delta of one block, or of several one after the other, goes down to the sources, then into
// the weights: in that order, because the sources must see the weights as they were. `may_wait`:
// the delta stays where it is, so weights may be updated later.
void Network::backward_block(UnitLayer& layer, Range units, const DenseOperand& delta,
                             const WeightStep& step, int lane, bool with_sparse, bool may_wait) {
  for (std::size_t c = 0; c < layer.connections.size(); ++c) {
    const Connection& connection = layer.connections[c];
    if (connection.by_source()) continue;
    const LayerOutput x = output_of(layer.source_layers[c], delta.rows());
    const auto source = std::size_t(layer.source_layers[c]);
    if (units_[source]) send_delta(layer, connection, *units_[source], delta, units, lane);
    if (x.is_sparse && !with_sparse) continue;
    if (!connection.shared()) {
      may_wait && !x.is_sparse && keeps_updates()
          ? keep_update(layer, c, x, delta, units, step)
          : update_weights(layer, c, x, delta, units, step, lane);
      continue;
    }
    stage(layer.is_output() ? "output update" : "hidden update");
    for_blocks_of(layer, units, [&](Range part) {
      connection.gradient(context_.compute, step.scale, x,
                          delta.columns(part.begin - units.begin, part.count()), part,
                          shared_gradient(layer, c).part.view());
    });
  }
}

// Weights of one connection that only it uses. Where its source is sparse, all own units of an
// output block.
void Network::update_weights(const UnitLayer& layer, std::size_t connection, const LayerOutput& x,
                             const DenseOperand& delta, Range units, const WeightStep& step,
                             int lane) {
  stage(layer.is_output() ? "output update" : "hidden update");
  const Connection& with = layer.connections[connection];
  with.update(context_.compute, step, x, delta, units, layer.block(), scratch_[std::size_t(lane)]);
  const float limit = layer.descriptor().weight_norm;
  if (limit > 0.0f && !x.is_sparse && !bounds_sources_together(layer))
    clip_weights(with.weights(), units, limit);
}

void Network::for_blocks_of(const UnitLayer& layer, Range units,
                            const std::function<void(Range)>& body) {
  const Index width = layer.partition().block_width();
  for (Index first = units.begin; first < units.end; first += width)
    body({first, std::min(first + width, units.end)});
}

// Each block's part of the delta of one source.
void Network::send_delta(const UnitLayer& layer, const Connection& connection, UnitLayer& source,
                         const DenseOperand& delta, Range units, int lane) {
  const Compute& compute = context_.compute;
  const Index width = layer.partition().block_width();
  for (Index first = units.begin; first < units.end;) {
    stage(layer.is_output() ? "output input delta" : "hidden input delta");
    DeltaSum::Places dx =
        source.delta_sum.next_terms(compute, (units.end - first + width - 1) / width);
    if (dx.count == 0) {
      dx.of[0] = {scratch_[std::size_t(lane)].dx.view().data, delta.rows(), connection.sources(),
                  connection.sources()};
      dx.count = 1;
    }
    const Range part{first, std::min(first + dx.count * width, units.end)};
    connection.input_delta(compute, delta.columns(first - units.begin, part.count()), part,
                           layer.block(), dx.all());
    stage("fixed point");
    for (const MatrixView<float>& term : dx.all()) source.delta_sum.add(compute, 0, term);
    first = part.end;
  }
}

void Network::clip_weights(Weights& weights, Range units, float limit) {
  const Compute& compute = context_.compute;
  compute.kernels.update->clip_row_norms(limit, weights.values_of(units));
  if (const MatrixView<Bfloat16> rounded = weights.rounded_of(units); !rounded.empty())
    compute.kernels.pointwise->round(weights.values_of(units), rounded);
}

// Weights of sparse sources of a hidden layer: all own units at once, so that a touched row is gone
// through once.
void Network::update_sparse(UnitLayer& layer, const DenseOperand& delta, const WeightStep& step) {
  for (std::size_t c = 0; c < layer.connections.size(); ++c) {
    const Connection& connection = layer.connections[c];
    const LayerOutput x = output_of(layer.source_layers[c], delta.rows());
    if (!x.is_sparse) continue;
    if (!connection.shared()) {
      connection.update(context_.compute, step, x, delta, layer.mine(), 0, scratch_[0]);
      continue;
    }
    connection.gradient(context_.compute, step.scale, x, delta, layer.mine(),
                        shared_gradient(layer, c).part.view());
  }
}

// After all blocks of a layer: its sparse rows have been through this step.
void Network::finish_sparse(UnitLayer& layer, const WeightStep& step) {
  for (std::size_t c = 0; c < layer.connections.size(); ++c) {
    const Connection& connection = layer.connections[c];
    if (!connection.sparse_source() || connection.shared()) continue;
    Weights& weights = connection.weights();
    const LayerOutput x = output_of(layer.source_layers[c], 0);
    context_.compute.kernels.sparse->mark_done(*x.transposed, step.step, weights.steps_done());
    const float limit = layer.descriptor().weight_norm;
    if (limit <= 0.0f) continue;
    context_.compute.kernels.sparse->catch_up(step.rule, step.schedule, step.step + 1,
                                              weights.row_state(weights.shape().mine));
    if (!bounds_sources_together(layer))
      context_.compute.kernels.update->clip_column_norms(limit, weights.values());
  }
}

void Network::backward_hidden(int layer, Index examples, const StepPosition& position) {
  UnitLayer& unit = *units_[std::size_t(layer)];
  if (!unit.delta_sum.allocated()) return;
  const WeightStep step = weight_step(position, examples);
  stage("hidden delta");
  receive_delta(layer, examples, position);
  if (unit.mine().count() > 0) unit.backward(context_.compute, examples, position, step);
  if (unit.descriptor().delta_norm > 0.0f) clip_deltas(unit, examples);
  const DenseOperand delta = unit.delta_operand(context_.compute, examples);
  if (unit.mine().count() > 0)
    for (int skip : graph_.skips[std::size_t(layer)])
      if (units_[std::size_t(skip)])
        units_[std::size_t(skip)]->delta_sum.add(context_.compute, unit.mine().begin, delta.values);
  // Lanes share the blocks; a GPU takes them all at once.
  const Range blocks =
      unit.partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
  if (!context_.compute.memory.is_host() && blocks.count() > 0)
    backward_block(unit, unit.mine(), delta, step, 0, false, true);
  else
    context_.compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
      const Range units = unit.partition().units(blocks.begin + b);
      const DenseOperand part = delta.columns(units.begin - unit.mine().begin, units.count());
      backward_block(unit, units, part, step, lane, false, true);
    });
  keep_delta_by_source(unit, unit.mine(), delta.values);
  send_delta_by_source(unit, examples, step);
  stage("sparse update");
  update_sparse(unit, delta, step);
  finish_sparse(unit, step);
  add_shared_gradients(unit);
}

void Network::clip_deltas(UnitLayer& unit, Index examples) {
  NormalizationKernels& kernels = *context_.compute.kernels.normalization;
  const VectorView<FixedSum> squares = row_squares_.view().range(0, examples);
  const Range blocks =
      unit.partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
  row_squares_.fill_zero();
  for (Index b = 0; b < blocks.count(); ++b) {
    const Range units = unit.partition().units(blocks.begin + b);
    kernels.add_row_squares(
        unit.delta(examples).columns(units.begin - unit.mine().begin, units.count()), squares);
  }
  reduce_row_squares(examples);
  if (unit.mine().count() > 0)
    kernels.clip_rows(unit.descriptor().delta_norm, squares, unit.delta(examples));
}

// All layers' at once: nothing reads a bias between its gradient and the end of the step, and
// hidden layers keep their deltas until then.
void Network::update_biases(const WeightStep& step, Index examples) {
  std::vector<ColumnSum> gradients;
  for (int layer : order_)
    if (UnitLayer* unit = unit_layer(layer);
        unit && !unit->is_output() && unit->mine().count() > 0 && unit->delta_sum.allocated())
      gradients.push_back({unit->delta(examples), step.scale, unit->bias_gradient(unit->mine())});
  const Kernels& kernels = context_.compute.kernels;
  kernels.pointwise->sum_columns(gradients);
  if (kernels.fused) kernels.fused->add_totals();
  std::vector<VectorUpdate> updates;
  for (int layer : order_)
    if (UnitLayer* unit = unit_layer(layer);
        unit && unit->mine().count() > 0 && (unit->is_output() || unit->delta_sum.allocated()))
      updates.push_back(unit->bias_update());
  UpdateStep now = step.now();
  now.l1 = now.l2 = 0.0f;
  kernels.update->update_vectors(step.rule, now, updates);
}

void Network::update_shared(const WeightStep& step) {
  for (std::size_t e = 0; e < shared_.size(); ++e) {
    if (!shared_[e] || shared_[e]->sum.empty()) continue;
    Weights& weights = *weights_[e];
    const MatrixView<float> g = shared_[e]->sum.view();
    context_.compute.kernels.pointwise->scale(1.0f / float(weights.users), g);
    const SlotViews slots = weights.slots_of(weights.shape().mine);
    context_.compute.kernels.update->update(step.rule, step.now(), weights.values(), g, slots,
                                            weights.rounded());
    const float limit = graph_.network.layers[std::size_t(graph_.edges[e].destination)].weight_norm;
    if (limit > 0.0f && weights.shape().by_destination)
      context_.compute.kernels.update->clip_row_norms(limit, weights.values());
    else if (limit > 0.0f)
      context_.compute.kernels.update->clip_column_norms(limit, weights.values());
    if (limit > 0.0f) weights.round(context_.compute);
    shared_[e]->sum.fill_zero();
  }
}

void Network::set_rate(float rate, std::int64_t warm_up, std::int64_t step) {
  if (schedule_.rate == rate && schedule_.warm_up == warm_up) return;
  require(in_flight_.empty(), "Network::set_rate: steps begun before must be finished first");
  catch_up(step);
  schedule_.rate = rate;
  schedule_.warm_up_in(warm_up);
}

void Network::catch_up(std::int64_t step) {
  for (auto& weights : weights_) {
    if (!weights || weights->users > 1 || weights->steps_done().empty()) continue;
    context_.compute.kernels.sparse->catch_up(graph_.network.training.optimizer, schedule_, step,
                                              weights->row_state(weights->shape().mine));
  }
}

}  // namespace norn
