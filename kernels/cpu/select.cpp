// SPDX-License-Identifier: Apache-2.0
// The best K units of every example on the CPU.
#include "kernels/select.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/strips.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

namespace norn {
namespace {

struct Entry {
  float score;
  Index unit;
};

/// The order of a list: best first, ties by lowest unit.
bool is_better(const Entry& a, const Entry& b) {
  return a.score > b.score || (a.score == b.score && a.unit < b.unit);
}

/// One row's list while candidates are offered to it. Those that beat the threshold wait, unsorted;
/// when there are many, the K best of them are kept and the threshold rises. So the time is linear
/// in the candidates, whatever their order.
class RowMerger {
 public:
  RowMerger(TopK& best, Index row, std::vector<Entry>& waiting)
      : score_(best.score.view().row(row)),
        unit_(best.unit.view().row(row)),
        count_(best.count.data() + row),
        k_(best.k),
        waiting_(waiting) {
    waiting_.clear();
    if (*count_ == k_) threshold_ = {score_[k_ - 1], unit_[k_ - 1]};
  }

  /// No score below this one can enter.
  float threshold() const { return threshold_.score; }

  void offer(const Entry& candidate) {
    if (!is_better(candidate, threshold_)) return;
    waiting_.push_back(candidate);
    if (Index(waiting_.size()) >= 2 * k_ + 64) keep_best_waiting();
  }

  /// Sorts the waiting candidates into the list, from its end.
  void finish() {
    if (Index(waiting_.size()) > k_) keep_best_waiting();
    std::sort(waiting_.begin(), waiting_.end(), is_better);
    Index old = *count_ - 1;
    Index fresh = Index(waiting_.size()) - 1;
    *count_ = std::min(k_, old + fresh + 2);
    for (Index place = old + fresh + 1; fresh >= 0; --place) {
      const Entry& candidate = waiting_[std::size_t(fresh)];
      const bool takes_old = old >= 0 && is_better(candidate, {score_[old], unit_[old]});
      const Entry worst = takes_old ? Entry{score_[old], unit_[old]} : candidate;
      --(takes_old ? old : fresh);
      if (place >= k_) continue;
      score_[place] = worst.score;
      unit_[place] = worst.unit;
    }
  }

 private:
  void keep_best_waiting() {
    const auto worst_kept = waiting_.begin() + (k_ - 1);
    std::nth_element(waiting_.begin(), worst_kept, waiting_.end(), is_better);
    if (is_better(*worst_kept, threshold_)) threshold_ = *worst_kept;
    waiting_.resize(std::size_t(k_));
  }

  float* score_;
  Index* unit_;
  Index* count_;
  Index k_;
  std::vector<Entry>& waiting_;
  Entry threshold_{-std::numeric_limits<float>::infinity(), std::numeric_limits<Index>::max()};
};

/// Walks one row's excluded columns in step with ascending units.
class ExcludedColumns {
 public:
  ExcludedColumns(const CsrView& excluded, Index row, Index first_unit) {
    if (excluded.rows == 0) return;
    end_ = excluded.column + excluded.row_begin[row + 1];
    next_ = std::lower_bound(excluded.column + excluded.row_begin[row], end_, first_unit,
                             [](Column column, Index unit) { return Index(column) < unit; });
  }
  bool contains(Index unit) {
    while (next_ != end_ && Index(*next_) < unit) ++next_;
    return next_ != end_ && Index(*next_) == unit;
  }

 private:
  const Column* next_ = nullptr;
  const Column* end_ = nullptr;
};

constexpr Index kFilterWidth = 64;
constexpr Index kWordWidth = 8;  ///< scores whose marks make one 64-bit word

/// marks[c] = whether score[c] reaches the threshold; NaN never does.
void mark_reaching(float threshold, const float* score, Index n, std::uint8_t* marks) {
  for (Index c = 0; c < n; ++c) marks[c] = score[c] >= threshold ? 1 : 0;
}

void merge_row(const float* score, Index width, Index first_unit, const Candidates& candidates,
               Index row, TopK& best, std::vector<Entry>& waiting) {
  RowMerger merger(best, row, waiting);
  ExcludedColumns excluded(candidates.excluded, row, first_unit);
  const std::uint8_t* allowed =
      candidates.allowed.empty() ? nullptr : candidates.allowed.data + first_unit;
  const auto offer_marked = [&](Index first, const std::uint8_t* marks) {
    for (Index c = 0; c < kWordWidth; ++c) {
      if (marks[c] == 0) continue;
      const Index unit = first + c;
      if (allowed != nullptr && allowed[unit] == 0) continue;
      if (excluded.contains(first_unit + unit)) continue;
      merger.offer({score[unit], first_unit + unit});
    }
  };
  for (Index first = 0; first < width; first += kFilterWidth) {
    std::array<std::uint8_t, kFilterWidth> marks{};
    if (width - first >= kFilterWidth)
      mark_reaching(merger.threshold(), score + first, kFilterWidth, marks.data());
    else
      mark_reaching(merger.threshold(), score + first, width - first, marks.data());
    for (Index c = 0; c < kFilterWidth; c += kWordWidth) {
      std::uint64_t word;
      std::memcpy(&word, marks.data() + c, sizeof word);
      if (word != 0) offer_marked(first + c, marks.data() + c);
    }
  }
  merger.finish();
}

class CpuSelectKernels final : public SelectKernels {
 public:
  explicit CpuSelectKernels(Executor& executor) : executor_(executor) {}

 private:
  void do_begin(Index rows, Index k, TopK& best) override {
    if (best.score.rows() != rows || best.k != k) {
      best.score = Matrix<float>(rows, k);
      best.unit = Matrix<Index>(rows, k);
      best.count = Buffer<Index>(rows);
      best.k = k;
    }
    best.count.fill_zero();
  }

  void do_merge_scores(MatrixView<const float> score, Index first_unit,
                       const Candidates& candidates, TopK& best) override {
    executor_.for_ranges(
        score.rows, strips::rows_per_task(score.cols), [&](Index begin, Index end, int /*lane*/) {
          std::vector<Entry> waiting;
          for (Index r = begin; r < end; ++r)
            merge_row(score.row(r), score.cols, first_unit, candidates, r, best, waiting);
        });
  }

  void do_multiply(const CsrView& factors, Index first_unit, MatrixView<float> score) override {
    executor_.for_ranges(score.rows, 16, [&](Index begin, Index end, int /*lane*/) {
      for (Index r = begin; r < end; ++r) {
        const Column* last = factors.column + factors.row_begin[r + 1];
        const Column* at =
            std::lower_bound(factors.column + factors.row_begin[r], last, first_unit,
                             [](Column column, Index unit) { return Index(column) < unit; });
        for (; at != last && Index(*at) < first_unit + score.cols; ++at)
          score(r, Index(*at) - first_unit) *= factors.value[at - factors.column];
      }
    });
  }

  void do_merge_lists(const TopK& other, TopK& best) override {
    executor_.for_ranges(best.count.size(), strips::rows_per_task(best.k),
                         [&](Index begin, Index end, int) {
                           std::vector<Entry> waiting;
                           for (Index r = begin; r < end; ++r) {
                             RowMerger merger(best, r, waiting);
                             const float* score = other.score.view().row(r);
                             const Index* unit = other.unit.view().row(r);
                             for (Index i = 0; i < other.count.data()[r]; ++i)
                               merger.offer({score[i], unit[i]});
                             merger.finish();
                           }
                         });
  }

  Executor& executor_;
};

}  // namespace

std::unique_ptr<SelectKernels> make_cpu_select(Executor& executor) {
  return std::make_unique<CpuSelectKernels>(executor);
}

}  // namespace norn
