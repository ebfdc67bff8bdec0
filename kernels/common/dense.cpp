// SPDX-License-Identifier: Apache-2.0
// The dense kernels' door: shapes are checked here, once for all devices.

#include "norn/kernels/dense.h"

#include "kernels/common/shape_text.h"

namespace norn {
void DenseKernels::multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                                       Existing existing) {
  require_fit(x.cols() == w.cols() && z.rows == x.rows() && z.cols == w.rows() && fits(x) &&
                  fits(w) && has_room(z),
              "dense multiply_transposed", "x [B x N], w [M x N], z [B x M]", x.values, w.values,
              z);
  do_multiply_transposed(x, w, z, existing);
}

void DenseKernels::affine(DenseOperand x, DenseOperand w, VectorView<const float> bias,
                          MatrixView<float> z) {
  require_fit(x.cols() == w.cols() && z.rows == x.rows() && z.cols == w.rows() &&
                  bias.size == z.cols && fits(x) && fits(w) && has_room(z),
              "dense affine", "x [B x N], w [M x N], bias [M], z [B x M]", x.values, w.values, bias,
              z);
  do_affine(x, w, bias, z);
}

void DenseKernels::multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) {
  require_fit(delta.cols() == w.rows() && dx.rows == delta.rows() && dx.cols == w.cols() &&
                  fits(delta) && fits(w) && has_room(dx),
              "dense multiply", "delta [B x M], w [M x N], dx [B x N]", delta.values, w.values, dx);
  do_multiply(delta, w, dx);
}

void DenseKernels::gradient(DenseOperand delta, DenseOperand x, float scale, MatrixView<float> g,
                            Existing existing) {
  require_fit(delta.rows() == x.rows() && g.rows == delta.cols() && g.cols == x.cols() &&
                  fits(delta) && fits(x) && has_room(g),
              "dense gradient", "delta [B x M], x [B x N], g [M x N]", delta.values, x.values, g);
  do_gradient(delta, x, scale, g, existing);
}

void DenseKernels::turn(MatrixView<const float> x, MatrixView<float> turned) {
  require_fit(turned.rows == x.cols && turned.cols >= x.rows && has_room(x) && has_room(turned),
              "dense turn", "x [B x N], turned [N x at least B]", x, turned);
  do_turn(x, turned);
}

}  // namespace norn
