// SPDX-License-Identifier: Apache-2.0
// Weight matrices: storage, and the products that a connection makes with them.
#include "src/nn/connection.h"

#include <algorithm>

namespace norn {
namespace {

// Calls body(first, count) for one block of `units` units after the other.
template <typename Body>
void for_blocks(Index units, Index block, const Body& body) {
  const Index each = block > 0 ? block : units;
  for (Index first = 0; first < units; first += each) body(first, std::min(each, units - first));
}

}  // namespace

// What is made together stays in a cache between its product and its update.
Index gradient_units(const BlockRule& rule, Index block, Index units, Index sources) {
  const Index fitting = rule.gradient_elements / std::max<Index>(1, sources);
  const Index tile = std::max<Index>(128, fitting / rule.multiple * rule.multiple);
  if (block == 0 || tile < block) return std::min(units, tile);
  return std::min(units, std::max<Index>(1, fitting / block) * block);
}

DeviceTraits traits_of(const Compute& compute) {
  const Kernels& kernels = compute.kernels;
  return {kernels.block_rule, compute.memory.is_host(), kernels.precision, kernels.fused != nullptr,
          kernels.computes_in_bf16};
}

Weights::Weights(const WeightShape& shape, int slots, bool trainable, const BlockRule& block_rule,
                 WeightStorage storage)
    : shape_(shape), slots_(slots), block_rule_(block_rule), storage_(storage) {
  if (shape_.replicated) shape_.mine = {0, shape_.destinations};
  const Index mine = shape_.mine.count();
  const bool rows_are_mine = shape.by_destination || shape.by_source;
  rows_ = rows_are_mine ? mine : shape.sources;
  cols_ = shape.by_source ? shape.destinations : shape.by_destination ? shape.sources : mine;
  const Layout layout = shape.replicated ? Layout::whole : Layout::by_unit;
  if (storage == WeightStorage::halves) {
    bf16_ = {"weights, upper halves", Purpose::parameter, round_up_to_eight(rows_), cols_, layout};
    low_ = {"weights, lower halves", Purpose::parameter, rows_, cols_, layout};
  } else {
    values_ = {"weights", Purpose::parameter, rows_, cols_, layout};
  }
  if (storage == WeightStorage::floats_and_bf16)
    bf16_ = {"weights, bf16", Purpose::state, round_up_to_eight(rows_), cols_, layout};
  for (int s = 0; s < slots; ++s)
    slot_[std::size_t(s)] = {"optimizer state", Purpose::state,
                             shape.by_example ? shape.owned.count() : rows_, cols_,
                             shape.by_example ? Layout::by_unit : layout};
  if (trainable && !rows_are_mine)
    steps_done_ = {"steps of the rows", Purpose::state, shape.sources, 1, Layout::whole};
}

template <typename View>
View Weights::cut(const View& whole, Range units, Index first_unit) const {
  const Index first = units.begin - first_unit;
  return shape_.by_destination || shape_.by_source ? whole.row_range(first, units.count())
                                                   : whole.columns(first, units.count());
}

WeightShape Weights::shape_of(int number) const {
  WeightShape shape = shape_;
  if (!shape.by_example || number == 0) return shape;
  shape.replicated = false;
  shape.mine = shape.owned;
  return shape;
}

WeightView Weights::values() {
  if (storage_ == WeightStorage::halves) return {bf16(), low_.view()};
  return values_.view();
}

WeightView Weights::values_of(Range units) {
  return cut(values(), units, shape_.mine.begin);
}

MatrixView<float> Weights::floats_of(Range units) {
  return cut(values_.view(), units, shape_.mine.begin);
}

DenseOperand Weights::operand() {
  DenseOperand w(values().floats);
  if (storage_ == WeightStorage::floats) return w;
  w.bf16 = bf16();
  w.zero_rows = bf16_.rows() - rows_;
  return w;
}

void Weights::cast_to_bf16(const Compute& compute) {
  if (storage_ == WeightStorage::floats_and_bf16)
    compute.kernels.pointwise->cast_to_bf16(values_.view(), bf16());
}

SlotViews Weights::slots_of(Range units) {
  SlotViews result;
  for (int s = 0; s < slots_; ++s)
    result[std::size_t(s)] = cut(slot_[std::size_t(s)].view(), units, shape_of(1 + s).mine.begin);
  return result;
}

RowState Weights::row_state(Range destinations) {
  return {floats_of(destinations), slots_of(destinations), steps_done_.view()};
}

void Weights::set_steps_done(std::int64_t steps) {
  const std::vector<std::int64_t> all(std::size_t(steps_done_.size()), steps);
  steps_done_.write(all.data(), steps_done_.size());
}

Index Connection::sources() const {
  return transposed_ ? weights_->shape().destinations : weights_->shape().sources;
}

template <typename View>
View Connection::part_of(const View& stored, Range units) const {
  const Index first = units.begin - (transposed_ ? 0 : weights_->shape().mine.begin);
  return rows_are_destinations() || by_source() ? stored.row_range(first, units.count())
                                                : stored.columns(first, units.count());
}

DenseOperand Connection::operand(Range units) const {
  DenseOperand w = part_of(weights_->operand(), units);
  if (!rows_are_destinations()) w.zero_rows = 0;
  return w;
}

void Connection::forward(const Compute& compute, const LayerOutput& x, Range units, Index block,
                         MatrixView<float> z) const {
  const DenseOperand w = operand(units);
  if (x.is_sparse) {
    compute.kernels.sparse->multiply(x.sparse, w.values, z);
    return;
  }
  if (rows_are_destinations()) {
    compute.forward_products().multiply_transposed(x.dense, w, z, Existing::add, block);
    return;
  }
  Matrix<float> product(z.rows, z.cols, compute.memory);
  for_blocks(z.cols, block, [&](Index first, Index count) {
    compute.forward_products().multiply(x.dense, w.columns(first, count),
                                        product.view().columns(first, count));
  });
  compute.kernels.pointwise->add(product.view(), z);
}

void Connection::forward_from_bias(const Compute& compute, const LayerOutput& x, Range units,
                                   Index block, VectorView<const float> bias,
                                   MatrixView<float> z) const {
  if (x.is_sparse)
    compute.kernels.sparse->affine(x.sparse, operand(units).values, bias, z);
  else
    compute.forward_products().affine(x.dense, operand(units), bias, z, block);
}

void Connection::input_delta(const Compute& compute, const DenseOperand& delta, Range units,
                             Index block, std::span<const MatrixView<float>> dx) const {
  const DenseOperand w = operand(units);
  if (rows_are_destinations()) {
    compute.kernels.dense->multiply_each(delta, w, block, dx);
    return;
  }
  std::size_t i = 0;
  for_blocks(units.count(), block, [&](Index first, Index count) {
    compute.kernels.dense->multiply_transposed(delta.columns(first, count), w.columns(first, count),
                                               dx[i++], Existing::overwrite);
  });
}

void Connection::update(const Compute& compute, const WeightStep& step, const LayerOutput& x,
                        const DenseOperand& delta, Range units, Index block,
                        Workspace& workspace) const {
  if (x.is_sparse) {
    compute.kernels.sparse->update_rows(step.rule, step.schedule, step.step, *x.transposed, delta,
                                        step.scale, weights_->row_state(units));
    return;
  }
  const UpdateStep now = step.now();
  if (compute.kernels.fused &&
      compute.kernels.fused->update(step.rule, now, delta, x.dense, step.scale,
                                    weights_->values_of(units), weights_->slots_of(units), block))
    return;
  const Index n = x.dense.cols();
  const Index together = gradient_units(weights_->block_rule(), block, units.count(), n);
  // A part of a block is a product by itself, and ends where the block does.
  const bool whole = together >= std::min(block, units.count());
  for_blocks(units.count(), std::max(block, together), [&](Index begin, Index length) {
    for_blocks(length, together, [&](Index first, Index count) {
      const Range part{units.begin + begin + first, units.begin + begin + first + count};
      const MatrixView<float> g{workspace.gradient.data(), count, n, n};
      compute.kernels.dense->gradient(delta.columns(begin + first, count), x.dense, step.scale, g,
                                      Existing::overwrite, whole ? block : 0);
      compute.kernels.update->update(step.rule, now, weights_->values_of(part), g,
                                     weights_->slots_of(part));
    });
  });
}

void Connection::gradient(const Compute& compute, float scale, const LayerOutput& x,
                          const DenseOperand& delta, Range units, MatrixView<float> whole) const {
  const MatrixView<float> g = part_of(whole, units);
  if (x.is_sparse)
    compute.kernels.sparse->gradient(*x.transposed, delta, scale, g);
  else if (rows_are_destinations())
    compute.kernels.dense->gradient(delta, x.dense, scale, g);
  else
    compute.kernels.dense->gradient(x.dense, delta, scale, g);
}

void Connection::forward_part(const Compute& compute, const DenseOperand& x, Range units,
                              MatrixView<float> z) const {
  compute.forward_products().multiply(x, operand(units), z);
}

void Connection::source_delta(const Compute& compute, const DenseOperand& delta, Range units,
                              MatrixView<float> dx) const {
  compute.kernels.dense->multiply_transposed(delta, operand(units), dx, Existing::overwrite);
}

// Rows of the weights are source units here, so activations and deltas change their parts.
void Connection::update_by_source(const Compute& compute, const WeightStep& step,
                                  const DenseOperand& x, const DenseOperand& delta, Range units,
                                  Workspace& workspace) const {
  update(compute, step, {false, delta, {}, nullptr}, x, units, 0, workspace);
}

UnitParameters::UnitParameters(Index units, int state_arrays, const std::string& item,
                               float initial, Layout layout, Range owned)
    : value("biases and scales", Purpose::parameter, units, 1, layout),
      slots(state_arrays),
      first_slot(owned.begin) {
  value.saved_as(item, initial, true);
  for (int s = 0; s < slots; ++s) {
    auto& state = slot[std::size_t(s)];
    state = {"state of biases and scales", Purpose::state, owned.count()};
    state.saved_as(item + "_slot" + std::to_string(s));
  }
}

VectorUpdate UnitParameters::update_by(VectorView<const float> gradient) {
  VectorUpdate update{value.view(), gradient, {}};
  for (std::size_t s = 0; s < std::size_t(slots); ++s) update.slot[s] = slot[s].view();
  return update;
}

void UnitParameters::update(const Compute& compute, const WeightStep& step, Index first,
                            VectorView<const float> gradient) {
  UpdateStep now = step.now();
  now.l1 = now.l2 = 0.0f;
  const Index n = gradient.size;
  const auto row = [&](auto* data) {
    return MatrixView<std::remove_pointer_t<decltype(data)>>{data, 1, n, n};
  };
  SlotViews state;
  for (std::size_t s = 0; s < std::size_t(slots); ++s)
    state[s] = row(slot[s].data() + first - first_slot);
  compute.kernels.update->update(step.rule, now, row(value.data() + first), row(gradient.data),
                                 state);
}

}  // namespace norn
