// SPDX-License-Identifier: Apache-2.0
// Rows of V and the entries of a batch, for factored output layers.

#include "kernels/cpu/factored_matrices.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/row_sum.h"
#include "kernels/cpu/small_products.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <vector>

namespace norn {
namespace {

using row_sum::kLanes;
using row_sum::Lanes;

constexpr Index kTogether = 64;     // units or examples of a task
constexpr Index kPrefetchRows = 4;  // behind the one that is read

// A run of `count` elements in place of what `buffer` held.
template <typename T>
T* places(Buffer<T>& buffer, Index count) {
  if (buffer.size() < count) buffer = Buffer<T>(count + count / 2);
  return buffer.data();
}

void prefetch(const float* row, Index count) {
  for (Index j = 0; j < count; j += kLanes) __builtin_prefetch(row + j);
}

// v h' of one row of V and one of h: in an order that the width fixes.
double dot(const float* row, float last, const float* h, Index width) {
  constexpr Index kChains = 4;  // of vectors side by side
  Lanes chain[kChains] = {};
  const Index d = width - 1;
  Index j = 0;
  for (; j + kChains * kLanes <= d; j += kChains * kLanes)
    for (Index c = 0; c < kChains; ++c)
      chain[c] += row_sum::load(row + j + c * kLanes) * row_sum::load(h + j + c * kLanes);
  float part[kLanes];
  chain[0] = (chain[0] + chain[1]) + (chain[2] + chain[3]);
  std::memcpy(part, &chain[0], sizeof part);
  for (Index c = 0; j < d; ++j, c = (c + 1) % kLanes) part[c] += row[j] * h[j];
  double sum[4] = {double(last) * double(h[d]), 0.0, 0.0, 0.0};
  for (Index c = 0; c < kLanes; ++c) sum[c % 4] += double(part[c]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

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

struct Stored {
  std::uint32_t unit;
  std::int32_t example;
  float target;
};

// By unit, those of a unit as they stood: digit by digit from the last one on.
void sort_by_unit(std::vector<Stored>& stored, Index units) {
  constexpr int kBits = 8;
  std::vector<Stored> sorted(stored.size());
  for (int shift = 0; shift < 32 && (units - 1) >> shift > 0; shift += kBits) {
    const auto digit = [=](const Stored& one) { return one.unit >> shift & ((1u << kBits) - 1); };
    std::size_t next[(1 << kBits) + 1] = {};
    for (const Stored& one : stored) ++next[digit(one) + 1];
    std::partial_sum(std::begin(next), std::end(next), std::begin(next));
    for (const Stored& one : stored) sorted[next[digit(one)]++] = one;
    stored.swap(sorted);
  }
}

class CpuFactored final : public CpuFactoredMatrices {
 public:
  using CpuFactoredMatrices::CpuFactoredMatrices;

 private:
  void do_list(CsrView targets, Range units, TargetLists& lists) override {
    std::vector<Stored> stored;
    stored.reserve(std::size_t(targets.row_begin[targets.rows] - targets.row_begin[0]));
    for (Index e = 0; e < targets.rows; ++e)
      for (RowOffset i = targets.row_begin[e]; i < targets.row_begin[e + 1]; ++i) {
        const Index unit = Index(targets.column[i]);
        if (unit >= units.begin && unit < units.end)
          stored.push_back({std::uint32_t(unit - units.begin), std::int32_t(e),
                            targets.value ? targets.value[i] : 1.0f});
      }
    sort_by_unit(stored, units.count());
    lists.examples = targets.rows;
    lists.entries = Index(stored.size());
    const Index entries = lists.entries;
    Index* unit = places(lists.unit, entries);
    Index* begin = places(lists.begin, entries + 1);
    Index* place = places(lists.place, entries);
    std::int32_t* example = places(lists.example, entries);
    float* target = places(lists.target, entries);
    Index touched = 0;
    for (Index i = 0; i < entries; ++i) {
      const Stored& one = stored[std::size_t(i)];
      if (i == 0 || Index(one.unit) != unit[touched - 1]) {
        unit[touched] = Index(one.unit);
        begin[touched++] = i;
      }
      place[i] = touched - 1;
      example[i] = one.example;
      target[i] = one.target;
    }
    begin[touched] = entries;
    lists.touched = touched;
    list_by_example(lists);
  }

  static void list_by_example(TargetLists& lists) {
    Index* row_begin = places(lists.row_begin, lists.examples + 1);
    Index* entry = places(lists.entry, lists.entries);
    std::fill(row_begin, row_begin + lists.examples + 1, Index(0));
    for (Index i = 0; i < lists.entries; ++i) ++row_begin[lists.example.data()[i] + 1];
    for (Index e = 0; e < lists.examples; ++e) row_begin[e + 1] += row_begin[e];
    std::vector<Index> next(row_begin, row_begin + lists.examples);
    for (Index i = 0; i < lists.entries; ++i)
      entry[next[std::size_t(lists.example.data()[i])]++] = i;
  }

  void do_read_entries(const TargetLists& lists, FactorView<const float> v,
                       MatrixView<const double> h, const EntryRule& rule, Index block_width,
                       VectorView<double> r, VectorView<double> cost,
                       MatrixView<FixedSum> rv) override {
    const std::unique_ptr<float[]> sources = rounded(executor_, h);
    executor_.for_each(lists.examples, [&](Index e, int) {
      const double weight = rule.weight ? double(rule.weight[e]) : 1.0;
      const double root = std::sqrt(weight);
      const float* source = sources.get() + e * h.cols;
      sum_of_example(lists, e, v, block_width, rv, [&](Index k, Index unit) {
        const double z = dot(v.rows.row(unit), v.last[unit], source, v.width());
        const double t = double(lists.target.data()[k]);
        r[k] = root * ((rule.one - rule.zero) * z - rule.one * t);
        cost[k] = weight * 0.5 * (t * t - 2.0 * z * t + rule.ignored * z * z);
        return r[k];
      });
    });
  }

  void do_sum_rows(const TargetLists& lists, FactorView<const float> v, VectorView<const double> r,
                   Index block_width, MatrixView<FixedSum> rv) override {
    executor_.for_each(lists.examples, [&](Index e, int) {
      sum_of_example(lists, e, v, block_width, rv, [&](Index k, Index) { return r[k]; });
    });
  }

  // rv(e) = the sum of factor(entry, its unit) times its row of V.
  template <typename Factor>
  static void sum_of_example(const TargetLists& lists, Index e, FactorView<const float> v,
                             Index block_width, MatrixView<FixedSum> rv, const Factor& factor) {
    const Index begin = lists.row_begin.data()[e], count = lists.row_begin.data()[e + 1] - begin;
    const Index* entries = lists.entry.data() + begin;
    std::vector<Index> unit(static_cast<std::size_t>(count));
    std::vector<float> factors(unit.size());
    for (Index i = 0; i < count; ++i)
      unit[std::size_t(i)] = lists.unit.data()[lists.place.data()[entries[i]]];
    std::vector<float> sum(rv.empty() ? 0 : std::size_t(v.width()), 0.0f);
    SumRow blocks(Index(sum.size()));
    FixedSum* to = rv.empty() ? nullptr : rv.row(e);
    std::fill_n(to, sum.size(), FixedSum());
    for (Index first = 0, end = 0; first < count; first = end) {
      const Index behind = (unit[std::size_t(first)] / block_width + 1) * block_width;
      for (; end < count && unit[std::size_t(end)] < behind; ++end) {
        if (end + kPrefetchRows < count)
          prefetch(v.rows.row(unit[std::size_t(end + kPrefetchRows)]), v.rows.cols);
        factors[std::size_t(end)] = float(factor(entries[end], unit[std::size_t(end)]));
      }
      if (rv.empty()) continue;
      add_rows(
          RowList<Index>{unit.data() + first, factors.data() + first, end - first, count - first},
          v.rows, 0, v.rows.cols, sum.data());
      for (Index i = first; i < end; ++i)
        sum.back() += factors[std::size_t(i)] * v.last[unit[std::size_t(i)]];
      blocks.add(sum, to);
    }
    if (!rv.empty()) blocks.add_to(to);
  }

  void do_add_up_costs(const TargetLists& lists, VectorView<const double> cost, Index block_width,
                       VectorView<const double> all_units, VectorView<double> of_blocks) override {
    double all = 0.0;
    for (double part : all_units) all += part;
    Index place = 0;
    for (Index b = 0; b < of_blocks.size; ++b) {
      double sum = b == 0 ? 0.5 * all : 0.0;
      for (; place < lists.touched && lists.unit.data()[place] < (b + 1) * block_width; ++place)
        for (Index k = lists.begin.data()[place]; k < lists.begin.data()[place + 1]; ++k)
          sum += cost[k];
      of_blocks[b] = sum;
    }
  }

  void do_update_rows(const TargetLists& lists, VectorView<const double> r, double scale,
                      MatrixView<const double> k, FactorView<float> v) override {
    const std::unique_ptr<float[]> steps = rounded(executor_, k);
    const MatrixView<const float> source{steps.get(), k.rows, k.cols, k.cols};
    const Index* unit = lists.unit.data();
    const Index* begin = lists.begin.data();
    executor_.for_ranges(lists.touched, kTogether, [&](Index first, Index end, int) {
      std::vector<float> sum(std::size_t(v.width())), factors;
      for (Index place = first; place < end; ++place) {
        if (place + kPrefetchRows < end)
          prefetch(v.rows.row(unit[place + kPrefetchRows]), v.rows.cols);
        factors.assign(r.data + begin[place], r.data + begin[place + 1]);
        std::fill(sum.begin(), sum.end(), 0.0f);
        add_rows(RowList<std::int32_t>{lists.example.data() + begin[place], factors.data(),
                                       Index(factors.size())},
                 source, 0, v.width(), sum.data());
        float* row = v.rows.row(unit[place]);
        const auto by = float(scale);
        for (Index j = 0; j < v.width() - 1; ++j) row[j] -= by * sum[std::size_t(j)];
        v.last[unit[place]] -= by * sum.back();
      }
    });
  }

  // body(the units of a tile, their rows in one piece), tile by tile.
  template <typename T, typename Body>
  void for_tiles(FactorView<const float> v, const Body& body) {
    const Index width = v.width();
    executor_.for_ranges(v.units(), 2 * kTogether, [&](Index first, Index end, int) {
      std::vector<T> rows(std::size_t((end - first) * width));
      for (Index i = first; i < end; ++i) {
        T* to = rows.data() + (i - first) * width;
        std::copy_n(v.rows.row(i), width - 1, to);
        to[width - 1] = T(v.last[i]);
      }
      body(Range{first, end}, MatrixView<const T>{rows.data(), end - first, width, width});
    });
  }

  // By the difference from 1, which is small: its product may be rounded.
  void do_fold(MatrixView<const double> u, Index block_width, const double* needed,
               FactorView<float> v) override {
    if (*needed == 0.0) return;
    const Index width = v.width();
    std::vector<float> difference(std::size_t(width * width));
    for (Index i = 0; i < width; ++i)
      for (Index j = 0; j < width; ++j)
        difference[std::size_t(i * width + j)] = float(u(i, j) - (i == j ? 1.0 : 0.0));
    const Index blocks = (v.units() + block_width - 1) / block_width;
    executor_.for_each(blocks, [&](Index b, int) {
      const Index first = b * block_width, end = std::min(first + block_width, v.units());
      fold_block({difference.data(), width, width, width}, v.units_of({first, end}));
    });
  }

  void fold_block(MatrixView<const float> difference, FactorView<float> v) {
    const Index width = v.width();
    for_tiles<float>(v, [&](Range units, MatrixView<const float> rows) {
      std::vector<float> product(std::size_t(rows.size()));
      const MatrixView<float> to{product.data(), rows.rows, width, width};
      multiply_floats(rows, difference, to);
      for (Index i = units.begin; i < units.end; ++i) {
        const float* change = to.row(i - units.begin);
        float* row = v.rows.row(i);
        for (Index j = 0; j < width - 1; ++j) row[j] += change[j];
        v.last[i] += change[width - 1];
      }
    });
  }

  // One element after the other, for ranks have other tiles.
  void do_product(FactorView<const float> v, MatrixView<const double> u, Range columns,
                  MatrixView<float> w) override {
    std::vector<float> transposed(std::size_t(columns.count() * v.width()));
    for (Index c = columns.begin; c < columns.end; ++c)
      for (Index j = 0; j < v.width(); ++j)
        transposed[std::size_t((c - columns.begin) * v.width() + j)] = float(u(j, c));
    executor_.for_ranges(v.units(), kTogether, [&](Index first, Index end, int) {
      for (Index i = first; i < end; ++i)
        for (Index c = 0; c < columns.count(); ++c)
          w(i, c) =
              float(dot(v.rows.row(i), v.last[i], transposed.data() + c * v.width(), v.width()));
    });
  }

  void do_add_gram(FactorView<const float> v, MatrixView<FixedSum> g) override {
    const Index width = v.width();
    std::vector<double> rows(std::size_t(v.units() * width)), term(std::size_t(width * width));
    for_tiles<double>(v, [&](Range units, MatrixView<const double> tile) {
      std::copy_n(tile.data, tile.size(), rows.data() + units.begin * width);
    });
    const MatrixView<const double> all{rows.data(), v.units(), width, width};
    const MatrixView<double> sum{term.data(), width, width, width};
    multiply_doubles(executor_, 1.0, all, As::transposed, all, As::it_is, Existing::overwrite, sum);
    executor_.for_each(width, [&](Index i, int) {
      for (Index j = 0; j < width; ++j) g(i, j).add(sum(i, j));
    });
  }

  void do_values(MatrixView<const double> h, FactorView<const float> v,
                 MatrixView<float> z) override {
    const std::unique_ptr<float[]> sources = rounded(executor_, h);
    executor_.for_ranges(v.units(), kTogether, [&](Index first, Index end, int) {
      for (Index e = 0; e < h.rows; ++e)
        for (Index i = first; i < end; ++i)
          z(e, i) = float(dot(v.rows.row(i), v.last[i], sources.get() + e * h.cols, v.width()));
    });
  }
};

}  // namespace

std::unique_ptr<FactoredKernels> make_cpu_factored(Executor& executor) {
  return std::make_unique<CpuFactored>(executor);
}

}  // namespace norn
