// SPDX-License-Identifier: Apache-2.0
// Norms, their limits, and that dense updates do not depend on lanes.

#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"
#include "tests/kernels/rule_state.h"

namespace norn {
namespace {

using samples::PaddedMatrix;
using samples::RuleState;

class UpdateTest : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random_matrix(Index rows, Index cols) {
    PaddedMatrix<float> m(rows, cols);
    samples::fill_normal(m.view(), random_);
    return m;
  }
};

std::vector<std::pair<Index, Index>> shapes() {
  return {{0, 4},    {4, 0},    {1, 1},   {1, 33},     {31, 32},  {33, 31},
          {127, 15}, {128, 16}, {129, 1}, {1000, 129}, {2, 20000}};
}

TEST_F(UpdateTest, NormsAreThoseOfFloat64) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  for (const auto& [rows, cols] : shapes()) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
    auto w = random_matrix(rows, cols);
    long double squares = 0, magnitudes = 0;
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) {
        squares += (long double)w(r, c) * w(r, c);
        magnitudes += std::abs(w(r, c));
      }
    double actual_squares = -1, actual_magnitudes = -1;
    kernels->norms(w.view(), &actual_squares, &actual_magnitudes);
    EXPECT_NEAR(actual_squares, double(squares), 1e-12 * double(squares));
    EXPECT_NEAR(actual_magnitudes, double(magnitudes), 1e-12 * double(magnitudes));
  }
}

TEST_F(UpdateTest, LongRowsAndColumnsAreScaledDownToTheLimit) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  for (const auto& [rows, cols] : shapes()) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
    for (const bool by_row : {true, false}) {
      auto w = random_matrix(rows, cols);
      PaddedMatrix<float> before = w;
      const double limit = std::sqrt(double(by_row ? cols : rows));
      if (by_row)
        kernels->clip_row_norms(float(limit), w.view());
      else
        kernels->clip_column_norms(float(limit), w.view());
      for (Index i = 0; i < (by_row ? rows : cols); ++i) {
        double squares = 0;
        const Index length = by_row ? cols : rows;
        for (Index j = 0; j < length; ++j) {
          const double x = by_row ? before(i, j) : before(j, i);
          squares += x * x;
        }
        const double factor = std::min(1.0, limit / std::sqrt(squares));
        for (Index j = 0; j < length; ++j) {
          const double old = by_row ? before(i, j) : before(j, i);
          const double now = by_row ? w(i, j) : w(j, i);
          ASSERT_NEAR(now, old * factor, 3e-7 * std::abs(old)) << i << ", " << j;
          ASSERT_TRUE(now == old || std::sqrt(squares) >= limit * (1 - 1e-6));
        }
      }
      EXPECT_TRUE(w.padding_is_intact());
    }
  }
}

// Two matrices with the same number of rows, of which one is transposed.
TEST_F(UpdateTest, NormsOverSeveralMatricesAreScaledDownToTheLimit) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  for (const auto& [units, sources] : shapes()) {
    SCOPED_TRACE(std::to_string(units) + " units, " + std::to_string(sources) + " sources");
    auto rows = random_matrix(units, sources);
    auto columns = random_matrix(sources, units);
    PaddedMatrix<float> rows_before = rows, columns_before = columns;
    std::vector<double> squares(std::size_t(units), 0.25);
    const VectorView<double> sums{squares.data(), units};
    const double limit = std::sqrt(2.0 * double(sources));
    kernels->add_row_squares(rows.view(), sums);
    kernels->add_column_squares(columns.view(), sums);
    kernels->scale_rows(float(limit), sums, rows.view());
    kernels->scale_columns(float(limit), sums, columns.view());
    for (Index u = 0; u < units; ++u) {
      double all = 0.25;
      for (Index s = 0; s < sources; ++s)
        all += double(rows_before(u, s)) * rows_before(u, s) +
               double(columns_before(s, u)) * columns_before(s, u);
      ASSERT_NEAR(squares[std::size_t(u)], all, 1e-12 * all);
      const double factor = std::min(1.0, double(float(limit)) / std::sqrt(all));
      for (Index s = 0; s < sources; ++s) {
        ASSERT_NEAR(rows(u, s), factor * rows_before(u, s), 3e-7 * std::abs(rows_before(u, s)));
        ASSERT_NEAR(columns(s, u), factor * columns_before(s, u),
                    3e-7 * std::abs(columns_before(s, u)));
      }
    }
    EXPECT_TRUE(rows.padding_is_intact());
    EXPECT_TRUE(columns.padding_is_intact());
  }
}

// One matrix in two halves is what clips do at once.
TEST_F(UpdateTest, NormsInTwoHalvesHaveTheBitsOfThoseAtOnce) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  for (const auto& [rows, cols] : shapes()) {
    auto at_once = random_matrix(rows, cols);
    PaddedMatrix<float> in_halves = at_once;
    std::vector<double> of_rows(std::size_t(rows), 0.0), of_columns(std::size_t(cols), 0.0);
    const auto limit = float(0.5 * std::sqrt(double(std::min(rows, cols))));
    kernels->clip_row_norms(limit, at_once.view());
    kernels->clip_column_norms(0.9f * limit, at_once.view());
    kernels->add_row_squares(in_halves.view(), {of_rows.data(), rows});
    kernels->scale_rows(limit, {of_rows.data(), rows}, in_halves.view());
    kernels->add_column_squares(in_halves.view(), {of_columns.data(), cols});
    kernels->scale_columns(0.9f * limit, {of_columns.data(), cols}, in_halves.view());
    EXPECT_TRUE(at_once.same_bits(in_halves)) << rows << " x " << cols;
  }
}

TEST_F(UpdateTest, ColumnNormsDoNotDependOnHowColumnsAreCut) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  auto whole = random_matrix(2300, 70);
  PaddedMatrix<float> parts = whole;
  kernels->clip_column_norms(40.0f, whole.view());
  kernels->clip_column_norms(40.0f, parts.view().columns(0, 7));
  kernels->clip_column_norms(40.0f, parts.view().columns(7, 63));
  EXPECT_TRUE(whole.same_bits(parts));
}

TEST_F(UpdateTest, BitsDoNotDependOnLanes) {
  auto first = random_matrix(700, 90), g = random_matrix(700, 90);
  for (const std::string& name : names_of<UpdateRule>()) {
    SCOPED_TRACE(name);
    samples::expect_same_bits_however_run([&](Executor& executor) {
      const auto kernels = samples::make_update(executor);
      const UpdateRule rule = *find_named<UpdateRule>(name);
      PaddedMatrix<float> w = first;
      RuleState state(g);
      kernels->update(rule, UpdateSchedule{}.at(rule, 2), w.view(), g.view(), state.views());
      kernels->clip_row_norms(9.0f, w.view());
      kernels->clip_column_norms(25.0f, w.view());
      double norms[2];
      kernels->norms(w.view(), norms, norms + 1);
      std::vector<std::uint32_t> bits = samples::bits_of(w.view());
      for (auto& slot : state.slot) samples::append(bits, samples::bits_of(slot.view()));
      std::uint32_t words[4];
      std::memcpy(words, norms, sizeof words);
      bits.insert(bits.end(), words, words + 4);
      return bits;
    });
  }
}

TEST_F(UpdateTest, EveryRuleStepsEveryWeight) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  const UpdateStep step{0.01f, 1e-3f, 1e-4f, 2.0f, 3.0f};
  for (const std::string& name : names_of<UpdateRule>())
    for (const Index padding : {0, 4, 5})
      for (const auto& [shape_rows, shape_cols] : shapes()) {
        const Index rows = shape_rows, cols = shape_cols;  // which lambdas can capture
        SCOPED_TRACE(name + " " + std::to_string(rows) + " x " + std::to_string(cols) + " + " +
                     std::to_string(padding));
        const UpdateRule rule = *find_named<UpdateRule>(name);
        PaddedMatrix<float> w(rows, cols, padding), g(rows, cols, padding);
        samples::fill_normal(w.view(), random_);
        samples::fill_normal(g.view(), random_);
        PaddedMatrix<float> expected = w;
        RuleState state(g), expected_state(g);
        std::visit(
            [&](const auto& rule_value) {
              for (Index r = 0; r < rows; ++r)
                for (Index c = 0; c < cols; ++c) {
                  float slots[kMostSlots];
                  for (int s = 0; s < kMostSlots; ++s)
                    slots[s] = expected_state.slot[std::size_t(s)](r, c);
                  rule_value.step(expected(r, c), g(r, c), slots, step);
                  for (int s = 0; s < kMostSlots; ++s)
                    expected_state.slot[std::size_t(s)](r, c) = slots[s];
                }
            },
            rule);
        kernels->update(rule, step, w.view(), g.view(), state.views());
        EXPECT_TRUE(w.same_bits(expected) && state.same_bits(expected_state));
      }
}

TEST_F(UpdateTest, SeveralVectorsAreUpdatedAsEachAlone) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  const std::vector<Index> sizes{1, 0, 33, 1000, 20001};
  for (const std::string& name : names_of<UpdateRule>())
    for (const std::size_t copies : {0, 1, 9}) {
      SCOPED_TRACE(name + " " + std::to_string(copies));
      const UpdateRule rule = *find_named<UpdateRule>(name);
      const UpdateStep step = UpdateSchedule{}.at(rule, 3);
      std::vector<PaddedMatrix<float>> w, g;
      std::vector<RuleState> state;
      for (std::size_t i = 0; i < copies * sizes.size(); ++i) {
        const Index size = sizes[i % sizes.size()];
        w.push_back(random_matrix(1, size));
        g.push_back(random_matrix(1, size));
        state.emplace_back(random_matrix(1, size));
      }
      auto expected_w = w;
      auto expected_state = state;
      std::vector<VectorUpdate> updates;
      const auto row = [](PaddedMatrix<float>& m) {
        return VectorView<float>{m.view().data, m.cols()};
      };
      for (std::size_t i = 0; i < w.size(); ++i) {
        VectorUpdate& update = updates.emplace_back();
        update.w = row(w[i]);
        update.g = row(g[i]);
        for (std::size_t s = 0; s < update.slot.size(); ++s) update.slot[s] = row(state[i].slot[s]);
      }
      kernels->update_vectors(rule, step, updates);
      for (std::size_t i = 0; i < w.size(); ++i) {
        kernels->update(rule, step, expected_w[i].view(), g[i].view(), expected_state[i].views());
        EXPECT_TRUE(w[i].same_bits(expected_w[i])) << i;
        EXPECT_TRUE(state[i].same_bits(expected_state[i])) << i;
      }
    }
}

TEST_F(UpdateTest, PartsOfAMatrixAreUpdatedInPlace) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  auto whole = random_matrix(40, 70), g = random_matrix(40, 70);
  PaddedMatrix<float> parts = whole;
  RuleState state(g), part_state(g);
  const UpdateStep step = UpdateSchedule{}.at(Adam{}, 3);
  kernels->update(Adam{}, step, whole.view(), g.view(), state.views());
  for (const auto& [first, count] : std::vector<std::pair<Index, Index>>{{0, 3}, {3, 33}, {36, 34}})
    kernels->update(Adam{}, step, parts.view().columns(first, count),
                    g.view().columns(first, count), part_state.columns(first, count));
  EXPECT_TRUE(parts.same_bits(whole) && part_state.same_bits(state));
}

TEST_F(UpdateTest, NormsDoNotDependOnThePadding) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  auto padded = random_matrix(333, 129);
  PaddedMatrix<float> plain(333, 129, 0);
  for (Index r = 0; r < 333; ++r)
    for (Index c = 0; c < 129; ++c) plain(r, c) = padded(r, c);
  double a[2], b[2];
  kernels->norms(padded.view(), a, a + 1);
  kernels->norms(plain.view(), b, b + 1);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[1], b[1]);
}

TEST_F(UpdateTest, VectorsThatDoNotFitAreRefused) {
  Executor executor(1);
  const auto kernels = samples::make_update(executor);
  std::vector<float> w(3), g(4);
  const VectorUpdate bad{samples::view_of(w), samples::view_of(std::as_const(g)), {}};
  EXPECT_THROW(kernels->update_vectors(Sgd{}, UpdateStep{}, {&bad, 1}), ShapeError);
}

TEST_F(UpdateTest, ShapesThatDoNotFitAreRefused) {
  Executor executor(1);
  const auto kernels = samples::make_update(executor);
  auto w = random_matrix(3, 4), g = random_matrix(4, 3);
  EXPECT_THROW(kernels->update(Sgd{}, UpdateStep{}, w.view(), g.view(), {}), ShapeError);
  EXPECT_THROW(kernels->update(Adam{}, UpdateStep{}, w.view(), w.view(), {w.view(), {}}),
               ShapeError);
  EXPECT_THROW(kernels->norms(w.view(), nullptr, nullptr), ShapeError);
}

}  // namespace
}  // namespace norn
