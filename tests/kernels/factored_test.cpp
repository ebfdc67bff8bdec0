// SPDX-License-Identifier: Apache-2.0
// Kernels of factored output layers against float64 loops over their definition, of shapes drawn at
// random, and their bits on lanes and ranks.

#include "kernels/factored.h"

#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace norn {
namespace {

using samples::PaddedMatrix;

// What float64 loses in sums of a few thousand terms, and float32 in those of one example, unit or
// block, of the sum of their magnitudes.
constexpr double kDouble = 1e-13;
constexpr double kCosts = 1e-12;
constexpr double kSum = 2e-6;
// One rounding to float32.
constexpr double kFloat = 1.2e-7;

// A batch of stored targets: examples without one, examples twice, a unit in every row.
struct Targets {
  std::vector<RowOffset> begin = {0};
  std::vector<Column> column;
  std::vector<float> value;
  Index units = 0;
  bool valued = false;
  CsrView view() const {
    return {begin.data(),
            column.data(),
            valued ? value.data() : nullptr,
            Index(begin.size()) - 1,
            units,
            RowOffset(column.size())};
  }
  float target(std::size_t i) const { return valued ? value[i] : 1.0f; }
};

class Factored : public samples::RandomTest {
 protected:
  Targets draw_targets(Index examples, Index units) {
    Targets targets;
    targets.units = units;
    targets.valued = below(2) == 1;
    const Index popular = below(units);
    for (Index e = 0; e < examples; ++e) {
      const auto first = std::size_t(targets.begin.back());
      if (e > 0 && below(8) == 0) {  // the example before once more
        const auto before = std::size_t(targets.begin[std::size_t(e) - 1]);
        for (std::size_t i = before; i < first; ++i) {
          targets.column.push_back(targets.column[i]);
          targets.value.push_back(targets.value[i]);
        }
      } else if (below(6) > 0) {
        std::set<Column> row = {Column(popular)};
        for (Index i = below(20); i > 0; --i) row.insert(Column(below(units)));
        std::vector<Column> order(row.begin(), row.end());
        std::shuffle(order.begin(), order.end(), random_);
        for (Column unit : order) {
          targets.column.push_back(unit);
          targets.value.push_back(uniform(-3.0f, 3.0f));
        }
      }
      targets.begin.push_back(RowOffset(targets.column.size()));
    }
    return targets;
  }
  PaddedMatrix<double> doubles(Index rows, Index cols) {
    PaddedMatrix<double> m(rows, cols);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = double(uniform(-1.0f, 1.0f)) * (1.0 + 1e-9);
    return m;
  }

  Executor executor_{2};
  std::unique_ptr<FactoredKernels> kernels_ = samples::make_factored(executor_);
};

// V with poison between its rows.
struct Rows {
  PaddedMatrix<float> rows;
  std::vector<float> last;
  Rows(Index units, Index width) : rows(units, width - 1), last(std::size_t(units)) {}
  FactorView<float> view() { return {rows.view(), {last.data(), Index(last.size())}}; }
  double operator()(Index i, Index j) {
    return double(j < rows.cols() ? rows(i, j) : last[std::size_t(i)]);
  }
};

// One layer with a batch.
struct Sample {
  Index units, width, examples, block_width;
  Targets targets;
  Rows v;
  PaddedMatrix<double> h, k, u;
  std::vector<float> weight;
  EntryRule rule;
};

class FactoredSamples : public Factored {
 protected:
  Sample draw() {
    const Index units = 1 + below(700), width = 2 + below(70), examples = 1 + below(90);
    Sample s{units,
             width,
             examples,
             1 + below(units),
             draw_targets(examples, units),
             Rows(units, width),
             doubles(examples, width),
             doubles(examples, width),
             doubles(width, width),
             {},
             {}};
    for (Index i = 0; i < units; ++i) {
      for (Index j = 0; j + 1 < width; ++j) s.v.rows(i, j) = uniform(-1.0f, 1.0f);
      s.v.last[std::size_t(i)] = uniform(-1.0f, 1.0f);
    }
    s.rule = {std::pow(10.0, double(uniform(-2.0f, 2.0f))),
              std::pow(10.0, double(uniform(-2.0f, 2.0f))), double(below(2)), nullptr};
    if (below(2) == 0) return s;
    for (Index e = 0; e < examples; ++e)
      s.weight.push_back(below(9) == 0 ? 0.0f : uniform(0.01f, 3.0f));
    s.rule.weight = s.weight.data();
    return s;
  }
  static double weight_of(const Sample& s, Index e) {
    return s.weight.empty() ? 1.0 : double(s.weight[std::size_t(e)]);
  }

  // Entries of units, r and sums of one rank.
  struct Read {
    TargetLists lists;
    std::vector<double> r, cost;
    std::vector<FixedSum> rv;
    VectorView<const double> entries() const { return {r.data(), Index(r.size())}; }
    MatrixView<FixedSum> sums(const Sample& s) { return {rv.data(), s.examples, s.width, s.width}; }
  };
  static void read(FactoredKernels& kernels, Sample& s, Range units, Read& out) {
    kernels.list(s.targets.view(), units, out.lists);
    out.r.assign(std::size_t(out.lists.entries), 0.0);
    out.cost = out.r;
    out.rv.assign(std::size_t(s.examples * s.width), FixedSum());
    kernels.read_entries(out.lists, s.v.view().units_of(units), s.h.view(), s.rule, s.block_width,
                         {out.r.data(), out.lists.entries}, {out.cost.data(), out.lists.entries},
                         out.sums(s));
  }

  // Those of two ranks, on other lanes, have the bits of all.
  void expect_pairs_of_parts(const Sample& s, const Read& read, MatrixView<const FixedSum> whole) {
    Executor executor(below(2) == 0 ? 1 : 7);
    const auto kernels = samples::make_factored(executor);
    const Index blocks = (s.units + s.block_width - 1) / s.block_width;
    const Index cut = std::min(s.units, below(blocks + 1) * s.block_width);
    std::vector<FixedSum> sums(std::size_t(whole.size()));
    std::size_t first = 0;
    for (const Range units : {Range{0, cut}, Range{cut, s.units}}) {
      TargetLists lists;
      kernels->list(s.targets.view(), units, lists);
      std::vector<FixedSum> part(sums.size());
      const MatrixView<FixedSum> rr{part.data(), s.examples, s.examples, s.examples};
      ASSERT_TRUE(
          kernels->sum_pairs(lists, {read.r.data() + first, lists.entries}, s.block_width, rr));
      first += std::size_t(lists.entries);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add(part[i]);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double expected = whole.data[i].value(), found = sums[i].value();
      ASSERT_TRUE(found == expected || (std::isnan(found) && std::isnan(expected)));
    }
  }

  // The sums of r v are those of V as it is.
  static void expect_sums(Sample& s, const Read& read, const std::vector<double>& r) {
    for (Index e = 0; e < s.examples; ++e)
      for (Index j = 0; j < s.width; ++j) {
        double sum = 0.0, size = 1e-9;
        for (Index i = 0; i < s.units; ++i) {
          sum += r[std::size_t(e * s.units + i)] * s.v(i, j);
          size += std::abs(r[std::size_t(e * s.units + i)] * s.v(i, j));
        }
        ASSERT_NEAR(read.rv[std::size_t(e * s.width + j)].value(), sum, kSum * size);
      }
  }
};

// Those of blocks, the first one's with what all units cost.
class FactoredCosts : public FactoredSamples {
 protected:
  void expect_costs(const Sample& s, const Read& read) {
    std::vector<double> all(std::size_t(s.examples));
    for (double& cost : all) cost = double(uniform(0.0f, 9.0f));
    const bool counts = below(2) == 0;
    const Index blocks = (s.units + s.block_width - 1) / s.block_width;
    std::vector<double> expected(std::size_t(blocks), 0.0), found(expected);
    for (double cost : all) expected[0] += counts ? 0.5 * cost : 0.0;
    double size = 10.0 * double(s.examples);
    for (Index i = 0; i < read.lists.touched; ++i)
      for (Index k = read.lists.begin.data()[i]; k < read.lists.begin.data()[i + 1]; ++k) {
        expected[std::size_t(read.lists.unit.data()[i] / s.block_width)] +=
            read.cost[std::size_t(k)];
        size += std::abs(read.cost[std::size_t(k)]);
      }
    kernels_->add_up_costs(
        read.lists, {read.cost.data(), read.lists.entries}, s.block_width,
        counts ? VectorView<const double>{all.data(), s.examples} : VectorView<const double>(),
        {found.data(), blocks});
    for (std::size_t b = 0; b < expected.size(); ++b)
      ASSERT_NEAR(found[b], expected[b], kCosts * size);
  }
};

TEST_F(FactoredCosts, EntriesAndTheirSumsAreThoseOfTheFormulas) {
  for (int round = 0; round < 40; ++round) {
    Sample s = draw();
    Read read;
    FactoredSamples::read(*kernels_, s, {0, s.units}, read);
    ASSERT_EQ(read.lists.entries, Index(s.targets.column.size()));
    std::vector<double> dense(std::size_t(s.examples * s.units), 0.0);  // r
    double cost = 0.0, cost_size = 0.0;
    for (Index e = 0; e < s.examples; ++e)
      for (auto i = std::size_t(s.targets.begin[std::size_t(e)]);
           i < std::size_t(s.targets.begin[std::size_t(e) + 1]); ++i) {
        double z = 0.0, size = 0.0;
        const Index unit = Index(s.targets.column[i]);
        for (Index j = 0; j < s.width; ++j) {
          z += s.v(unit, j) * s.h(e, j);
          size += std::abs(s.v(unit, j) * s.h(e, j));
        }
        const double t = double(s.targets.target(i)), w = weight_of(s, e);
        dense[std::size_t(e * s.units + unit)] =
            std::sqrt(w) * ((s.rule.one - s.rule.zero) * z - s.rule.one * t);
        const double part = w * ((z - t) * (z - t) - (1.0 - s.rule.ignored) * z * z) / 2.0;
        cost += part;
        cost_size += w * (std::abs(z) + std::abs(t)) * size + 1e-6;
      }
    double found = 0.0;
    for (double part : read.cost) found += part;
    EXPECT_NEAR(found, cost, kSum * cost_size);
    for (Index i = 0; i < read.lists.touched; ++i)
      for (Index k = read.lists.begin.data()[i]; k < read.lists.begin.data()[i + 1]; ++k) {
        double& of_entry =
            dense[std::size_t(read.lists.example.data()[k] * s.units + read.lists.unit.data()[i])];
        EXPECT_NEAR(read.r[std::size_t(k)], of_entry,
                    kSum * double(s.width) * (s.rule.one + s.rule.zero));
        of_entry = read.r[std::size_t(k)];  // of which the sums are
      }
    expect_sums(s, read, dense);
    for (Index i = 0; i < s.units; ++i) {
      for (Index j = 0; j + 1 < s.width; ++j) s.v.rows(i, j) = uniform(-2.0f, 2.0f);
      s.v.last[std::size_t(i)] = uniform(-2.0f, 2.0f);
    }
    kernels_->sum_rows(read.lists, s.v.view(), read.entries(), s.block_width, read.sums(s));
    expect_sums(s, read, dense);
    expect_costs(s, read);
  }
}

// Of numbers that FixedSum takes one by one, and of one that is infinite, too.
TEST_F(FactoredSamples, PairsOfEntriesAreSummedOnAnyLanesAndRanks) {
  for (int round = 0; round < 40; ++round) {
    Sample s = draw();
    Read read;
    FactoredSamples::read(*kernels_, s, {0, s.units}, read);
    for (double& r : read.r)
      r = double(uniform(0.5f, 1.0f)) * (below(2) == 0 ? -1.0 : 1.0) *
          std::pow(10.0, double(below(9)) - 4.0);
    const bool is_finite = read.r.empty() || below(4) > 0;
    if (!is_finite) read.r[std::size_t(below(Index(read.r.size())))] = HUGE_VAL;
    std::vector<FixedSum> found(std::size_t(s.examples * s.examples));
    const MatrixView<FixedSum> rr{found.data(), s.examples, s.examples, s.examples};
    if (!kernels_->sum_pairs(read.lists, read.entries(), s.block_width, rr))
      return;  // reads rows instead
    std::vector<double> dense(std::size_t(s.examples * s.units), 0.0);
    for (Index i = 0; i < read.lists.touched; ++i)
      for (Index k = read.lists.begin.data()[i]; k < read.lists.begin.data()[i + 1]; ++k)
        dense[std::size_t(read.lists.example.data()[k] * s.units + read.lists.unit.data()[i])] =
            read.r[std::size_t(k)];
    const auto r = [&](Index e, Index i) { return dense[std::size_t(e * s.units + i)]; };
    for (Index e = 0; e < s.examples; ++e)
      for (Index f = 0; f < s.examples; ++f) {
        double sum = 0.0, size = 0.0;
        for (Index i = 0; i < s.units && f <= e; ++i) {
          if (r(e, i) == 0.0 || r(f, i) == 0.0) continue;
          sum += (f == e ? 0.5 : 1.0) * r(e, i) * r(f, i);
          size += std::abs(r(e, i) * r(f, i));
        }
        const double value = rr(e, f).value();
        if (std::isfinite(sum))
          ASSERT_NEAR(value, sum, kSum * size + kDouble);
        else
          ASSERT_TRUE(std::isnan(value));
      }
    expect_pairs_of_parts(s, read, rr);
  }
}

TEST_F(FactoredSamples, RowsOfTouchedUnitsAreUpdatedAndNoOthers) {
  for (int round = 0; round < 40; ++round) {
    Sample s = draw();
    Read read;
    FactoredSamples::read(*kernels_, s, {0, s.units}, read);
    Rows before = s.v;
    const double scale = 0.037;
    kernels_->update_rows(read.lists, {read.r.data(), read.lists.entries}, scale, s.k.view(),
                          s.v.view());
    std::vector<double> change(std::size_t(s.units * s.width), 0.0), size = change;
    for (Index i = 0; i < read.lists.touched; ++i)
      for (Index k = read.lists.begin.data()[i]; k < read.lists.begin.data()[i + 1]; ++k)
        for (Index j = 0; j < s.width; ++j) {
          const auto at = std::size_t(read.lists.unit.data()[i] * s.width + j);
          const double term = read.r[std::size_t(k)] * s.k(read.lists.example.data()[k], j);
          change[at] += term;
          size[at] += std::abs(term);
        }
    for (Index i = 0; i < s.units; ++i)
      for (Index j = 0; j < s.width; ++j) {
        const auto at = std::size_t(i * s.width + j);
        const double expected = before(i, j) - scale * change[at];
        EXPECT_NEAR(s.v(i, j), expected,
                    size[at] == 0.0
                        ? 0.0
                        : 2.0 * kFloat * std::abs(before(i, j)) + kSum * scale * size[at]);
      }
    EXPECT_TRUE(s.v.rows.padding_is_intact());
  }
}

TEST_F(FactoredSamples, FoldsMultipliesAndAddsUpRows) {
  for (int round = 0; round < 20; ++round) {
    Sample s = draw();
    const Index from = below(s.width), to = from + 1 + below(s.width - from);
    PaddedMatrix<float> w(s.units, to - from), z(s.examples, s.units);
    std::vector<FixedSum> gram(std::size_t(s.width * s.width));
    kernels_->product(s.v.view(), s.u.view(), {from, to}, w.view());
    kernels_->values(s.h.view(), s.v.view(), z.view());
    kernels_->add_gram(s.v.view(), {gram.data(), s.width, s.width, s.width});
    Rows before = s.v;
    double needed = 0.0;
    kernels_->fold(s.u.view(), s.block_width, &needed, s.v.view());
    EXPECT_TRUE(s.v.rows.same_bits(before.rows) && s.v.last == before.last);
    needed = 1.0;
    kernels_->fold(s.u.view(), s.block_width, &needed, s.v.view());
    for (Index i = 0; i < s.units; ++i)
      for (Index j = 0; j < s.width; ++j) {
        double sum = 0.0;
        for (Index k = 0; k < s.width; ++k) sum += before(i, k) * s.u(k, j);
        const double allowed = kFloat * std::abs(before(i, j)) + kSum * double(s.width);
        EXPECT_NEAR(s.v(i, j), sum, allowed);
        if (j < from || j >= to) continue;
        EXPECT_NEAR(double(w(i, j - from)), sum, allowed);
      }
    for (Index e = 0; e < s.examples; ++e)
      for (Index i = 0; i < s.units; ++i) {
        double sum = 0.0;
        for (Index j = 0; j < s.width; ++j) sum += s.h(e, j) * before(i, j);
        EXPECT_NEAR(double(z(e, i)), sum, kSum * double(s.width));
      }
    for (Index j = 0; j < s.width; ++j)
      for (Index k = 0; k < s.width; ++k) {
        double sum = 0.0;
        for (Index i = 0; i < s.units; ++i) sum += before(i, j) * before(i, k);
        EXPECT_NEAR(gram[std::size_t(j * s.width + k)].value(), sum, kDouble * double(s.units));
      }
    EXPECT_TRUE(s.v.rows.padding_is_intact());
    EXPECT_TRUE(w.padding_is_intact());
    EXPECT_TRUE(z.padding_is_intact());
  }
}

// Passes of 256 and 128 columns, rows with and without 16-byte copies, and tiles of 128 and 192
// rows, of which a GPU has more than multiprocessors.
TEST_F(Factored, FoldsWideAndManyRows) {
  struct Shape {
    Index units, width, padding;
  };
  const Index block = 50;
  std::vector<Shape> shapes = {{300, 257, 0},   {300, 257, 5},   {150, 301, 4},
                               {200, 833, 0},   {260, 514, 7},   {55000, 6, 3},
                               {52000, 129, 0}, {20000, 257, 4}, {27000, 270, 3}};
  // Columns beside the last one, on both sides of a pass's end. Tiles with and without all rows.
  for (const Index columns : {127, 128, 129, 130, 255, 256, 257, 258, 383, 384, 385, 386})
    shapes.push_back({150 + below(600), columns + 1, below(6)});
  for (const Index rows : {192, 256, 384, 768}) shapes.push_back({rows, 129 + below(300), 0});
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(std::to_string(shape.units) + " rows of " + std::to_string(shape.width));
    Rows before(shape.units, shape.width);
    before.rows = PaddedMatrix<float>(shape.units, shape.width - 1, shape.padding);
    for (Index i = 0; i < shape.units; ++i) {
      for (Index j = 0; j + 1 < shape.width; ++j) before.rows(i, j) = uniform(-1.0f, 1.0f);
      before.last[std::size_t(i)] = uniform(-1.0f, 1.0f);
    }
    PaddedMatrix<double> u = doubles(shape.width, shape.width);
    for (Index j = 0; j < shape.width; ++j)
      for (Index k = 0; k < shape.width; ++k) u(j, k) = 0.05 * u(j, k) + double(j == k);
    Rows whole = before, parts = before;
    const double needed = 1.0;
    const Index cut = below(shape.units / block) * block;
    kernels_->fold(u.view(), block, &needed, whole.view());
    kernels_->fold(u.view(), block, &needed, parts.view().units_of({0, cut}));
    kernels_->fold(u.view(), block, &needed, parts.view().units_of({cut, shape.units}));
    EXPECT_TRUE(whole.rows.same_bits(parts.rows) && whole.last == parts.last);
    EXPECT_TRUE(whole.rows.padding_is_intact());
    const Index apart = shape.units / 150;  // rows that are looked at
    for (Index i = shape.units - 1; i >= 0; i -= apart)
      for (Index j = 0; j < shape.width; ++j) {
        double sum = 0.0;
        for (Index k = 0; k < shape.width; ++k) sum += before(i, k) * u(k, j);
        ASSERT_NEAR(whole(i, j), sum, kFloat + 0.05 * kSum * double(shape.width)) << i << ", " << j;
      }
  }
}

TEST_F(FactoredSamples, NoBitDependsOnLanesOrRanks) {
  for (int round = 0; round < 10; ++round) {
    Sample s = draw();
    const Index blocks = (s.units + s.block_width - 1) / s.block_width;
    Read whole;
    FactoredSamples::read(*kernels_, s, {0, s.units}, whole);
    for (int lanes : {1, 2, 7}) {
      Executor executor(lanes);
      const auto kernels = samples::make_factored(executor);
      const Index cut = std::min(s.units, below(blocks + 1) * s.block_width);
      Read sum, rest, again;
      FactoredSamples::read(*kernels, s, {0, s.units}, again);
      FactoredSamples::read(*kernels, s, {0, cut}, sum);
      FactoredSamples::read(*kernels, s, {cut, s.units}, rest);
      for (std::size_t i = 0; i < sum.rv.size(); ++i) sum.rv[i].add(rest.rv[i]);
      for (std::size_t i = 0; i < sum.rv.size(); ++i)
        ASSERT_EQ(sum.rv[i].value(), whole.rv[i].value());
      sum.r.insert(sum.r.end(), rest.r.begin(), rest.r.end());
      sum.cost.insert(sum.cost.end(), rest.cost.begin(), rest.cost.end());
      EXPECT_EQ(sum.r, whole.r);
      EXPECT_EQ(sum.cost, whole.cost);
      Rows one = s.v, other = s.v;
      kernels_->update_rows(whole.lists, {whole.r.data(), whole.lists.entries}, 0.01, s.k.view(),
                            one.view());
      kernels->update_rows(again.lists, {again.r.data(), again.lists.entries}, 0.01, s.k.view(),
                           other.view());
      const double needed = 1.0;
      kernels_->fold(s.u.view(), s.block_width, &needed, one.view());
      kernels->fold(s.u.view(), s.block_width, &needed, other.view().units_of({0, cut}));
      kernels->fold(s.u.view(), s.block_width, &needed, other.view().units_of({cut, s.units}));
      EXPECT_TRUE(one.rows.same_bits(other.rows));
      EXPECT_EQ(one.last, other.last);
    }
  }
}

}  // namespace
}  // namespace norn
