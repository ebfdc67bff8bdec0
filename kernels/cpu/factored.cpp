// SPDX-License-Identifier: Apache-2.0
// Lists of stored targets and passes over all of V, for factored output layers.
#include "kernels/cpu/factored_matrices.h"
#include "kernels/cpu/factored_rows.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/small_products.h"
#include "kernels/cpu/sparse_parts.h"

#include <algorithm>
#include <memory>
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

class CpuFactored final : public CpuFactoredMatrices {
 public:
  using CpuFactoredMatrices::CpuFactoredMatrices;

 private:
  void do_list(CsrView targets, Range units, TargetLists& lists) override {
    TransposedBatch by_unit;
    transpose_batch(executor_, targets, by_unit);
    const Column* columns = by_unit.unit.data();
    const auto number_of = [&](Index unit) {
      return Index(std::lower_bound(columns, columns + by_unit.touched, unit) - columns);
    };
    const Index first = number_of(units.begin), count = number_of(units.end) - first;
    const RowOffset* from = by_unit.begin.data() + first;
    lists.examples = targets.rows;
    lists.entries = from[count] - from[0];
    lists.touched = count;
    Index* unit = places(lists.unit, count);
    Index* begin = places(lists.begin, count + 1);
    std::int32_t* example = places(lists.example, lists.entries);
    float* target = places(lists.target, lists.entries);
    begin[count] = lists.entries;
    constexpr Index kUnits = 16 * kTogether;
    executor_.for_each(1 + (count + kUnits - 1) / kUnits, [&](Index task, int) {
      if (task == 0) return list_by_example(by_unit.example.data() + from[0], from, lists);
      const Index one = (task - 1) * kUnits, end = std::min(count, one + kUnits);
      for (Index i = one; i < end; ++i) {
        unit[i] = Index(columns[first + i]) - units.begin;
        begin[i] = from[i] - from[0];
      }
      const RowOffset entry = from[one], entries = from[end] - entry;
      std::copy_n(by_unit.example.data() + entry, entries, example + begin[one]);
      if (by_unit.has_values)
        std::copy_n(by_unit.value.data() + entry, entries, target + begin[one]);
      else
        std::fill_n(target + begin[one], entries, 1.0f);
    });
  }

  // From the examples of all entries, and where those of each unit begin.
  static void list_by_example(const std::int32_t* example, const RowOffset* from,
                              TargetLists& lists) {
    Index* row_begin = places(lists.row_begin, lists.examples + 1);
    Index* entry = places(lists.entry, lists.entries);
    Index* place = places(lists.place, lists.entries);
    std::fill(row_begin, row_begin + lists.examples + 1, Index(0));
    for (Index i = 0; i < lists.entries; ++i) ++row_begin[example[i] + 1];
    for (Index e = 0; e < lists.examples; ++e) row_begin[e + 1] += row_begin[e];
    std::vector<Index> next(row_begin, row_begin + lists.examples);
    for (Index unit = 0; unit < lists.touched; ++unit)
      for (Index i = from[unit] - from[0]; i < from[unit + 1] - from[0]; ++i) {
        const Index at = next[std::size_t(example[i])]++;
        entry[at] = i;
        place[at] = unit;
      }
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

  bool do_sum_pairs(const TargetLists& lists, VectorView<const double> r, Index block_width,
                    MatrixView<FixedSum> rr) override {
    sum_pairs_by_example(executor_, lists, r, block_width, rr);
    return true;
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
