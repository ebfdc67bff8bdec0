// SPDX-License-Identifier: Apache-2.0
// Lists of stored targets and passes over all of V, for factored output layers.
#include "kernels/cpu/factored_matrices.h"
#include "kernels/cpu/factored_rows.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/small_products.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <vector>

namespace norn {
namespace {

constexpr Index kTogether = 64;  // units or examples of a task

// A run of `count` elements in place of what `buffer` held.
template <typename T>
T* places(Buffer<T>& buffer, Index count) {
  if (buffer.size() < count) buffer = Buffer<T>(count + count / 2);
  return buffer.data();
}

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
    read_entries_by_rows(executor_, lists, v, h, rule, block_width, r, cost, rv);
  }

  void do_sum_rows(const TargetLists& lists, FactorView<const float> v, VectorView<const double> r,
                   Index block_width, MatrixView<FixedSum> rv) override {
    sum_rows_by_example(executor_, lists, v, r, block_width, rv);
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
    update_rows_by_unit(executor_, lists, r, scale, k, v);
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
    const RoundedMatrix sources(executor_, h);
    executor_.for_ranges(v.units(), kTogether, [&](Index first, Index end, int) {
      for (Index e = 0; e < h.rows; ++e)
        for (Index i = first; i < end; ++i)
          z(e, i) = float(dot(v.rows.row(i), v.last[i], sources.view().row(e), v.width()));
    });
  }
};

}  // namespace

std::unique_ptr<FactoredKernels> make_cpu_factored(Executor& executor) {
  return std::make_unique<CpuFactored>(executor);
}

}  // namespace norn
