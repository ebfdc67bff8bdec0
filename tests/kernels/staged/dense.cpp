// SPDX-License-Identifier: Apache-2.0
// The GPU's dense products, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

namespace norn {
namespace {

using staged::StagedMatrix;
using staged::TestDevice;

/// The products of both doors.
template <typename Door>
class StagedProducts : public Door {
 public:
  explicit StagedProducts(DenseProducts& products) : products_(products) {}

 private:
  void do_multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                              Existing existing, Index block) override {
    StagedMatrix a(x.values), b(w.values);
    StagedMatrix c(z);
    products_.multiply_transposed(a.view(), b.view(), c.view(), existing, block);
    TestDevice::get().finish();
    c.back();
  }
  void do_affine(DenseOperand x, DenseOperand w, VectorView<const float> bias, MatrixView<float> z,
                 Index block) override {
    StagedMatrix a(x.values), b(w.values);
    staged::StagedVector v(bias);
    StagedMatrix c(z);
    products_.affine(a.view(), b.view(), v.view(), c.view(), block);
    TestDevice::get().finish();
    c.back();
  }
  void do_multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) override {
    StagedMatrix a(delta.values), b(w.values);
    StagedMatrix c(dx);
    products_.multiply(a.view(), b.view(), c.view());
    TestDevice::get().finish();
    c.back();
  }
  DenseProducts& products_;
};

class StagedRows final : public StagedProducts<DenseProducts> {
 public:
  using StagedProducts::StagedProducts;
};

class StagedDense final : public StagedProducts<DenseKernels> {
 public:
  explicit StagedDense(std::unique_ptr<DenseKernels> kernels)
      : StagedProducts(*kernels), kernels_(std::move(kernels)), rows_(kernels_->by_row()) {}
  DenseProducts& by_row() override { return rows_; }

 private:
  // Parts that lie one after the other are one matrix to be copied.
  void do_multiply_each(DenseOperand delta, DenseOperand w, Index block,
                        std::span<const MatrixView<float>> dx) override {
    if (dx.empty()) return;
    StagedMatrix a(delta.values), b(w.values);
    MatrixView<float> all = dx[0];
    const Index apart =
        dx.size() > 1 && dx[0].stride > 0 ? (dx[1].data - dx[0].data) / dx[0].stride : dx[0].rows;
    all.rows += (Index(dx.size()) - 1) * apart;
    StagedMatrix c(all);
    std::vector<MatrixView<float>> parts;
    for (std::size_t i = 0; i < dx.size(); ++i)
      parts.push_back(c.view().row_range(Index(i) * apart, dx[i].rows));
    kernels_->multiply_each(a.view(), b.view(), block, parts);
    TestDevice::get().finish();
    c.back();
  }
  void do_gradient(DenseOperand delta, DenseOperand x, float scale, MatrixView<float> g,
                   Existing existing, Index block) override {
    StagedMatrix a(delta.values), b(x.values);
    StagedMatrix c(g);
    kernels_->gradient(a.view(), b.view(), scale, c.view(), existing, block);
    TestDevice::get().finish();
    c.back();
  }
  void do_transpose(MatrixView<const float> x, MatrixView<float> transposed) override {
    StagedMatrix a(x);
    StagedMatrix b(transposed);
    kernels_->transpose(a.view(), b.view());
    TestDevice::get().finish();
    b.back();
  }
  std::unique_ptr<DenseKernels> kernels_;
  StagedRows rows_;
};

}  // namespace

std::unique_ptr<DenseKernels> samples::make_dense(Executor&) {
  return std::make_unique<StagedDense>(cuda::make_dense(*TestDevice::get().stream));
}

bool samples::is_gpu() {
  return true;
}
bool samples::sums_like_the_cpu() {
  return false;
}

}  // namespace norn
