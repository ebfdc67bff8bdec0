// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernels.h"
#include "src/tensor/tensor.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Weight matrices and the connections that use them. Nothing here knows of ranks beyond "which
/// units are mine".
namespace norn {

/// So that rows begin where tensor cores can read and write them: at 16 bytes.
constexpr Index round_up_to_eight(Index elements) {
  return (elements + 7) / 8 * 8;
}

/// What computes: passed to everything that does.
struct Compute {
  Executor& executor;
  Kernels& kernels;
  Memory& memory;
  /// Whether what runs is a prediction, whose examples must not depend on each other.
  bool predicts = false;
  /// The products from sources to destinations.
  DenseProducts& forward_products() const {
    return predicts ? kernels.dense->by_row() : *kernels.dense;
  }
};

/// What a device decides of a network's arrays and of who computes what.
struct DeviceTraits {
  BlockRule block_rule;
  bool is_host = true;            ///< computes in main memory
  Precision precision = {};       ///< Kernels::precision
  bool fuses = false;             ///< has Kernels::fused
  bool computes_in_bf16 = false;  ///< Kernels::computes_in_bf16
};
DeviceTraits traits_of(const Compute& compute);

/// What a layer hands to the layers that it feeds: its whole width, for every example of the batch.
/// Of an input by example the rows of a rank's own examples may be all that there are.
struct LayerOutput {
  bool is_sparse = false;
  DenseOperand dense;                           ///< [B x N], when not sparse
  CsrView sparse;                               ///< [B x N], when sparse
  const TransposedBatch* transposed = nullptr;  ///< of sparse, in training
  Index first = 0;                              ///< which example the first row is of
  Index examples() const { return is_sparse ? sparse.rows : dense.rows(); }
};

/// Where a weight matrix stands and how it is stored.
struct WeightShape {
  Index sources = 0;
  Index destinations = 0;
  Range mine;  ///< destination units stored here
  bool by_destination =
      true;  ///< stored [mine x sources] (dense source) or [sources x mine] (sparse source)
  bool by_source = false;  ///< shared out by source units: those are mine, [mine x destinations]
  bool replicated =
      false;  ///< every rank stores all destinations (matrices that several connections share)
  bool by_example = false;  ///< of a layer by example: replicated, but the state of the update rule
  Range owned = {};         ///< is that of these destinations
};

/// How a device holds a weight matrix: as floats; as floats and the bf16 copy that products read,
/// where others read the floats; or in halves, of which products read the upper (FloatHalves).
enum class WeightStorage { floats, floats_and_bf16, halves };

/// Values and update state of one weight matrix, the part that this rank stores.
/// The steps of rows that lag behind are for training.
/// Rows of a sparse source may lag behind the steps made (they are put through them when they are
/// next touched); catch_up() brings all of them up to date.
class Weights {
 public:
  /// `slots`: arrays of update state.
  Weights(const WeightShape& shape, int slots, bool trainable, const BlockRule& block_rule,
          WeightStorage storage);
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    visit(values_);
    for (int s = 0; s < slots_; ++s) visit(slot_[std::size_t(s)]);
    visit(bf16_);
    visit(low_);
    visit(steps_done_);
  }
  /// What products read.
  template <typename Visit>
  void for_each_operand(const Visit& visit) {
    visit(values_);
    visit(bf16_);
  }

  const WeightShape& shape() const { return shape_; }
  /// Where part(number) stands, which need not be where the values do.
  WeightShape shape_of(int number) const;
  WeightStorage storage() const { return storage_; }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  /// What updates change. edit_rows() and others of src/nn/stored_weights.h give floats of it.
  /// After it has changed, call cast_to_bf16().
  WeightView values();
  /// The weights to these destination units, or those of these source units where they are shared
  /// out so (global numbers): rows or columns of values(), as stored.
  WeightView values_of(Range units);
  /// Where they are floats.
  MatrixView<float> floats() { return values_.view(); }
  MatrixView<const float> floats() const { return values_.view(); }
  MatrixView<float> floats_of(Range units);
  SlotViews slots_of(Range units);
  /// For products, all of the matrix. Rows of zeros lie behind what is in bf16.
  DenseOperand operand();
  /// Brings the bf16 copy, where there is one, up to the floats.
  void cast_to_bf16(const Compute& compute);
  int slots() const { return slots_; }
  /// Of the network, which says how much of a gradient is made at once.
  const BlockRule& block_rule() const { return block_rule_; }
  /// 0: values, from 1 on: the state arrays.
  WeightView part(int number) {
    return number == 0 ? values() : WeightView(slot_[std::size_t(number - 1)].view());
  }
  RowState row_state(Range destinations);
  VectorView<std::int64_t> steps_done() { return steps_done_.view(); }
  /// All rows have been through this many steps: after values and state were read from a file.
  void set_steps_done(std::int64_t steps);

  int users = 1;  ///< connections that share the matrix

 private:
  template <typename View>
  View cut(const View& whole, Range units, Index first_unit) const;
  MatrixView<Bfloat16> bf16() { return bf16_.view().row_range(0, rows_); }
  WeightShape shape_;
  int slots_ = 0;
  BlockRule block_rule_;
  WeightStorage storage_;
  Index rows_ = 0, cols_ = 0;
  HeldMatrix<float> values_;  // or bf16_ and low_
  std::array<HeldMatrix<float>, std::size_t(kMostSlots)> slot_;
  HeldMatrix<Bfloat16> bf16_;
  HeldMatrix<std::int16_t> low_;
  HeldBuffer<std::int64_t> steps_done_;  // [sources], of sparse sources only
};

/// One step's settings for the weights.
struct WeightStep {
  const UpdateRule& rule;
  const UpdateSchedule& schedule;
  std::int64_t step = 0;
  float scale = 1.0f;  ///< of gradients: 1 / examples
  UpdateStep now() const { return schedule.at(rule, step); }
};

/// The workspace of one lane, sized for the largest connection.
struct Workspace {
  HeldMatrix<float> z;         ///< [B x widest output block]
  HeldMatrix<Bfloat16> delta;  ///< [B x widest block], deltas as a bf16 copy for products; or empty
  HeldMatrix<float> transposed;  ///< [widest block x B, rounded up], deltas transposed; or empty
  HeldMatrix<float> dx;          ///< [B x widest dense source or sum over one]
  HeldBuffer<float> gradient;    ///< one tile of a weight gradient
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    visit(z);
    visit(dx);
    visit(gradient);
    visit(transposed);
    visit(delta);
  }
};

/// How many units' weight gradients are made together: as many whole blocks of `block` units as
/// stay in a cache, of `units` that there are; or a part of one.
Index gradient_units(const BlockRule& rule, Index block, Index units, Index sources);

/// A weight matrix as seen from one destination layer. `block` is the width of that layer's blocks,
/// of which a call may take several (DenseKernels); 0 where the layer is one block.
class Connection {
 public:
  /// `transposed`: the matrix is used the other way round than its owner does.
  Connection(Weights& weights, bool transposed, bool sparse_source)
      : weights_(&weights), transposed_(transposed), sparse_source_(sparse_source) {}

  Weights& weights() const { return *weights_; }
  bool transposed() const { return transposed_; }
  bool sparse_source() const { return sparse_source_; }
  bool shared() const { return weights_->users > 1; }
  /// Shared out by source units: then only the functions that say so apply.
  bool by_source() const { return weights_->shape().by_source; }
  Index sources() const;

  /// z += x * w for destination units `units`.   z [B x units]
  void forward(const Compute& compute, const LayerOutput& x, Range units, Index block,
               MatrixView<float> z) const;
  /// z = bias + x * w in one pass. Only when begins_with_bias(), or x is sparse.   bias [units]
  void forward_from_bias(const Compute& compute, const LayerOutput& x, Range units, Index block,
                         VectorView<const float> bias, MatrixView<float> z) const;
  /// The weights to `units`, rows or columns as stored, for products.
  DenseOperand operand(Range units) const;
  bool begins_with_bias() const { return !sparse_source_ && rows_are_destinations(); }
  /// dx[i] = delta * w^T over block i of these units: its part of the source's delta.
  ///   delta [B x units],  dx [blocks] of [B x N], equally far apart
  void input_delta(const Compute& compute, const DenseOperand& delta, Range units, Index block,
                   std::span<const MatrixView<float>> dx) const;
  /// Gradient and update of the weights to `units`, some units at a time, never stored whole.
  void update(const Compute& compute, const WeightStep& step, const LayerOutput& x,
              const DenseOperand& delta, Range units, Index block, Workspace& workspace) const;
  /// The gradient of the weights to `units` into their place in `whole` (the shape that the weights
  /// are stored in).
  void gradient(const Compute& compute, float scale, const LayerOutput& x,
                const DenseOperand& delta, Range units, MatrixView<float> whole) const;

  /// By source: z = x * w, these source units' part of all destinations' pre-activations.
  ///   x [B x units],  z [B x M]
  void forward_part(const Compute& compute, const DenseOperand& x, Range units,
                    MatrixView<float> z) const;
  /// By source: dx = delta * w^T, all that this connection says about these source units.
  ///   delta [B x M],  dx [B x units]
  void source_delta(const Compute& compute, const DenseOperand& delta, Range units,
                    MatrixView<float> dx) const;
  /// By source: gradient and update of the weights of these source units, as update().
  void update_by_source(const Compute& compute, const WeightStep& step, const DenseOperand& x,
                        const DenseOperand& delta, Range units, Workspace& workspace) const;

 private:
  bool rows_are_destinations() const { return weights_->shape().by_destination != transposed_; }
  /// The part of a stored matrix that belongs to these units of this connection: destination units,
  /// or source units where it is shared out by those.
  template <typename View>
  View part_of(const View& stored, Range units) const;
  Weights* weights_;
  bool transposed_;
  bool sparse_source_;
};

/// A vector of parameters of a layer's own units: bias, batch normalisation's scale and bias.
struct UnitParameters {
  HeldBuffer<float> value;
  std::array<HeldBuffer<float>, std::size_t(kMostSlots)> slot;
  int slots = 0;         ///< state arrays in use, also where this rank has no units
  Index first_slot = 0;  ///< the unit that these begin with
  UnitParameters() = default;
  /// `item`: what model files call it. They call its state the same, with a number.
  /// `layout` by_unit: these units; whole: all of the layer's, with the state of those `owned`.
  UnitParameters(Index units, int slots, const std::string& item, float initial, Layout layout,
                 Range owned);
  UnitParameters(Index units, int state_arrays, const std::string& item, float initial)
      : UnitParameters(units, state_arrays, item, initial, Layout::by_unit, {0, units}) {}
  template <typename Visit>
  void for_each_slot(const Visit& visit) {
    for (int s = 0; s < slots; ++s) visit(slot[std::size_t(s)]);
  }
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    visit(value);
    for_each_slot(visit);
  }
  /// Applies gradient [n] to elements [first, first + n); never regularised.
  void update(const Compute& compute, const WeightStep& step, Index first,
              VectorView<const float> gradient);
  /// The whole for UpdateKernels::update_vectors; the step has no regularisation.
  VectorUpdate update_by(VectorView<const float> gradient);
};

}  // namespace norn
