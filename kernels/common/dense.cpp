// SPDX-License-Identifier: Apache-2.0
// The dense kernels' door: shapes are checked here, once for all devices.

#include "kernels/dense.h"

#include "kernels/common/shape_text.h"

#include <algorithm>

namespace norn {
namespace {

// Whether there is a part for each block, and the parts lie as multiply_each() says.
bool fit_blocks(const DenseOperand& delta, const DenseOperand& w, Index block,
                std::span<const MatrixView<float>> dx) {
  const Index blocks = block == 0 ? 1 : (w.rows() + block - 1) / block;
  if (Index(dx.size()) != blocks) return false;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const MatrixView<float>& part = dx[i];
    if (part.rows != delta.rows() || part.cols != w.cols() || part.stride != dx[0].stride ||
        !has_valid_stride(part))
      return false;
    if (i == 0 || part.empty()) continue;
    const Index apart = part.data - dx[i - 1].data;
    if (apart != dx[1].data - dx[0].data || apart % std::max<Index>(1, part.stride) != 0)
      return false;
  }
  return true;
}

}  // namespace

void DenseProducts::multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                                        Existing existing, Index block) {
  require_fit(x.cols() == w.cols() && z.rows == x.rows() && z.cols == w.rows() && fits(x) &&
                  fits(w) && has_valid_stride(z) && block >= 0,
              "dense multiply_transposed", "x [B x N], w [M x N], z [B x M]", x.values, w.values,
              z);
  do_multiply_transposed(x, w, z, existing, block);
}

void DenseProducts::affine(DenseOperand x, DenseOperand w, VectorView<const float> bias,
                           MatrixView<float> z, Index block) {
  require_fit(x.cols() == w.cols() && z.rows == x.rows() && z.cols == w.rows() &&
                  bias.size == z.cols && fits(x) && fits(w) && has_valid_stride(z) && block >= 0,
              "dense affine", "x [B x N], w [M x N], bias [M], z [B x M]", x.values, w.values, bias,
              z);
  do_affine(x, w, bias, z, block);
}

void DenseProducts::multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) {
  require_fit(delta.cols() == w.rows() && dx.rows == delta.rows() && dx.cols == w.cols() &&
                  fits(delta) && fits(w) && has_valid_stride(dx),
              "dense multiply", "delta [B x M], w [M x N], dx [B x N]", delta.values, w.values, dx);
  do_multiply(delta, w, dx);
}

void DenseKernels::multiply_each(DenseOperand delta, DenseOperand w, Index block,
                                 std::span<const MatrixView<float>> dx) {
  require_fit(delta.cols() == w.rows() && fits(delta) && fits(w) && block >= 0 &&
                  fit_blocks(delta, w, block, dx),
              "dense multiply_each",
              "delta [B x M], w [M x N] and, for each block, dx [B x N], equally far apart",
              delta.values, w.values, dx.empty() ? MatrixView<float>{} : dx[0]);
  do_multiply_each(delta, w, block, dx);
}

void DenseKernels::gradient(DenseOperand delta, DenseOperand x, float scale, MatrixView<float> g,
                            Existing existing, Index block) {
  require_fit(delta.rows() == x.rows() && g.rows == delta.cols() && g.cols == x.cols() &&
                  fits(delta) && fits(x) && has_valid_stride(g) && block >= 0,
              "dense gradient", "delta [B x M], x [B x N], g [M x N]", delta.values, x.values, g);
  do_gradient(delta, x, scale, g, existing, block);
}

void DenseKernels::transpose(MatrixView<const float> x, MatrixView<float> transposed) {
  require_fit(transposed.rows == x.cols && transposed.cols >= x.rows && has_valid_stride(x) &&
                  has_valid_stride(transposed),
              "dense transpose", "x [B x N], transposed [N x at least B]", x, transposed);
  do_transpose(x, transposed);
}

}  // namespace norn
