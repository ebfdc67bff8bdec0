// SPDX-License-Identifier: Apache-2.0
// The fused products' door: which device and precision have them.
#include "kernels/cuda/families.h"
#include "kernels/cuda/fused/fused.h"
#include "kernels/cuda/fused/tile_totals.h"
#include "kernels/cuda/hopper/persistent.h"
#include "kernels/dense.h"
#include "kernels/fused.h"

namespace norn::cuda {
namespace {

class CudaFused final : public FusedKernels {
 public:
  explicit CudaFused(const Stream& stream)
      : stream_(stream),
        dense_(make_dense(stream)),
        usable_(stream.precision != Precision::fp32 && device_has_wgmma()),
        output_workspace_(stream.memory) {}

  bool softmax_statistics(const OutputBlock& block, MatrixView<float> maximum,
                          MatrixView<float> sum) override {
    return usable_ && cuda::softmax_statistics(stream_, output_workspace_, block, maximum, sum);
  }
  void softmax_rows(const SoftMaxCost& rule, const TargetView& target,
                    const SoftMaxRows& rows) override {
    if (usable_) cuda::softmax_rows(stream_, output_workspace_, rule, target, rows);
  }
  bool output_delta(const OutputBlock& block) override {
    if (!usable_) return false;
    return stream_.precision == Precision::bf16
               ? output_delta_bfloat16(stream_, output_workspace_, block)
               : output_delta_float(stream_, output_workspace_, block);
  }
  void begin_totals() override { output_workspace_.pending.clear(); }
  void add_totals() override { cuda::add_totals(stream_, output_workspace_); }
  bool update(const UpdateRule& rule, const UpdateStep& step, DenseOperand delta, DenseOperand x,
              float scale, WeightView w, SlotViews slot, Index block) override {
    if (stream_.precision != Precision::bf16)
      return update_in_product(rule, step, delta, x, scale, w.floats, block);
    // The tiles of our own kernel do not know of each other, whatever blocks they are of.
    return usable_ && update_bfloat16(stream_, rule, step, delta.bf16, x.bf16, scale, w, slot);
  }

 private:
  /// A step of gradient descent without regularisation and clip is the product itself: w += -rate *
  /// g.
  bool update_in_product(const UpdateRule& rule, const UpdateStep& step, const DenseOperand& delta,
                         const DenseOperand& x, float scale, MatrixView<float> w, Index block) {
    if (!std::holds_alternative<Sgd>(rule) || step.l1 != 0.0f || step.l2 != 0.0f ||
        step.clip > 0.0f)
      return false;
    dense_->gradient(delta, x, -step.rate * scale, w, Existing::add, block);
    return true;
  }

  Stream stream_;
  std::unique_ptr<DenseKernels> dense_;
  bool usable_;
  OutputWorkspace output_workspace_;
};

}  // namespace

std::unique_ptr<FusedKernels> make_fused(const Stream& stream) {
  return std::make_unique<CudaFused>(stream);
}

}  // namespace norn::cuda
