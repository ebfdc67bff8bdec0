// SPDX-License-Identifier: Apache-2.0
// The GPU's sums over runs of examples, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

#include <deque>

namespace norn {
namespace {

using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

class StagedRunSums final : public RunSumKernels {
 private:
  void do_sum_columns(const DenseOperand& a, MatrixView<const float> b, std::span<const Range> runs,
                      MatrixView<double> of_runs, VectorView<FixedSum> sums) override {
    staged::StagedOperand staged_a(a);
    StagedMatrix staged_b(b);
    StagedMatrix staged_runs(of_runs);
    StagedVector staged_sums(sums);
    kernels_->sum_columns(staged_a.view(), staged_b.view(), runs, staged_runs.view(),
                          staged_sums.view());
    TestDevice::get().finish();
    staged_sums.back();
  }
  void do_to_float(VectorView<const FixedSum> sums, double factor,
                   VectorView<float> values) override {
    StagedVector staged_sums(sums);
    StagedVector staged_values(values);
    kernels_->to_float(staged_sums.view(), factor, staged_values.view());
    TestDevice::get().finish();
    staged_values.back();
  }
  void do_add_terms(std::span<const VectorView<const float>> terms,
                    VectorView<float> sum) override {
    std::deque<StagedVector<const float>> staged_terms;
    std::vector<VectorView<const float>> views;
    for (const VectorView<const float>& term : terms)
      views.push_back(staged_terms.emplace_back(term).view());
    StagedVector staged_sum(sum);
    kernels_->add_terms(views, staged_sum.view());
    TestDevice::get().finish();
    staged_sum.back();
  }

  std::unique_ptr<RunSumKernels> kernels_ = cuda::make_run_sums(*TestDevice::get().stream);
};

}  // namespace

std::unique_ptr<RunSumKernels> samples::make_run_sums(Executor&) {
  return std::make_unique<StagedRunSums>();
}

}  // namespace norn
