// SPDX-License-Identifier: Apache-2.0
// The best K units against a full sort, on scores with many ties.
#include "kernels/select.h"

#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

namespace norn {
namespace {

using samples::PaddedMatrix;

enum class Scores { continuous, few_values, constant, ascending, descending };

class Select : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random_scores(Scores kind, Index rows, Index width) {
    PaddedMatrix<float> score(rows, width);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < width; ++c) {
        switch (kind) {
          case Scores::continuous:
            score(r, c) = uniform(-1, 1);
            break;
          case Scores::few_values:
            score(r, c) = float(below(4)) - 1.0f;
            break;
          case Scores::constant:
            score(r, c) = 0.0f;
            break;
          case Scores::ascending:
            score(r, c) = float(c);
            break;
          case Scores::descending:
            score(r, c) = -float(c);
            break;
        }
      }
    return score;
  }
  samples::SparseRows random_exclusions(Index rows, Index width) {
    samples::SparseRows excluded;
    excluded.cols = width;
    for (Index r = 0; r < rows; ++r) {
      std::set<Column> columns;
      if (r == 1)
        for (Index c = 0; c < width; ++c) columns.insert(Column(c));
      if (r > 1)
        for (Index c = 0; c < width; ++c)
          if (uniform(0, 1) < 0.2f) columns.insert(Column(c));
      excluded.append_row(columns);
    }
    return excluded;
  }
  std::vector<Index> random_cuts(Index width) {
    std::vector<Index> cuts{0};
    while (cuts.back() < width) cuts.push_back(std::min(width, cuts.back() + 1 + below(width)));
    return cuts;
  }
  void merge_blocks(SelectKernels& kernels, PaddedMatrix<float>& score,
                    const std::vector<Index>& cuts, bool is_backward, const Candidates& candidates,
                    TopK& best) {
    const Index blocks = Index(cuts.size()) - 1;
    for (Index i = 0; i < blocks; ++i) {
      const std::size_t b = std::size_t(is_backward ? blocks - 1 - i : i);
      kernels.merge(score.view().columns(cuts[b], cuts[b + 1] - cuts[b]), cuts[b], candidates,
                    best);
    }
  }

  /// The row's candidates in the right order, by a full sort.
  static std::vector<Index> sorted_units(PaddedMatrix<float>& score, Index r,
                                         const samples::SparseRows* excluded,
                                         const std::vector<std::uint8_t>& allowed) {
    std::vector<Index> units;
    for (Index c = 0; c < score.cols(); ++c) {
      if (std::isnan(score(r, c))) continue;
      if (!allowed.empty() && allowed[std::size_t(c)] == 0) continue;
      if (excluded != nullptr) {
        const auto begin = excluded->column.begin() + excluded->row_begin[std::size_t(r)];
        const auto end = excluded->column.begin() + excluded->row_begin[std::size_t(r) + 1];
        if (std::binary_search(begin, end, Column(c))) continue;
      }
      units.push_back(c);
    }
    std::stable_sort(units.begin(), units.end(),
                     [&](Index a, Index b) { return score(r, a) > score(r, b); });
    return units;
  }

  static void expect_best(PaddedMatrix<float>& score, const samples::SparseRows* excluded,
                          const std::vector<std::uint8_t>& allowed, const TopK& best) {
    for (Index r = 0; r < score.rows(); ++r) {
      const std::vector<Index> units = sorted_units(score, r, excluded, allowed);
      ASSERT_EQ(best.count.data()[r], std::min(best.k, Index(units.size()))) << "row " << r;
      for (Index i = 0; i < best.count.data()[r]; ++i) {
        ASSERT_EQ(best.unit.view()(r, i), units[std::size_t(i)]) << "row " << r << " rank " << i;
        ASSERT_EQ(best.score.view()(r, i), score(r, units[std::size_t(i)]));
      }
    }
  }

  Executor executor_{1};
  std::unique_ptr<SelectKernels> kernels_ = samples::make_select(executor_);
};

TEST_F(Select, AgreesWithAFullSortForEveryKAndCut) {
  for (Scores kind : {Scores::continuous, Scores::few_values, Scores::constant, Scores::ascending,
                      Scores::descending})
    for (Index width : samples::edge_widths())
      for (Index k : {Index(1), Index(2), Index(25), Index(26), Index(100), width, width + 3})
        for (bool is_backward : {false, true}) {
          SCOPED_TRACE("width " + std::to_string(width) + ", K " + std::to_string(k));
          PaddedMatrix<float> score = random_scores(kind, 3, width);
          TopK best;
          kernels_->begin(3, k, best);
          merge_blocks(*kernels_, score, random_cuts(width), is_backward, {}, best);
          expect_best(score, nullptr, {}, best);
          EXPECT_TRUE(score.padding_is_intact());
          if (::testing::Test::HasFatalFailure()) return;
        }
}

TEST_F(Select, ExcludedAndForbiddenUnitsAreNeverChosen) {
  for (Index width : samples::edge_widths())
    for (bool has_allowed : {false, true}) {
      SCOPED_TRACE(width);
      PaddedMatrix<float> score = random_scores(Scores::few_values, 4, width);
      const samples::SparseRows excluded = random_exclusions(4, width);
      std::vector<std::uint8_t> allowed;
      if (has_allowed)
        for (Index c = 0; c < width; ++c) allowed.push_back(uniform(0, 1) < 0.5f ? 1 : 0);
      TopK best;
      kernels_->begin(4, 20, best);
      const Candidates candidates{excluded.view(), samples::view_of(std::as_const(allowed))};
      merge_blocks(*kernels_, score, random_cuts(width), false, candidates, best);
      expect_best(score, &excluded, allowed, best);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST_F(Select, NanIsNeverChosenAndInfinitiesHaveTheirPlace) {
  PaddedMatrix<float> score = random_scores(Scores::continuous, 3, 200);
  for (Index r = 0; r < 3; ++r)
    for (Index c = 0; c < 200; c += 2) score(r, c) = std::numeric_limits<float>::quiet_NaN();
  score(0, 1) = -std::numeric_limits<float>::infinity();
  score(1, 1) = std::numeric_limits<float>::infinity();
  TopK best;
  kernels_->begin(3, 150, best);
  merge_blocks(*kernels_, score, random_cuts(200), false, {}, best);
  expect_best(score, nullptr, {}, best);
  EXPECT_EQ(best.count.data()[0], 100);
}

TEST_F(Select, MergedListsEqualTheListOfAllUnits) {
  for (Index k : {1, 7, 100}) {
    PaddedMatrix<float> score = random_scores(Scores::few_values, 5, 301);
    TopK left;
    TopK right;
    kernels_->begin(5, k, left);
    kernels_->begin(5, k, right);
    kernels_->merge(score.view().columns(0, 150), 0, {}, left);
    kernels_->merge(score.view().columns(150, 151), 150, {}, right);
    TopK empty;
    kernels_->begin(5, k, empty);
    kernels_->merge(left, right);
    kernels_->merge(empty, right);
    expect_best(score, nullptr, {}, right);
  }
}

TEST_F(Select, ListsOfDifferentLengthsAreMerged) {
  for (Index k : {Index(3), Index(1500)})
    for (Index other_k : {Index(2), Index(40), Index(2500)}) {
      SCOPED_TRACE("K " + std::to_string(k) + " and " + std::to_string(other_k));
      PaddedMatrix<float> score = random_scores(Scores::few_values, 3, 4500);
      TopK best;
      TopK other;
      kernels_->begin(3, k, best);
      kernels_->begin(3, other_k, other);
      kernels_->merge(score.view().columns(0, 1999), 0, {}, best);
      kernels_->merge(score.view().columns(1999, other_k), 1999, {}, other);
      kernels_->merge(other, best);
      PaddedMatrix<float> both(3, 1999 + other_k);
      for (Index r = 0; r < 3; ++r)
        for (Index c = 0; c < both.cols(); ++c) both(r, c) = score(r, c);
      expect_best(both, nullptr, {}, best);
    }
}

TEST_F(Select, LongListsAndWideBlocksAgreeWithAFullSort) {
  for (Scores kind : {Scores::continuous, Scores::few_values, Scores::ascending})
    for (Index k : {Index(100), Index(1024), Index(1025), Index(3000), Index(20000)}) {
      SCOPED_TRACE("K " + std::to_string(k));
      PaddedMatrix<float> score = random_scores(kind, 4, 17001);
      const samples::SparseRows excluded = random_exclusions(4, 17001);
      TopK best;
      kernels_->begin(4, k, best);
      merge_blocks(*kernels_, score, {0, 9000, 9001, 17001}, false, {excluded.view(), {}}, best);
      expect_best(score, &excluded, {}, best);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST_F(Select, FactorsMultiplyTheScoresOfTheirUnits) {
  for (Index width : samples::edge_widths()) {
    SCOPED_TRACE(width);
    const Index first = below(50);
    PaddedMatrix<float> score = random_scores(Scores::continuous, 4, width);
    samples::SparseRows factors = random_exclusions(4, first + width + below(20));
    for (std::size_t i = 0; i < factors.column.size(); ++i)
      factors.value.push_back(uniform(0.5f, 2.0f));
    PaddedMatrix<float> expected = score;
    for (Index r = 0; r < 4; ++r)
      for (RowOffset i = factors.row_begin[std::size_t(r)];
           i < factors.row_begin[std::size_t(r) + 1]; ++i) {
        const Index c = Index(factors.column[std::size_t(i)]) - first;
        if (c >= 0 && c < width) expected(r, c) *= factors.value[std::size_t(i)];
      }
    kernels_->multiply(factors.view(), first, score.view());
    EXPECT_TRUE(score.same_bits(expected));
  }
}

TEST_F(Select, BeginEmptiesAListThatWasUsed) {
  PaddedMatrix<float> score = random_scores(Scores::continuous, 2, 50);
  TopK best;
  kernels_->begin(2, 5, best);
  kernels_->merge(score.view(), 0, {}, best);
  kernels_->begin(2, 5, best);
  EXPECT_EQ(best.count.data()[0], 0);
  kernels_->merge(score.view(), 0, {}, best);
  expect_best(score, nullptr, {}, best);
}

TEST_F(Select, LanesDoNotChangeTheLists) {
  PaddedMatrix<float> score = random_scores(Scores::few_values, 90, 2000);
  for (int lanes : {1, 2, 7}) {
    Executor executor(lanes);
    const std::unique_ptr<SelectKernels> kernels = samples::make_select(executor);
    TopK best;
    kernels->begin(90, 100, best);
    merge_blocks(*kernels, score, random_cuts(2000), false, {}, best);
    expect_best(score, nullptr, {}, best);
  }
}

TEST_F(Select, ShapesThatDoNotFitAreRefused) {
  TopK best;
  EXPECT_THROW(kernels_->begin(3, 0, best), ShapeError);
  PaddedMatrix<float> score(3, 10);
  EXPECT_THROW(kernels_->merge(score.view(), 0, {}, best), ShapeError);
  kernels_->begin(4, 2, best);
  EXPECT_THROW(kernels_->merge(score.view(), 0, {}, best), ShapeError);
}

}  // namespace
}  // namespace norn
