// SPDX-License-Identifier: Apache-2.0
// The GPU's selection kernels, to be tested with the CPU's test text.
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

namespace norn {
namespace {

using staged::StagedCsr;
using staged::StagedMatrix;
using staged::StagedVector;
using staged::TestDevice;

/// A list of the best on the GPU.
class StagedBest {
 public:
  StagedBest(SelectKernels& kernels, const TopK& host) {
    Memory& memory = *TestDevice::get().memory;
    kernels.begin(host.count.size(), host.k, best_);
    memory.write(best_.score.view().data, host.score.view().data, std::size_t(host.score.bytes()));
    memory.write(best_.unit.view().data, host.unit.view().data, std::size_t(host.unit.bytes()));
    best_.count.write(host.count.data(), host.count.size());
  }
  TopK& best() { return best_; }
  void back(TopK& host) const {
    const Memory& memory = *TestDevice::get().memory;
    memory.read(best_.score.view().data, host.score.view().data, std::size_t(host.score.bytes()));
    memory.read(best_.unit.view().data, host.unit.view().data, std::size_t(host.unit.bytes()));
    best_.count.read(host.count.data(), host.count.size());
  }

 private:
  TopK best_;
};

class StagedSelect final : public SelectKernels {
 private:
  void do_begin(Index rows, Index k, TopK& best) override {
    best.score = Matrix<float>::zeros(rows, k);
    best.unit = Matrix<Index>::zeros(rows, k);
    best.count = Buffer<Index>::zeros(rows);
    best.k = k;
  }
  void do_merge_scores(MatrixView<const float> score, Index first_unit,
                       const Candidates& candidates, TopK& best) override {
    StagedMatrix block(score);
    StagedCsr excluded(candidates.excluded);
    StagedVector allowed(candidates.allowed);
    StagedBest list(*kernels_, best);
    kernels_->merge(block.view(), first_unit, {excluded.view(), allowed.view()}, list.best());
    TestDevice::get().finish();
    list.back(best);
  }
  void do_multiply(const CsrView& factors, Index first_unit, MatrixView<float> score) override {
    StagedCsr listed(factors);
    StagedMatrix block(score);
    kernels_->multiply(listed.view(), first_unit, block.view());
    TestDevice::get().finish();
    block.back();
  }
  void do_merge_lists(const TopK& other, TopK& best) override {
    StagedBest from(*kernels_, other), to(*kernels_, best);
    kernels_->merge(from.best(), to.best());
    TestDevice::get().finish();
    to.back(best);
  }
  std::unique_ptr<SelectKernels> kernels_ = cuda::make_select(*TestDevice::get().stream);
};

}  // namespace

std::unique_ptr<SelectKernels> samples::make_select(Executor&) {
  return std::make_unique<StagedSelect>();
}

}  // namespace norn
