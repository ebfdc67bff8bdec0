// SPDX-License-Identifier: Apache-2.0
// The best K units of every example on the CPU.
#include "norn/kernels/select.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/strips.h"

#include <algorithm>
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

/// One row's list while candidates are offered to it. Candidates that beat the worst entry wait in
/// `fresh_` and are sorted and joined together, so that no order of scores makes it slow.
class RowMerger {
 public:
  RowMerger(TopK& best, Index row)
      : score_(best.score.view().row(row)),
        unit_(best.unit.view().row(row)),
        count_(best.count.data() + row),
        k_(best.k) {
    read_threshold();
  }

  /// No score below this one can enter.
  float threshold() const { return threshold_.score; }

  void offer(const Entry& candidate, std::vector<Entry>& fresh, std::vector<Entry>& joined) {
    if (!is_better(candidate, threshold_)) return;
    fresh.push_back(candidate);
    if (Index(fresh.size()) >= std::max<Index>(k_, kFreshCapacity)) join(fresh, joined);
  }

  /// Sorts the fresh candidates into the list.
  void join(std::vector<Entry>& fresh, std::vector<Entry>& joined) {
    if (fresh.empty()) return;
    std::sort(fresh.begin(), fresh.end(), is_better);
    joined.clear();
    for (Index i = 0; i < *count_; ++i) joined.push_back({score_[i], unit_[i]});
    const std::size_t old = joined.size();
    joined.insert(joined.end(), fresh.begin(), fresh.end());
    std::inplace_merge(joined.begin(), joined.begin() + Index(old), joined.end(), is_better);
    *count_ = std::min(k_, Index(joined.size()));
    for (Index i = 0; i < *count_; ++i) {
      score_[i] = joined[std::size_t(i)].score;
      unit_[i] = joined[std::size_t(i)].unit;
    }
    fresh.clear();
    read_threshold();
  }

 private:
  static constexpr Index kFreshCapacity = 256;

  void read_threshold() {
    if (*count_ == k_)
      threshold_ = {score_[k_ - 1], unit_[k_ - 1]};
    else
      threshold_ = {-std::numeric_limits<float>::infinity(), std::numeric_limits<Index>::max()};
  }

  float* score_;
  Index* unit_;
  Index* count_;
  Index k_;
  Entry threshold_;
};

/// How many of x reach the threshold; NaN never does.
int count_reaching(float threshold, const float* x, Index n) {
  int reaching = 0;
  for (Index c = 0; c < n; ++c) reaching += x[c] >= threshold ? 1 : 0;
  return reaching;
}

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

/// Scratch of one task.
struct Scratch {
  std::vector<Entry> fresh;
  std::vector<Entry> joined;
};

void merge_row(const float* score, Index width, Index first_unit, const Candidates& candidates,
               Index row, TopK& best, Scratch& scratch) {
  constexpr Index kFilterWidth = 64;
  RowMerger merger(best, row);
  ExcludedColumns excluded(candidates.excluded, row, first_unit);
  const std::uint8_t* allowed =
      candidates.allowed.empty() ? nullptr : candidates.allowed.data + first_unit;
  for (Index first = 0; first < width; first += kFilterWidth) {
    const Index count = std::min(kFilterWidth, width - first);
    if (count_reaching(merger.threshold(), score + first, count) == 0) continue;
    for (Index c = first; c < first + count; ++c) {
      if (!(score[c] >= merger.threshold())) continue;
      if (allowed != nullptr && allowed[c] == 0) continue;
      if (excluded.contains(first_unit + c)) continue;
      merger.offer({score[c], first_unit + c}, scratch.fresh, scratch.joined);
    }
  }
  merger.join(scratch.fresh, scratch.joined);
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
          Scratch scratch;
          for (Index r = begin; r < end; ++r)
            merge_row(score.row(r), score.cols, first_unit, candidates, r, best, scratch);
        });
  }

  void do_merge_lists(const TopK& other, TopK& best) override {
    executor_.for_ranges(best.count.size(), strips::rows_per_task(best.k),
                         [&](Index begin, Index end, int) {
                           Scratch scratch;
                           for (Index r = begin; r < end; ++r) {
                             RowMerger merger(best, r);
                             const float* score = other.score.view().row(r);
                             const Index* unit = other.unit.view().row(r);
                             for (Index i = 0; i < other.count.data()[r]; ++i)
                               merger.offer({score[i], unit[i]}, scratch.fresh, scratch.joined);
                             merger.join(scratch.fresh, scratch.joined);
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
