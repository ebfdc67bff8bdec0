// SPDX-License-Identifier: Apache-2.0
// The best K units of every example on the GPU.
#include "kernels/cuda/families.h"
#include "kernels/cuda/select/select_merge.h"
#include "kernels/select.h"

namespace norn::cuda {
namespace {

static_assert(SortedLists::kLongestMerged == kCandidateCapacity / 2 && sizeof(Key) == 8);

/// A warp a row.
__global__ void multiply_listed(CsrView factors, Index first_unit, MatrixView<float> score) {
  const Index r = Index(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (r >= score.rows) return;
  const RowOffset end = factors.row_begin[r + 1];
  const RowOffset begin = warp_lower_bound(factors.column, factors.row_begin[r], end, first_unit);
  for (RowOffset i = begin + threadIdx.x % 32; i < end; i += 32) {
    const Index c = Index(factors.column[i]) - first_unit;
    if (c >= score.cols) break;
    score(r, c) *= factors.value[i];
  }
}

class CudaSelectKernels final : public SelectKernels {
 public:
  explicit CudaSelectKernels(const Stream& stream) : stream_(stream), sorted_(stream.memory) {}

 private:
  void do_begin(Index rows, Index k, TopK& best) override {
    if (best.score.rows() != rows || best.k != k) {
      // Whole lists are copied to the host, also those that are not full.
      best.score = Matrix<float>::zeros(rows, k, stream_.memory);
      best.unit = Matrix<Index>::zeros(rows, k, stream_.memory);
      best.count = Buffer<Index>(rows, stream_.memory);
      best.k = k;
    }
    best.count.fill_zero();
  }

  void do_merge_scores(MatrixView<const float> score, Index first_unit,
                       const Candidates& candidates, TopK& best) override {
    merge_from(BlockOfScores{score, first_unit, candidates, access_width(score)}, score.cols, best);
  }

  void do_multiply(const CsrView& factors, Index first_unit, MatrixView<float> score) override {
    if (score.empty()) return;
    constexpr int kThreads = 128;
    multiply_listed<<<unsigned((score.rows + 3) / 4), kThreads, 0, stream_.stream>>>(
        factors, first_unit, score);
    check_launch("multiply_listed");
  }

  void do_merge_lists(const TopK& other, TopK& best) override {
    merge_from(ListOfBest{other.score.view(), other.unit.view(), other.count.data()}, other.k,
               best);
  }

  /// Merges a source of up to `width` candidates a row.
  template <typename Source>
  void merge_from(const Source& source, Index width, TopK& best) {
    const Index rows = best.count.size();
    if (rows == 0 || width == 0) return;
    const BestView list{best.score.view(), best.unit.view(), best.count.data()};
    if (best.k <= SortedLists::kLongestMerged) {
      merge_small<<<unsigned(rows), kMergeThreads, 0, stream_.stream>>>(source, list);
      check_launch("merge_small");
      return;
    }
    const Index capacity = SortedLists::capacity(best.k);
    const Index at_once = SortedLists::rows_at_once(rows, best.k);
    Key* sorted = sorted_.reserve(capacity * at_once);
    for (Index first = 0; first < rows; first += at_once) {
      const Index count = std::min(at_once, rows - first);
      merge_large<<<unsigned(count), kLargeThreads, 0, stream_.stream>>>(source, list, first,
                                                                         sorted, capacity);
      check_launch("merge_large");
    }
  }

  Stream stream_;
  Workspace<Key> sorted_;
};

}  // namespace

std::unique_ptr<SelectKernels> make_select(const Stream& stream) {
  return std::make_unique<CudaSelectKernels>(stream);
}

}  // namespace norn::cuda
