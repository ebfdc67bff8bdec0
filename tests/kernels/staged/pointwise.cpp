// SPDX-License-Identifier: Apache-2.0
// The GPU's pointwise kernels, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

namespace norn {
namespace {

using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

class StagedPointwise final : public PointwiseKernels {
 private:
  /// Runs `work` on a copy of `to` on the GPU and takes back what it became.
  template <typename T, typename Work>
  static void change(MatrixView<T> to, const Work& work) {
    StagedMatrix staged(to);
    work(staged.view());
    TestDevice::get().finish();
    staged.back();
  }

  void do_checksum(VectorView<const std::byte> bytes, std::uint64_t* sum) override {
    StagedVector from(bytes);
    StagedVector to(VectorView<std::uint64_t>{sum, 1});
    kernels_->checksum(from.view(), to.view().data);
    TestDevice::get().finish();
    to.back();
  }
  void do_set_rows(VectorView<const float> row, MatrixView<float> z) override {
    StagedVector from(row);
    change(z, [&](auto to) { kernels_->set_rows(from.view(), to); });
  }
  void do_add(MatrixView<const float> x, MatrixView<float> z) override {
    StagedMatrix from(x);
    change(z, [&](auto to) { kernels_->add(from.view(), to); });
  }
  void do_copy(MatrixView<const float> x, MatrixView<float> z) override {
    StagedMatrix from(x);
    change(z, [&](auto to) { kernels_->copy(from.view(), to); });
  }
  void do_scale(float factor, MatrixView<float> z) override {
    change(z, [&](auto to) { kernels_->scale(factor, to); });
  }
  void do_cast_to_bf16(MatrixView<const float> x, MatrixView<Bfloat16> bf16) override {
    StagedMatrix from(x);
    change(bf16, [&](auto to) { kernels_->cast_to_bf16(from.view(), to); });
  }
  void do_activate(const Activation& f, MatrixView<float> z_to_y) override {
    change(z_to_y, [&](auto to) { kernels_->activate(f, to); });
  }
  void do_activate_layer(const Activation& f, const DropoutMask& dropout, MatrixView<float> z_to_y,
                         const ActivationCopies& copies) override {
    StagedMatrix before(copies.before_dropout);
    StagedMatrix copy(copies.bf16);
    StagedMatrix over(copies.transposed);
    StagedMatrix kept(copies.z);
    change(z_to_y, [&](auto to) {
      kernels_->activate(f, dropout, to, {before.view(), copy.view(), over.view(), kept.view()});
    });
    kept.back();
    before.back();
    copy.back();
    over.back();
  }
  void do_multiply_slope(const Activation& f, MatrixView<const float> y, MatrixView<float> delta,
                         MatrixView<Bfloat16> bf16) override {
    StagedMatrix from(y);
    StagedMatrix copy(bf16);
    change(delta, [&](auto to) { kernels_->multiply_slope(f, from.view(), to, copy.view()); });
    copy.back();
  }
  void do_sum_columns(std::span<const ColumnSum> sums) override {
    std::vector<std::unique_ptr<StagedMatrix<const float>>> from;
    std::vector<std::unique_ptr<StagedVector<float>>> to;
    std::vector<ColumnSum> staged;
    for (const ColumnSum& one : sums) {
      from.push_back(std::make_unique<StagedMatrix<const float>>(one.delta));
      to.push_back(std::make_unique<StagedVector<float>>(one.sum));
      staged.push_back({from.back()->view(), one.scale, to.back()->view()});
    }
    kernels_->sum_columns(staged);
    TestDevice::get().finish();
    for (const auto& sum : to) sum->back();
  }
  void do_sum_bf16_columns(MatrixView<const Bfloat16> delta, float scale,
                           VectorView<float> sum) override {
    StagedMatrix from(delta);
    StagedVector to(sum);
    kernels_->sum_columns(from.view(), scale, to.view());
    TestDevice::get().finish();
    to.back();
  }
  void do_softmax_rows(MatrixView<float> z_to_y) override {
    change(z_to_y, [&](auto to) { kernels_->softmax_rows(to); });
  }
  void do_softmax_rows_backward(MatrixView<const float> y, MatrixView<float> dy_to_delta) override {
    StagedMatrix from(y);
    change(dy_to_delta, [&](auto to) { kernels_->softmax_rows_backward(from.view(), to); });
  }

  std::unique_ptr<PointwiseKernels> kernels_ = cuda::make_pointwise(*TestDevice::get().stream);
};

}  // namespace

std::unique_ptr<PointwiseKernels> samples::make_pointwise(Executor&) {
  return std::make_unique<StagedPointwise>();
}

}  // namespace norn
