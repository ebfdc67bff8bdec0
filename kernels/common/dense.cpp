// SPDX-License-Identifier: Apache-2.0
// The dense kernels' door: shapes are checked here, once for all devices.

#include "norn/kernels/dense.h"

#include "kernels/common/shape_text.h"

namespace norn {

void DenseKernels::multiply_transposed(MatrixView<const float> x, MatrixView<const float> w,
                                       MatrixView<float> z, Existing existing) {
  require_fit(x.cols == w.cols && z.rows == x.rows && z.cols == w.rows && has_room(x) &&
                  has_room(w) && has_room(z),
              "dense multiply_transposed", "x [B x N], w [M x N], z [B x M]", x, w, z);
  do_multiply_transposed(x, w, z, existing);
}

void DenseKernels::multiply(MatrixView<const float> delta, MatrixView<const float> w,
                            MatrixView<float> dx) {
  require_fit(delta.cols == w.rows && dx.rows == delta.rows && dx.cols == w.cols &&
                  has_room(delta) && has_room(w) && has_room(dx),
              "dense multiply", "delta [B x M], w [M x N], dx [B x N]", delta, w, dx);
  do_multiply(delta, w, dx);
}

void DenseKernels::gradient(MatrixView<const float> delta, MatrixView<const float> x, float scale,
                            MatrixView<float> g) {
  require_fit(delta.rows == x.rows && g.rows == delta.cols && g.cols == x.cols && has_room(delta) &&
                  has_room(x) && has_room(g),
              "dense gradient", "delta [B x M], x [B x N], g [M x N]", delta, x, g);
  do_gradient(delta, x, scale, g);
}

}  // namespace norn
