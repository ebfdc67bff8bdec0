// SPDX-License-Identifier: Apache-2.0
// The GPU's batch statistics, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

namespace norn {
namespace {

using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

class StagedNorm {
 public:
  explicit StagedNorm(const BatchNormView& norm)
      : scale_(norm.scale),
        bias_(norm.bias),
        running_mean_(norm.running_mean),
        running_variance_(norm.running_variance) {}
  BatchNormView view() {
    return {scale_.view(), bias_.view(), running_mean_.view(), running_variance_.view()};
  }
  void back() const {
    running_mean_.back();
    running_variance_.back();
  }

 private:
  StagedVector<const float> scale_;
  StagedVector<const float> bias_;
  StagedVector<float> running_mean_;
  StagedVector<float> running_variance_;
};

class StagedNormalization final : public NormalizationKernels {
 private:
  void do_batch_norm(const BatchNormView& norm, MatrixView<float> z, MatrixView<float> normalised,
                     VectorView<float> inverse_deviation) override {
    StagedNorm staged_norm(norm);
    StagedMatrix staged_z(z), staged_normalised(normalised);
    StagedVector inverse(inverse_deviation);
    kernels_->batch_norm(staged_norm.view(), staged_z.view(), staged_normalised.view(),
                         inverse.view());
    TestDevice::get().finish();
    staged_norm.back();
    staged_z.back();
    staged_normalised.back();
    inverse.back();
  }
  void do_batch_norm_predict(const BatchNormView& norm, MatrixView<float> z) override {
    StagedNorm staged_norm(norm);
    StagedMatrix staged_z(z);
    kernels_->batch_norm_predict(staged_norm.view(), staged_z.view());
    TestDevice::get().finish();
    staged_z.back();
  }
  void do_batch_norm_backward(VectorView<const float> scale, MatrixView<const float> normalised,
                              VectorView<const float> inverse_deviation, MatrixView<float> delta,
                              VectorView<float> scale_gradient,
                              VectorView<float> bias_gradient) override {
    StagedVector staged_scale(scale), inverse(inverse_deviation);
    StagedMatrix staged_normalised(normalised);
    StagedMatrix staged_delta(delta);
    StagedVector scale_to(scale_gradient), bias_to(bias_gradient);
    kernels_->batch_norm_backward(staged_scale.view(), staged_normalised.view(), inverse.view(),
                                  staged_delta.view(), scale_to.view(), bias_to.view());
    TestDevice::get().finish();
    staged_delta.back();
    scale_to.back();
    bias_to.back();
  }
  void do_normalise_rows(const BatchNormView& norm, VectorView<const FixedSum> moments, Index rows,
                         MatrixView<float> z, MatrixView<float> normalised,
                         VectorView<float> inverse_deviation) override {
    StagedNorm staged_norm(norm);
    StagedVector staged_moments(moments);
    StagedMatrix staged_z(z), staged_normalised(normalised);
    StagedVector inverse(inverse_deviation);
    kernels_->normalise_rows(staged_norm.view(), staged_moments.view(), rows, staged_z.view(),
                             staged_normalised.view(), inverse.view());
    TestDevice::get().finish();
    staged_norm.back();
    staged_z.back();
    staged_normalised.back();
    inverse.back();
  }
  void do_normalise_rows_backward(VectorView<const float> scale,
                                  VectorView<const FixedSum> products, Index rows, Index examples,
                                  MatrixView<const float> normalised,
                                  VectorView<const float> inverse_deviation,
                                  MatrixView<float> delta, VectorView<float> scale_gradient,
                                  VectorView<float> bias_gradient) override {
    StagedVector staged_scale(scale), inverse(inverse_deviation);
    StagedVector staged_products(products);
    StagedMatrix staged_normalised(normalised);
    StagedMatrix staged_delta(delta);
    StagedVector scale_to(scale_gradient), bias_to(bias_gradient);
    kernels_->normalise_rows_backward(staged_scale.view(), staged_products.view(), rows, examples,
                                      staged_normalised.view(), inverse.view(), staged_delta.view(),
                                      scale_to.view(), bias_to.view());
    TestDevice::get().finish();
    staged_delta.back();
    scale_to.back();
    bias_to.back();
  }
  void do_sparseness_penalty(float p, float beta, MatrixView<const float> y,
                             MatrixView<float> dy) override {
    StagedMatrix staged_y(y);
    StagedMatrix staged_dy(dy);
    kernels_->sparseness_penalty(p, beta, staged_y.view(), staged_dy.view());
    TestDevice::get().finish();
    staged_dy.back();
  }
  void do_add_row_squares(MatrixView<const float> x, VectorView<FixedSum> sum) override {
    StagedMatrix staged_x(x);
    StagedVector staged_sum(sum);
    kernels_->add_row_squares(staged_x.view(), staged_sum.view());
    TestDevice::get().finish();
    staged_sum.back();
  }
  void do_clip_rows(float limit, VectorView<const FixedSum> squares,
                    MatrixView<float> delta) override {
    StagedVector staged_squares(squares);
    StagedMatrix staged_delta(delta);
    kernels_->clip_rows(limit, staged_squares.view(), staged_delta.view());
    TestDevice::get().finish();
    staged_delta.back();
  }

  std::unique_ptr<NormalizationKernels> kernels_ =
      cuda::make_normalization(*TestDevice::get().stream);
};

}  // namespace

std::unique_ptr<NormalizationKernels> samples::make_normalization(Executor&) {
  return std::make_unique<StagedNormalization>();
}

}  // namespace norn
