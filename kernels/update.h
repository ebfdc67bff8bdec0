// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/initializer.h"
#include "kernels/update_rule.h"
#include "kernels/weight_view.h"
#include "norn/tensor/views.h"

#include <array>
#include <span>

/// Weights: initial values, updates, norms.
namespace norn {

/// How the rows and columns of a stored block of weights map to the whole matrix [source units x
/// destination units], as model files have it. Filters are rows of theirs: "sources" then.
struct WeightPlace {
  bool by_destination =
      true;  ///< rows are destination units (dense sources), or source units (sparse sources)
  Index first_source = 0;
  Index first_destination = 0;
  Index sources = 0;       ///< units of the whole source layer
  Index destinations = 0;  ///< units of the whole destination layer
  Fan fan = {0, 0};        ///< 0, 0: sources and destinations
  Fan fans() const { return fan.in > 0 ? fan : Fan{double(sources), double(destinations)}; }
};

/// The state of a matrix of weights: as many of them as the rule has.
using SlotViews = std::array<MatrixView<float>, std::size_t(kMostSlots)>;

/// A vector of parameters with its gradient and as much state as the rule has.
struct VectorUpdate {
  VectorView<float> w;
  VectorView<const float> g;
  std::array<VectorView<float>, std::size_t(kMostSlots)> slot;
};

class UpdateKernels {
 public:
  virtual ~UpdateKernels() = default;

  /// One step of the rule for every element, of halves as if they were floats.
  ///   w, g, slot: the same shape
  void update(const UpdateRule& rule, const UpdateStep& step, WeightView w,
              MatrixView<const float> g, SlotViews slot);
  /// The same step for several vectors in one go.
  void update_vectors(const UpdateRule& rule, const UpdateStep& step,
                      std::span<const VectorUpdate> vectors);
  /// Initial weights. The weight from source i to destination j uses words 0 and 1 of
  /// random.block(i * destinations + j, 0).
  void initialise(const Initializer& initializer, Philox random, const WeightPlace& place,
                  MatrixView<float> w);
  /// floats = the weights of halves; the halves of w = those of floats.   both the same shape
  void join(WeightView w, MatrixView<float> floats);
  void split(MatrixView<const float> floats, WeightView w);
  /// Rows (or columns) whose L2 norm exceeds limit are scaled down to it. Norms in float64.
  void clip_row_norms(float limit, MatrixView<float> w);
  void clip_column_norms(float limit, MatrixView<float> w);
  /// The same in two halves, for norms over several matrices: squares[i] += the sum of w^2 over row
  /// (or column) i, in float64; then those whose sum exceeds limit^2 are scaled by limit over its
  /// root.
  void add_row_squares(MatrixView<const float> w, VectorView<double> squares);
  void add_column_squares(MatrixView<const float> w, VectorView<double> squares);
  void scale_rows(float limit, VectorView<const double> squares, MatrixView<float> w);
  void scale_columns(float limit, VectorView<const double> squares, MatrixView<float> w);
  /// *squares = sum of w^2, *magnitudes = sum of |w|, in float64 in an order that the shape fixes;
  /// both stand in the device's memory.
  void norms(WeightView w, double* squares, double* magnitudes);

 private:
  virtual void do_update(const UpdateRule& rule, const UpdateStep& step, WeightView w,
                         MatrixView<const float> g, SlotViews slot) = 0;
  virtual void do_update_vectors(const UpdateRule& rule, const UpdateStep& step,
                                 std::span<const VectorUpdate> vectors) = 0;
  virtual void do_initialise(const Initializer& initializer, Philox random,
                             const WeightPlace& place, MatrixView<float> w) = 0;
  virtual void do_join(WeightView w, MatrixView<float> floats) = 0;
  virtual void do_split(MatrixView<const float> floats, WeightView w) = 0;
  virtual void do_clip_row_norms(float limit, MatrixView<float> w) = 0;
  virtual void do_clip_column_norms(float limit, MatrixView<float> w) = 0;
  virtual void do_add_row_squares(MatrixView<const float> w, VectorView<double> squares) = 0;
  virtual void do_add_column_squares(MatrixView<const float> w, VectorView<double> squares) = 0;
  virtual void do_scale_rows(float limit, VectorView<const double> squares,
                             MatrixView<float> w) = 0;
  virtual void do_scale_columns(float limit, VectorView<const double> squares,
                                MatrixView<float> w) = 0;
  virtual void do_norms(WeightView w, double* squares, double* magnitudes) = 0;
};

}  // namespace norn
