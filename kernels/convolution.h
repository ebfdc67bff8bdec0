// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.h"
#include "kernels/dense.h"
#include "kernels/dropout_mask.h"
#include "kernels/window.h"
#include "src/tensor/block_partition.h"

#include <span>

/// Products over windows: what a convolution computes, and the two orders of an example's units.
namespace norn {

/// K filters over the windows of one source, as model files order them: [K x C*taps], the channel
/// slowest, then z, y, x. A filter is not turned round (cross-correlation, as in DSSTNE and in all
/// frameworks). Results stand channels last: [E x windows*K], and so do deltas; sources as their
/// Window says. Results and deltas have no gaps between rows. Operands are read as products read
/// them (kernels/dense.h).
///
/// Nothing of an example depends on the others: not on how many there are, nor on where it stands.
/// Bits do not depend on lanes.
class ConvolutionKernels {
 public:
  virtual ~ConvolutionKernels() = default;

  /// z(e, p, k) = sum over taps t and channels c of x(e, place of t in window p, c) * filter(k, c,
  /// t), or z += it. Places outside of the source give nothing.
  ///   x [E x places*C],  filters [K x C*taps],  z [E x windows*K]
  /// Throws ShapeError unless the shapes fit. 2 * E * windows * K * C*taps FLOP.
  void forward(const Window& window, const DenseOperand& x, MatrixView<const float> filters,
               MatrixView<float> z, Existing existing);
  /// z = bias + the same.   bias [K]
  void forward_from_bias(const Window& window, const DenseOperand& x,
                         MatrixView<const float> filters, VectorView<const float> bias,
                         MatrixView<float> z);

  /// y = dropout(f(bias + the same)): what forward_from_bias() and PointwiseKernels::activate()
  /// make one after the other, bit by bit. Says whether this device makes it in one pass; else
  /// nothing has been done. Those that compute in bfloat16 make it for every window where f's slope
  /// follows the sign and y stands in bf16 alone; else nothing may drop.
  ///   y [E x windows*K]; rows of the mask are windows
  bool forward_to_outputs(const Window& window, const DenseOperand& x,
                          MatrixView<const float> filters, VectorView<const float> bias,
                          const Activation& f, const DropoutMask& dropout, const DenseResult& y);

  /// dx = d cost / d x of forward(), or dx += it.
  ///   delta [E x windows*K],  filters [K x C*taps],  dx [E x places*C], as the window orders it
  void input_delta(const Window& window, const DenseOperand& delta, MatrixView<const float> filters,
                   MatrixView<float> dx, Existing existing);

  /// dx = that times f'(x), where x are outputs of f whose slope is written in them: what
  /// input_delta() and PointwiseKernels::multiply_slope() make, bit by bit; without columns of x
  /// there is no slope. Slopes are multiplied by `kept`, as dropout did what it kept. Says whether
  /// this device makes it in one pass; else nothing has been done. Those that compute in bfloat16
  /// make it where dx stands in bf16 alone, x does in bf16, too, and f's slope follows the sign, if
  /// they read the windows of the delta or gather them.
  ///   x [E x places*C] or [E x 0],  dx [E x places*C]
  bool input_delta_through(const Window& window, const DenseOperand& delta,
                           MatrixView<const float> filters, const Activation& f, float kept,
                           const DenseOperand& x, const DenseResult& dx);

  /// term = scale * d cost / d filters of these examples: one float32 term of the weights'
  /// gradient. The order of the sum follows from the shapes alone. Inside a task of the executor it
  /// runs on that lane.
  ///   delta [E x windows*K],  x [E x places*C],  term [K x C*taps]
  void gradient(const Window& window, const DenseOperand& delta, const DenseOperand& x, float scale,
                MatrixView<float> term);

  /// The same of several runs of the examples, a row of terms each, bit by bit. Says whether this
  /// device makes them in one pass; else nothing has been done.
  ///   runs: of rows of delta and x,  terms [at least runs x at least K*C*taps]
  bool gradients(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                 std::span<const Range> runs, float scale, Index filters, MatrixView<float> terms);

  /// to(e, c*P + p) = from(e, p*C + c): units that stand channels last in the order of files. From
  /// bf16 where there are no floats.
  ///   from, to [E x P*C]
  void to_file_order(Index channels, const DenseOperand& from, MatrixView<float> to);
  /// The other way round, or to += it.
  void to_channels_last(Index channels, MatrixView<const float> from, MatrixView<float> to,
                        Existing existing);

 private:
  /// With a bias z begins with it; else `bias` is empty.
  virtual void do_forward(const Window& window, const DenseOperand& x,
                          MatrixView<const float> filters, VectorView<const float> bias,
                          MatrixView<float> z, Existing existing) = 0;
  virtual void do_input_delta(const Window& window, const DenseOperand& delta,
                              MatrixView<const float> filters, MatrixView<float> dx,
                              Existing existing) = 0;
  virtual bool do_forward_to_outputs(const Window&, const DenseOperand&, MatrixView<const float>,
                                     VectorView<const float>, const Activation&, const DropoutMask&,
                                     const DenseResult&) {
    return false;
  }
  virtual bool do_input_delta_through(const Window&, const DenseOperand&, MatrixView<const float>,
                                      const Activation&, float, const DenseOperand&,
                                      const DenseResult&) {
    return false;
  }
  virtual void do_gradient(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                           float scale, MatrixView<float> term) = 0;
  virtual bool do_gradients(const Window&, const DenseOperand&, const DenseOperand&,
                            std::span<const Range>, float, Index, MatrixView<float>) {
    return false;
  }
  virtual void do_to_file_order(Index channels, const DenseOperand& from, MatrixView<float> to) = 0;
  virtual void do_to_channels_last(Index channels, MatrixView<const float> from,
                                   MatrixView<float> to, Existing existing) = 0;
};

}  // namespace norn
