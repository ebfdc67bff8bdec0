// SPDX-License-Identifier: Apache-2.0
// Recommendations whose scores are never written: the wide layer's product behind its family.
#include "kernels/cuda/families.h"
#include "kernels/cuda/select/top_k_product.h"
#include "kernels/recommend.h"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
/// What the rounding of an activation may put in another order, relative to the score.
constexpr float kRounding = 5e-7f;

__global__ void __launch_bounds__(kThreads)
    check_lead_kernel(const MatrixView<const float> found, const Index* found_count,
                      const MatrixView<const float> best, const Index* best_count,
                      std::int64_t* gave_up) {
  const Index r = Index(blockIdx.x) * kThreads + threadIdx.x;
  if (r >= found.rows || found_count[r] < found.cols) return;  // all candidates are in the list
  const float last = best_count[r] == best.cols ? best(r, best.cols - 1) : 0.0f;
  const float next = found(r, found.cols - 1);
  const bool leads = best_count[r] == best.cols && last > next + kRounding * fabsf(next);
  if (!leads) *gave_up = 1;
}

class CudaRecommend final : public RecommendKernels {
 public:
  explicit CudaRecommend(const Stream& stream)
      : stream_(stream), product_(stream), usable_(stream.precision == Precision::bf16) {}

  bool fits(const DenseOperand& x, const DenseOperand& w, Index units, Index k) const override {
    return usable_ && units >= kFewestUnits && x.bf16.data != nullptr &&
           TopKProduct::fits(x.bf16, w.bf16, k);
  }

  void find(const ScoredUnits& units, const Candidates& candidates, TopK& best,
            std::int64_t* gave_up) override {
    product_.find(units.x.bf16, units.w.bf16, units.bias, units.first, candidates, best, gave_up);
  }

  void check_lead(const TopK& found, const TopK& best, std::int64_t* gave_up) override {
    const Index rows = found.count.size();
    if (rows == 0) return;
    check_lead_kernel<<<unsigned((rows + kThreads - 1) / kThreads), kThreads, 0, stream_.stream>>>(
        found.score.view(), found.count.data(), best.score.view(), best.count.data(), gave_up);
    check_launch("check_lead");
  }

 private:
  static constexpr Index kFewestUnits = 16384;  ///< below, writing the scores costs little
  Stream stream_;
  TopKProduct product_;
  bool usable_;
};

}  // namespace

std::unique_ptr<RecommendKernels> make_recommend(const Stream& stream) {
  return std::make_unique<CudaRecommend>(stream);
}

}  // namespace norn::cuda
