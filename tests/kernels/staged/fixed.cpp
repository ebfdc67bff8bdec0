// SPDX-License-Identifier: Apache-2.0
// The GPU's fixed-point sums, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

#include <mutex>

namespace norn {
namespace {

using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

class StagedSum {
 public:
  explicit StagedSum(const FixedMatrixView& sum)
      : fine_(sum.fine),
        coarse_(sum.coarse),
        coarse_used_(sum.coarse_used, 1),
        out_of_range_(sum.out_of_range, 1) {}
  FixedMatrixView view() {
    return {fine_.view(), coarse_.view(), coarse_used_.data(), out_of_range_.data()};
  }
  void back() const {
    fine_.back();
    coarse_.back();
    coarse_used_.back();
    out_of_range_.back();
  }

 private:
  StagedMatrix<std::int64_t> fine_;
  StagedMatrix<std::int64_t> coarse_;
  StagedVector<std::int64_t> coarse_used_;
  StagedVector<std::int64_t> out_of_range_;
};

class StagedPartialSums {
 public:
  explicit StagedPartialSums(const PartialSums& partial_sums) {
    view_.count = partial_sums.count;
    for (int i = 0; i < partial_sums.count; ++i) {
      staged_.push_back(std::make_unique<StagedMatrix<const float>>(partial_sums.of[i]));
      view_.of[i] = staged_.back()->view();
    }
  }
  const PartialSums& view() const { return view_; }

 private:
  std::vector<std::unique_ptr<StagedMatrix<const float>>> staged_;
  PartialSums view_;
};

class StagedFixed final : public FixedKernels {
 private:
  void do_add(const FixedFormat* format, const PartialSums& partial_sums,
              FixedMatrixView sum) override {
    const std::lock_guard lock(mutex_);  // a sum is copied there and back: one caller at a time
    StagedVector staged_format(format, 1);
    StagedPartialSums staged_partial_sums(partial_sums);
    StagedSum staged_sum(sum);
    kernels_->add(staged_format.data(), staged_partial_sums.view(), staged_sum.view());
    TestDevice::get().finish();
    staged_sum.back();
  }
  void do_to_float(const FixedFormat* format, FixedMatrixView sum, const PartialSums& partial_sums,
                   MatrixView<float> value, float* maximum) override {
    StagedPartialSums staged_partial_sums(partial_sums);
    StagedVector staged_format(format, 1);
    StagedSum staged_sum(sum);
    StagedMatrix staged_value(value);
    StagedVector staged_maximum(maximum, 1);
    kernels_->to_float(staged_format.data(), staged_sum.view(), staged_partial_sums.view(),
                       staged_value.view(), staged_maximum.data());
    TestDevice::get().finish();
    staged_sum.back();
    staged_value.back();
    staged_maximum.back();
  }
  void do_set(const FixedFormat* format, const PartialSums& partial_sums,
              FixedMatrixView sum) override {
    StagedVector staged_format(format, 1);
    StagedPartialSums staged_partial_sums(partial_sums);
    StagedSum staged_sum(sum);
    kernels_->set(staged_format.data(), staged_partial_sums.view(), staged_sum.view());
    TestDevice::get().finish();
    staged_sum.back();
  }
  void do_to_delta(FixedFormat* format, std::int64_t adapt_count, FixedMatrixView sum,
                   const PartialSums& partial_sums, const OutputSlope& slope,
                   MatrixView<float> delta, MatrixView<Bfloat16> bf16, float* maximum) override {
    StagedPartialSums staged_partial_sums(partial_sums);
    StagedVector staged_format(format, 1);
    StagedSum staged_sum(sum);
    StagedMatrix staged_y(slope.y);
    StagedMatrix staged_delta(delta);
    StagedMatrix staged_bf16(bf16);
    StagedVector staged_maximum(maximum, 1);
    kernels_->to_delta(staged_format.data(), adapt_count, staged_sum.view(),
                       staged_partial_sums.view(), {slope.f, slope.dropout, staged_y.view()},
                       staged_delta.view(), staged_bf16.view(), staged_maximum.data());
    TestDevice::get().finish();
    staged_format.back();
    staged_sum.back();
    staged_delta.back();
    staged_bf16.back();
    staged_maximum.back();
  }
  void do_adapt(const float* maximum, std::int64_t partial_sums, FixedFormat* format) override {
    StagedVector staged_maximum(maximum, 1);
    StagedVector staged_format(format, 1);
    kernels_->adapt(staged_maximum.data(), partial_sums, staged_format.data());
    TestDevice::get().finish();
    staged_format.back();
  }

  std::unique_ptr<FixedKernels> kernels_ = cuda::make_fixed(*TestDevice::get().stream);
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<FixedKernels> samples::make_fixed(Executor&) {
  return std::make_unique<StagedFixed>();
}

}  // namespace norn
