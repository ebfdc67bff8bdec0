// SPDX-License-Identifier: Apache-2.0
// Passes over the rows of V that a batch names.
#include "kernels/cpu/factored_rows.h"

#include "kernels/cpu/row_sum.h"
#include "kernels/cpu/small_products.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace norn {
namespace {

using row_sum::kLanes;
using row_sum::kPrefetchRows;
using row_sum::kTileRows;
using row_sum::Lanes;

constexpr Index kTogether = 64;      // units of a task
constexpr Index kPrefetchUnits = 4;  // behind the one whose row is updated

// A row of FixedSum's accumulators side by side, so that terms are added in vectors: in units of
// 2^-26, and what these leave in units of 2^-52. A number next to which neighbours are so far apart
// rounds to them, and its bits are then theirs.
class SumRow {
 public:
  explicit SumRow(Index width) : coarse_(std::size_t(width)), fine_(coarse_) {}

  // Adds terms to what they belong to in the end, `sums`, and sets them to 0.
  void add(std::vector<float>& terms, FixedSum* sums) {
    const Index count = Index(terms.size());
    if (fit(terms))
      add(terms.data(), count, coarse_.data(), fine_.data());
    else
      for (Index j = 0; j < count; ++j) sums[j].add(double(terms[std::size_t(j)]));
    std::fill(terms.begin(), terms.end(), 0.0f);
  }
  void add_to(FixedSum* sums) const {
    constexpr std::int64_t kLow = (std::int64_t(1) << 26) - 1;
    for (std::size_t j = 0; j < coarse_.size(); ++j)
      sums[j].add(
          FixedSum::from_words(coarse_[j] >> 26, ((coarse_[j] & kLow) << 26) + fine_[j], 0));
  }

 private:
  static constexpr float kBound = 0x1p16f;  // below which FixedSum counts no magnitude
  static constexpr double kCoarse = 0x1.8p26, kFine = 1.5;

  static bool fit(const std::vector<float>& terms) {
    int beyond = 0;
    for (float term : terms) beyond |= std::abs(term) < kBound ? 0 : 1;
    return beyond == 0;
  }
  static void add(const float* terms, Index count, std::int64_t* coarse, std::int64_t* fine) {
    for (Index j = 0; j < count; ++j) {
      const double term = double(terms[j]), moved = term + kCoarse;
      const double rest = term - (moved - kCoarse) + kFine;
      coarse[j] += std::bit_cast<std::int64_t>(moved) - std::bit_cast<std::int64_t>(kCoarse);
      fine[j] += std::bit_cast<std::int64_t>(rest) - std::bit_cast<std::int64_t>(kFine);
    }
  }

  std::vector<std::int64_t> coarse_, fine_;
};

// The entries of an example and the rows of V that they name. What lies apart in memory is
// gathered before the rows are on their way.
class ExampleRows {
 public:
  ExampleRows(const TargetLists& lists, Index example, FactorView<const float> v)
      : entry_(lists.entry.data() + lists.row_begin.data()[example]),
        count_(lists.row_begin.data()[example + 1] - lists.row_begin.data()[example]),
        v_(v),
        unit_(std::size_t(count_)),
        last_(unit_.size()),
        factor_(unit_.size()) {
    const Index* place = lists.place.data() + lists.row_begin.data()[example];
    for (Index i = 0; i < count_; ++i) {
      const Index unit = lists.unit.data()[place[i]];
      unit_[std::size_t(i)] = unit;
      last_[std::size_t(i)] = v.last[unit];
    }
  }
  Index count() const { return count_; }
  // The number of the i-th of them.
  Index entry(Index i) const { return entry_[i]; }
  template <typename Factor>
  void set_factors(const Factor& factor) {
    for (Index i = 0; i < count_; ++i) factor_[std::size_t(i)] = float(factor(i));
  }

  // find(i, row, its last element) of each of them, tile by tile: the factor of its row.
  template <typename Find>
  void read(Index block_width, FixedSum* rv, const Find& find) {
    std::vector<float> sum(rv ? std::size_t(v_.width()) : 0, 0.0f);
    SumRow blocks(Index(sum.size()));
    std::fill_n(rv, sum.size(), FixedSum());
    for (Index i = 0; i < std::min(kPrefetchRows, count_); ++i) prefetch_row(i);
    for (Index first = 0, end = 0; first < count_; first = end) {
      const Index behind = (unit(first) / block_width + 1) * block_width;
      const Index most = std::min(count_, first + kTileRows);
      for (; end < most && unit(end) < behind; ++end) {
        if (end + kPrefetchRows < count_) prefetch_row(end + kPrefetchRows);
        factor_[std::size_t(end)] = find(end, v_.rows.row(unit(end)), last_[std::size_t(end)]);
      }
      if (!rv) continue;
      add_tile(first, end, sum);
      if (end == count_ || unit(end) >= behind) blocks.add(sum, rv);
    }
    if (rv) blocks.add_to(rv);
  }
  // rv = the sum of factor times row.
  void sum(Index block_width, FixedSum* rv) {
    read(block_width, rv, [this](Index i, const float*, float) { return factor_[std::size_t(i)]; });
  }

 private:
  Index unit(Index i) const { return unit_[std::size_t(i)]; }
  [[gnu::always_inline]] void prefetch_row(Index i) const {
    row_sum::prefetch(v_.rows.row(unit(i)), v_.rows.cols);
  }
  void add_tile(Index first, Index end, std::vector<float>& sum) const {
    add_rows(RowList<Index>{unit_.data() + first, factor_.data() + first, end - first}, v_.rows, 0,
             v_.rows.cols, sum.data());
    for (auto i = std::size_t(first); i < std::size_t(end); ++i)
      sum.back() += factor_[i] * last_[i];
  }

  const Index* entry_;
  Index count_;
  FactorView<const float> v_;
  std::vector<Index> unit_;
  std::vector<float> last_, factor_;
};

}  // namespace

double dot(const float* row, float last, const float* h, Index width) {
  constexpr Index kColumns = 16, kChains = 4;  // sums of every 16th column, four of each
  constexpr Index kSums = kChains * kColumns;
  Lanes chain[kSums / kLanes] = {};
  const Index d = width - 1;
  Index j = 0;
  for (; j + kSums <= d; j += kSums)
    for (Index v = 0; v < kSums / kLanes; ++v)
      chain[v] += row_sum::load(row + j + v * kLanes) * row_sum::load(h + j + v * kLanes);
  float part[kColumns];
  constexpr Index kNext = kColumns / kLanes;  // of the same columns
  for (Index v = 0; v < kNext; ++v)
    row_sum::store((chain[v] + chain[v + kNext]) + (chain[v + 2 * kNext] + chain[v + 3 * kNext]),
                   part + v * kLanes);
  for (Index c = 0; j < d; ++j, c = (c + 1) % kColumns) part[c] += row[j] * h[j];
  double sum[4] = {double(last) * double(h[d]), 0.0, 0.0, 0.0};
  for (Index c = 0; c < kColumns; ++c) sum[c % 4] += double(part[c]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void read_entries_by_rows(Executor& executor, const TargetLists& lists, FactorView<const float> v,
                          MatrixView<const double> h, const EntryRule& rule, Index block_width,
                          VectorView<double> r, VectorView<double> cost, MatrixView<FixedSum> rv) {
  const RoundedMatrix sources(executor, h);
  executor.for_each(lists.examples, [&](Index e, int) {
    const double weight = rule.weight ? double(rule.weight[e]) : 1.0;
    const double root = std::sqrt(weight);
    const float* source = sources.view().row(e);
    ExampleRows rows(lists, e, v);
    std::vector<double> target(std::size_t(rows.count())), z(target);
    const auto r_of = [&](std::size_t i) {
      return root * ((rule.one - rule.zero) * z[i] - rule.one * target[i]);
    };
    for (Index i = 0; i < rows.count(); ++i)
      target[std::size_t(i)] = double(lists.target.data()[rows.entry(i)]);
    rows.read(block_width, rv.empty() ? nullptr : rv.row(e),
              [&](Index i, const float* row, float last) {
                z[std::size_t(i)] = dot(row, last, source, v.width());
                return float(r_of(std::size_t(i)));
              });
    for (Index i = 0; i < rows.count(); ++i) {
      const double t = target[std::size_t(i)], found = z[std::size_t(i)];
      r[rows.entry(i)] = r_of(std::size_t(i));
      cost[rows.entry(i)] = weight * 0.5 * (t * t - 2.0 * found * t + rule.ignored * found * found);
    }
  });
}

void sum_rows_by_example(Executor& executor, const TargetLists& lists, FactorView<const float> v,
                         VectorView<const double> r, Index block_width, MatrixView<FixedSum> rv) {
  executor.for_each(lists.examples, [&](Index e, int) {
    ExampleRows rows(lists, e, v);
    rows.set_factors([&](Index i) { return r[rows.entry(i)]; });
    rows.sum(block_width, rv.row(e));
  });
}

// Those of a unit stand in the order of their examples: up to an entry are the pairs with examples
// before it.
void sum_pairs_by_example(Executor& executor, const TargetLists& lists, VectorView<const double> r,
                          Index block_width, MatrixView<FixedSum> rr) {
  const Index* begin = lists.begin.data();
  const std::int32_t* example = lists.example.data();
  const std::vector<float> factor(r.data, r.data + lists.entries);
  executor.for_each(lists.examples, [&](Index e, int) {
    std::fill_n(rr.row(e), rr.cols, FixedSum());
    std::vector<float> sum(std::size_t(e + 1), 0.0f);
    SumRow blocks(e + 1);
    const Index first = lists.row_begin.data()[e], end = lists.row_begin.data()[e + 1];
    Index behind = 0;  // where the block ends
    for (Index i = first; i < end; ++i) {
      const Index entry = lists.entry.data()[i], place = lists.place.data()[i];
      const Index unit = lists.unit.data()[place];
      if (unit >= behind) {
        if (i > first) blocks.add(sum, rr.row(e));
        behind = (unit / block_width + 1) * block_width;
      }
      const float own = factor[std::size_t(entry)];
      for (Index k = begin[place]; k < entry; ++k)
        sum[std::size_t(example[k])] += own * factor[std::size_t(k)];
      sum.back() += 0.5f * own * own;
    }
    blocks.add(sum, rr.row(e));
    blocks.add_to(rr.row(e));
  });
}

void update_rows_by_unit(Executor& executor, const TargetLists& lists, VectorView<const double> r,
                         double scale, MatrixView<const double> k, FactorView<float> v) {
  const RoundedMatrix steps(executor, k);
  const Index* unit = lists.unit.data();
  const Index* begin = lists.begin.data();
  executor.for_ranges(lists.touched, kTogether, [&](Index first, Index end, int) {
    std::vector<float> sum(std::size_t(v.width())), factors;
    for (Index place = first; place < end; ++place) {
      if (place + kPrefetchUnits < end)
        row_sum::prefetch_to_write(v.rows.row(unit[place + kPrefetchUnits]), v.rows.cols);
      factors.assign(r.data + begin[place], r.data + begin[place + 1]);
      add_rows<Existing::overwrite>(RowList<std::int32_t>{lists.example.data() + begin[place],
                                                          factors.data(), Index(factors.size())},
                                    steps.view(), 0, v.width(), sum.data());
      float* row = v.rows.row(unit[place]);
      const auto by = float(scale);
      for (Index j = 0; j < v.width() - 1; ++j) row[j] -= by * sum[std::size_t(j)];
      v.last[unit[place]] -= by * sum.back();
    }
  });
}

}  // namespace norn
