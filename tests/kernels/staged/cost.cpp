// SPDX-License-Identifier: Apache-2.0
// The GPU's cost kernels, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

namespace norn {
namespace {

using staged::StagedCsr;
using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

class StagedTarget {
 public:
  explicit StagedTarget(const TargetView& host)
      : host_(host),
        sparse_(host.is_sparse ? host.sparse : CsrView{}),
        dense_(host.is_sparse ? MatrixView<const float>{} : host.dense),
        weight_(host.weight),
        entry_weight_(weights_of(host)) {}
  TargetView view() {
    TargetView view = host_;
    view.sparse = sparse_.view();
    view.dense = dense_.view();
    view.weight = weight_.view();
    if (host_.entry_weight != nullptr) view.entry_weight = entry_weight_.view().data;
    return view;
  }

 private:
  static VectorView<const float> weights_of(const TargetView& host) {
    if (host.entry_weight == nullptr) return {};
    return {host.entry_weight, Index(host.sparse.entries())};
  }
  TargetView host_;
  StagedCsr sparse_;
  StagedMatrix<const float> dense_;
  StagedVector<const float> weight_;
  StagedVector<const float> entry_weight_;
};

class StagedRows {
 public:
  explicit StagedRows(const SoftMaxRows& host)
      : maximum_(host.maximum), total_(host.total), coupling_(host.coupling) {}
  SoftMaxRows view() { return {maximum_.view(), total_.view(), coupling_.view()}; }

 private:
  StagedVector<const float> maximum_;
  StagedVector<const std::int64_t> total_;
  StagedVector<const std::int64_t> coupling_;
};

class StagedCost final : public CostKernels {
 private:
  void do_delta(const UnitCost& rule, const TargetView& target, Index first_unit,
                MatrixView<float> z, double* cost, MatrixView<Bfloat16> bf16) override {
    StagedTarget targets(target);
    StagedMatrix block(z);
    StagedMatrix low(bf16);
    StagedVector sum(cost, 1);
    kernels_->delta(rule, targets.view(), first_unit, block.view(), sum.data(), low.view());
    finish(block, low, sum);
  }
  void do_softmax_statistics(MatrixView<const float> z, VectorView<float> maximum,
                             VectorView<float> sum) override {
    StagedMatrix block(z);
    StagedVector top(maximum), terms(sum);
    kernels_->softmax_statistics(block.view(), top.view(), terms.view());
    finish(top, terms);
  }
  void do_softmax_maximum(MatrixView<const float> block_maximum,
                          VectorView<float> maximum) override {
    StagedMatrix tops(block_maximum);
    StagedVector top(maximum);
    kernels_->softmax_maximum(tops.view(), top.view());
    finish(top);
  }
  void do_softmax_total(MatrixView<const float> block_maximum, MatrixView<const float> block_sum,
                        VectorView<const float> maximum, VectorView<std::int64_t> total,
                        std::int64_t* out_of_range) override {
    StagedMatrix tops(block_maximum), sums(block_sum);
    StagedVector top(maximum);
    StagedVector all(total);
    StagedVector flag(out_of_range, 1);
    kernels_->softmax_total(tops.view(), sums.view(), top.view(), all.view(), flag.data());
    finish(all, flag);
  }
  void do_target_coupling(const SoftMaxCost& rule, const TargetView& target,
                          VectorView<std::int64_t> coupling, std::int64_t* out_of_range) override {
    StagedTarget targets(target);
    StagedVector sum(coupling), flag(out_of_range, 1);
    kernels_->softmax_coupling(rule, targets.view(), sum.view(), flag.data());
    finish(sum, flag);
  }
  void do_block_coupling(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                         MatrixView<const float> z, const SoftMaxRows& rows,
                         VectorView<std::int64_t> coupling, std::int64_t* out_of_range) override {
    StagedTarget targets(target);
    StagedMatrix block(z);
    StagedRows numbers(rows);
    StagedVector sum(coupling), flag(out_of_range, 1);
    kernels_->softmax_coupling(rule, targets.view(), first_unit, block.view(), numbers.view(),
                               sum.view(), flag.data());
    finish(sum, flag);
  }
  void do_softmax_delta(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                        const SoftMaxRows& rows, MatrixView<float> z, double* cost,
                        MatrixView<Bfloat16> bf16) override {
    StagedTarget targets(target);
    StagedMatrix block(z);
    StagedMatrix low(bf16);
    StagedRows numbers(rows);
    StagedVector sum(cost, 1);
    kernels_->softmax_delta(rule, targets.view(), first_unit, numbers.view(), block.view(),
                            sum.data(), low.view());
    finish(block, low, sum);
  }
  void do_softmax_values(const SoftMaxRows& rows, MatrixView<float> z) override {
    StagedMatrix block(z);
    StagedRows numbers(rows);
    kernels_->softmax_values(numbers.view(), block.view());
    finish(block);
  }

  /// Waits for the kernels and copies back what they wrote.
  template <typename... Staged>
  static void finish(Staged&... written) {
    TestDevice::get().finish();
    (written.back(), ...);
  }
  std::unique_ptr<CostKernels> kernels_ = cuda::make_cost(*TestDevice::get().stream);
};

}  // namespace

std::unique_ptr<CostKernels> samples::make_cost(Executor&) {
  return std::make_unique<StagedCost>();
}

}  // namespace norn
