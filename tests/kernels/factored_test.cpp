// SPDX-License-Identifier: Apache-2.0
// Kernels of factored output layers against float64 loops over their definition, of shapes drawn at
// random, and their bits on lanes and ranks.

#include "kernels/factored.h"

#include "kernels/cpu/families.h"
#include "tests/kernels/samples.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

using As = FactoredKernels::As;
using samples::PaddedMatrix;

// What float64 loses in sums of a few thousand terms, and float32 in those of one example, unit or
// block, of the sum of their magnitudes.
constexpr double kDouble = 1e-13;
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
    return {begin.data(), column.data(), valued ? value.data() : nullptr, Index(begin.size()) - 1,
            units};
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
  std::unique_ptr<FactoredKernels> kernels_ = make_cpu_factored(executor_);
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
    std::vector<FixedSum> rv, overlaps;
  };
  static void read(FactoredKernels& kernels, Sample& s, Range units, Read& out) {
    kernels.list(s.targets.view(), units, out.lists);
    out.r.assign(std::size_t(out.lists.entries), 0.0);
    out.cost = out.r;
    out.rv.resize(std::size_t(s.examples * s.width));
    out.overlaps.resize(std::size_t(s.examples * s.examples));
    kernels.read_entries(out.lists, s.v.view().units_of(units), s.h.view(), s.rule, s.block_width,
                         {out.r.data(), out.lists.entries}, {out.cost.data(), out.lists.entries},
                         {out.rv.data(), s.examples, s.width, s.width});
    kernels.add_overlaps(out.lists, {out.r.data(), out.lists.entries},
                         {out.overlaps.data(), s.examples, s.examples, s.examples});
  }
};

TEST_F(FactoredSamples, EntriesAndTheirSumsAreThoseOfTheFormulas) {
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
    for (Index e = 0; e < s.examples; ++e) {
      for (Index j = 0; j < s.width; ++j) {
        double sum = 0.0, size = 1e-9;
        for (Index i = 0; i < s.units; ++i) {
          sum += dense[std::size_t(e * s.units + i)] * s.v(i, j);
          size += std::abs(dense[std::size_t(e * s.units + i)]);
        }
        EXPECT_NEAR(read.rv[std::size_t(e * s.width + j)].value(), sum, kSum * size);
      }
      for (Index f = 0; f <= e; ++f) {
        double sum = 0.0, size = 1e-3;
        for (Index i = 0; i < s.units; ++i) {
          const double term =
              dense[std::size_t(e * s.units + i)] * dense[std::size_t(f * s.units + i)];
          sum += term;
          size += std::abs(term);
        }
        EXPECT_NEAR(read.overlaps[std::size_t(e * s.examples + f)].value(), sum, 1e-11 * size);
      }
    }
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
    kernels_->fold(s.u.view(), s.v.view());
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

TEST_F(Factored, MultipliesMatricesAsTheyAreAndTransposed) {
  for (int round = 0; round < 40; ++round) {
    const Index rows = 1 + below(300), cols = 1 + below(300), depth = below(300);
    const As a_as = below(2) == 0 ? As::it_is : As::transposed;
    const As b_as = below(2) == 0 ? As::it_is : As::transposed;
    PaddedMatrix<double> a = a_as == As::it_is ? doubles(rows, depth) : doubles(depth, rows);
    PaddedMatrix<double> b = b_as == As::it_is ? doubles(depth, cols) : doubles(cols, depth);
    PaddedMatrix<double> c = doubles(rows, cols);
    PaddedMatrix<double> before = c;
    const Existing existing = below(2) == 0 ? Existing::add : Existing::overwrite;
    kernels_->multiply(0.7, a.view(), a_as, b.view(), b_as, existing, c.view());
    for (Index r = 0; r < rows; ++r)
      for (Index q = 0; q < cols; ++q) {
        double sum = 0.0;
        for (Index k = 0; k < depth; ++k)
          sum += (a_as == As::it_is ? a(r, k) : a(k, r)) * (b_as == As::it_is ? b(k, q) : b(q, k));
        const double expected = 0.7 * sum + (existing == Existing::add ? before(r, q) : 0.0);
        ASSERT_NEAR(c(r, q), expected, kSum * double(depth) + kDouble);
      }
    EXPECT_TRUE(c.padding_is_intact());
  }
}

TEST_F(Factored, SolvesWithTheFactorOfASymmetricMatrix) {
  for (Index n : {Index(1), Index(63), Index(64), Index(65), 1 + below(300)}) {
    PaddedMatrix<double> root = doubles(n + 3, n), a(n, n), x = doubles(n, 1 + below(100));
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) {
        a(i, j) = i == j ? 1.0 : 0.0;
        for (Index k = 0; k < root.rows(); ++k) a(i, j) += root(k, i) * root(k, j);
      }
    PaddedMatrix<double> b(n, x.cols());
    for (Index i = 0; i < n; ++i)
      for (Index c = 0; c < x.cols(); ++c) {
        b(i, c) = 0.0;
        for (Index k = 0; k < n; ++k) b(i, c) += a(i, k) * x(k, c);
      }
    const double pivot = kernels_->factorize(a.view());
    EXPECT_GE(pivot, 1.0 - 1e-9);
    kernels_->solve(a.view(), b.view());
    for (Index r = 0; r < n; ++r)
      for (Index c = 0; c < x.cols(); ++c) ASSERT_NEAR(b(r, c), x(r, c), 1e-9);
    EXPECT_TRUE(b.padding_is_intact());
  }
  PaddedMatrix<double> none(70, 70);
  for (Index i = 0; i < 70; ++i)
    for (Index j = 0; j < 70; ++j) none(i, j) = i == j ? (i == 66 ? -1.0 : 1.0) : 0.0;
  EXPECT_LE(kernels_->factorize(none.view()), 0.0);
}

TEST_F(FactoredSamples, NoBitDependsOnLanesOrRanks) {
  for (int round = 0; round < 10; ++round) {
    Sample s = draw();
    const Index blocks = (s.units + s.block_width - 1) / s.block_width;
    Read whole;
    FactoredSamples::read(*kernels_, s, {0, s.units}, whole);
    for (int lanes : {1, 2, 7}) {
      Executor executor(lanes);
      const auto kernels = make_cpu_factored(executor);
      const Index cut = std::min(s.units, below(blocks + 1) * s.block_width);
      Read sum, rest;
      FactoredSamples::read(*kernels, s, {0, cut}, sum);
      FactoredSamples::read(*kernels, s, {cut, s.units}, rest);
      for (std::size_t i = 0; i < sum.rv.size(); ++i) sum.rv[i].add(rest.rv[i]);
      for (std::size_t i = 0; i < sum.overlaps.size(); ++i) sum.overlaps[i].add(rest.overlaps[i]);
      for (std::size_t i = 0; i < sum.rv.size(); ++i)
        ASSERT_EQ(sum.rv[i].value(), whole.rv[i].value());
      for (std::size_t i = 0; i < sum.overlaps.size(); ++i)
        ASSERT_EQ(sum.overlaps[i].value(), whole.overlaps[i].value());
      sum.r.insert(sum.r.end(), rest.r.begin(), rest.r.end());
      sum.cost.insert(sum.cost.end(), rest.cost.begin(), rest.cost.end());
      EXPECT_EQ(sum.r, whole.r);
      EXPECT_EQ(sum.cost, whole.cost);
      Rows one = s.v, other = s.v;
      kernels_->update_rows(whole.lists, {whole.r.data(), whole.lists.entries}, 0.01, s.k.view(),
                            one.view());
      kernels->update_rows(whole.lists, {whole.r.data(), whole.lists.entries}, 0.01, s.k.view(),
                           other.view());
      kernels_->fold(s.u.view(), one.view());
      kernels->fold(s.u.view(), other.view());
      EXPECT_TRUE(one.rows.same_bits(other.rows));
      EXPECT_EQ(one.last, other.last);
    }
  }
}

}  // namespace
}  // namespace norn
