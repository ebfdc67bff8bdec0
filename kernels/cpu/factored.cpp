// SPDX-License-Identifier: Apache-2.0
// Rows of V and the entries of a batch, for factored output layers.

#include "kernels/cpu/factored_matrices.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/small_products.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

namespace norn {
namespace {

constexpr Index kTogether = 64;  // units or examples of a task
constexpr Index kChains = 16;    // of a dot product, which vectors hold side by side

// A run of `count` elements in place of what `buffer` held.
template <typename T>
T* places(Buffer<T>& buffer, Index count) {
  if (buffer.size() < count) buffer = Buffer<T>(count + count / 2);
  return buffer.data();
}

// v h' of one row of V and one of h: in an order that the width fixes.
double dot(const float* row, float last, const float* h, Index width) {
  float chain[kChains] = {};
  const Index d = width - 1, whole = d / kChains * kChains;
  for (Index j = 0; j < whole; j += kChains)
    for (Index c = 0; c < kChains; ++c) chain[c] += row[j + c] * h[j + c];
  for (Index j = whole; j < d; ++j) chain[j - whole] += row[j] * h[j];
  double sum = double(last) * double(h[d]);
  for (float part : chain) sum += double(part);
  return sum;
}

// sum += factor * v, a row of V.
void add_row(float factor, const float* row, float last, Index width, float* sum) {
  for (Index j = 0; j < width - 1; ++j) sum[j] += factor * row[j];
  sum[width - 1] += factor * last;
}

// A row of FixedSum's accumulators side by side, so that terms are added in vectors: in units of
// 2^-26, and what these leave in units of 2^-52. A number next to which neighbours are so far apart
// rounds to them, and its bits are then theirs.
class SumRow {
 public:
  explicit SumRow(Index width) : coarse_(std::size_t(width)), fine_(coarse_) {}

  // Adds terms to what they belong to in the end, `sums`, and sets them to 0.
  void add(std::vector<float>& terms, FixedSum* sums) {
    bool fits = true;
    for (float term : terms) fits &= std::abs(term) < kBound;
    for (std::size_t j = 0; fits && j < terms.size(); ++j) {
      const double term = double(terms[j]), moved = term + kCoarse;
      coarse_[j] += std::bit_cast<std::int64_t>(moved) - std::bit_cast<std::int64_t>(kCoarse);
      const double rest = term - (moved - kCoarse) + kFine;
      fine_[j] += std::bit_cast<std::int64_t>(rest) - std::bit_cast<std::int64_t>(kFine);
    }
    for (std::size_t j = 0; !fits && j < terms.size(); ++j) sums[j].add(double(terms[j]));
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
  std::vector<std::int64_t> coarse_, fine_;
};

std::vector<float> floats_of(const double* values, Index count) {
  std::vector<float> floats(static_cast<std::size_t>(count));
  std::transform(values, values + count, floats.begin(), [](double x) { return float(x); });
  return floats;
}

class CpuFactored final : public CpuFactoredMatrices {
 public:
  using CpuFactoredMatrices::CpuFactoredMatrices;

 private:
  void do_list(CsrView targets, Range units, TargetLists& lists) override {
    struct Stored {
      Column unit;
      std::int32_t example;
      float target;
    };
    std::vector<Stored> stored;
    for (Index e = 0; e < targets.rows; ++e)
      for (RowOffset i = targets.row_begin[e]; i < targets.row_begin[e + 1]; ++i) {
        const Index unit = Index(targets.column[i]);
        if (unit >= units.begin && unit < units.end)
          stored.push_back({Column(unit - units.begin), std::int32_t(e),
                            targets.value ? targets.value[i] : 1.0f});
      }
    std::stable_sort(stored.begin(), stored.end(),
                     [](const Stored& a, const Stored& b) { return a.unit < b.unit; });
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
    executor_.for_each(lists.examples, [&](Index e, int) {
      const double weight = rule.weight ? double(rule.weight[e]) : 1.0;
      const double root = std::sqrt(weight);
      const std::vector<float> source = floats_of(h.row(e), h.cols);
      sum_of_example(lists, e, v, block_width, rv, [&](Index k, const float* row, float last) {
        const double z = dot(row, last, source.data(), v.width());
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
      sum_of_example(lists, e, v, block_width, rv,
                     [&](Index k, const float*, float) { return r[k]; });
    });
  }

  // rv(e) = the sum of factor(entry, its row of V) times that row.
  template <typename Factor>
  static void sum_of_example(const TargetLists& lists, Index e, FactorView<const float> v,
                             Index block_width, MatrixView<FixedSum> rv, const Factor& factor) {
    std::vector<float> sum(rv.empty() ? 0 : std::size_t(v.width()), 0.0f);
    SumRow blocks(Index(sum.size()));
    FixedSum* to = rv.empty() ? nullptr : rv.row(e);
    std::fill_n(to, sum.size(), FixedSum());
    Index block = -1;
    for (Index i = lists.row_begin.data()[e]; i < lists.row_begin.data()[e + 1]; ++i) {
      const Index k = lists.entry.data()[i];
      const Index unit = lists.unit.data()[lists.place.data()[k]];
      const float* row = v.rows.row(unit);
      const double r = factor(k, row, v.last[unit]);
      if (rv.empty()) continue;
      if (unit / block_width != block && block >= 0) blocks.add(sum, to);
      block = unit / block_width;
      add_row(float(r), row, v.last[unit], v.width(), sum.data());
    }
    if (rv.empty()) return;
    blocks.add(sum, to);
    blocks.add_to(to);
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
    const std::vector<float> steps = rounded(executor_, k);
    executor_.for_ranges(lists.touched, kTogether, [&](Index first, Index end, int) {
      std::vector<float> sum(std::size_t(v.width()));
      for (Index place = first; place < end; ++place) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (Index i = lists.begin.data()[place]; i < lists.begin.data()[place + 1]; ++i) {
          const float* of_example = steps.data() + Index(lists.example.data()[i]) * k.cols;
          const float factor = float(r[i]);
          for (Index j = 0; j < v.width(); ++j) sum[std::size_t(j)] += factor * of_example[j];
        }
        const Index unit = lists.unit.data()[place];
        float* row = v.rows.row(unit);
        const auto by = float(scale);
        for (Index j = 0; j < v.width() - 1; ++j) row[j] -= by * sum[std::size_t(j)];
        v.last[unit] -= by * sum[std::size_t(v.width() - 1)];
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
    const std::vector<float> sources = rounded(executor_, h);
    executor_.for_ranges(v.units(), kTogether, [&](Index first, Index end, int) {
      for (Index e = 0; e < h.rows; ++e)
        for (Index i = first; i < end; ++i)
          z(e, i) = float(dot(v.rows.row(i), v.last[i], sources.data() + e * h.cols, v.width()));
    });
  }
};

}  // namespace

std::unique_ptr<FactoredKernels> make_cpu_factored(Executor& executor) {
  return std::make_unique<CpuFactored>(executor);
}

}  // namespace norn
