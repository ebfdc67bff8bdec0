// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/kernels/staged/staged.h"

namespace norn::staged {

class StagedDense final : public DenseKernels {
 private:
  void do_multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                              Existing existing) override {
    StagedMatrix a(x.values), b(w.values);
    StagedMatrix c(z);
    kernels_->multiply_transposed(a.view(), b.view(), c.view(), existing);
    TestDevice::get().finish();
    c.back();
  }
  void do_multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) override {
    StagedMatrix a(delta.values), b(w.values);
    StagedMatrix c(dx);
    kernels_->multiply(a.view(), b.view(), c.view());
    TestDevice::get().finish();
    c.back();
  }
  void do_gradient(DenseOperand delta, DenseOperand x, float scale, MatrixView<float> g) override {
    StagedMatrix a(delta.values), b(x.values);
    StagedMatrix c(g);
    kernels_->gradient(a.view(), b.view(), scale, c.view());
    TestDevice::get().finish();
    c.back();
  }
  std::unique_ptr<DenseKernels> kernels_ = cuda::make_dense(*TestDevice::get().stream);
};

}  // namespace norn::staged
