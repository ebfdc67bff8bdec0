// SPDX-License-Identifier: Apache-2.0
// Row-wise updates must have the bits of dense updates of all rows at every step.

#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"

#include <cmath>

#include <fmt/format.h>

namespace norn {
namespace {

using samples::PaddedMatrix;
using samples::SparseRows;

/// Weights with state and steps, in memory of their own.
struct Weights {
  Weights(const PaddedMatrix<float>& start, Index rows, Index cols, Index padding = 3)
      : w(start),
        slot(std::size_t(kMostSlots), zeros(rows, cols, padding)),
        done(std::size_t(rows), 0) {}
  static PaddedMatrix<float> zeros(Index rows, Index cols, Index padding = 3) {
    PaddedMatrix<float> m(rows, cols, padding);
    for (Index r = 0; r < rows; ++r) std::fill_n(m.view().row(r), cols, 0.0f);
    return m;
  }
  SlotViews slots() {
    SlotViews views;
    for (std::size_t s = 0; s < views.size(); ++s) views[s] = slot[s].view();
    return views;
  }
  RowState rows() { return {w.view(), slots(), samples::view_of(done)}; }
  bool same_bits(const Weights& other) const {
    bool same = w.same_bits(other.w);
    for (std::size_t s = 0; s < slot.size(); ++s) same = same && slot[s].same_bits(other.slot[s]);
    return same;
  }
  PaddedMatrix<float> w;
  std::vector<PaddedMatrix<float>> slot;
  std::vector<std::int64_t> done;
};

UpdateSchedule schedule_of(bool regularised, float decay) {
  UpdateSchedule schedule;
  schedule.rate = 0.05f;
  schedule.warm_up_in(decay > 0.0f ? 13 : 0);
  schedule.clip = decay > 0.0f ? 0.02f : 0.0f;
  schedule.decay = decay;
  schedule.l1 = regularised ? 1e-3f : 0.0f;
  schedule.l2 = regularised ? 2e-3f : 0.0f;
  return schedule;
}

class SparseUpdateTest : public samples::RandomTest {
 protected:
  static constexpr Index kUnits = 90, kWidth = 145, kBatch = 12;

  /// A few units of the first 60: some are popular, some rare, the last third is never touched.
  SparseRows small_batch() {
    SparseRows x;
    x.cols = kUnits;
    for (Index r = 0; r < kBatch; ++r) {
      for (Index i = below(4); i > 0; --i) x.column.push_back(Column(below(1 + below(60))));
      x.row_begin.push_back(RowOffset(x.column.size()));
    }
    for (std::size_t i = 0; i < x.column.size(); ++i) x.value.push_back(uniform(-1.0f, 1.0f));
    return x;
  }
  PaddedMatrix<float> start() {
    PaddedMatrix<float> w(kUnits, kWidth);
    samples::fill_normal(w.view(), random_, 0.1f);
    w(3, 5) = -0.0f;
    w(80, 7) = -0.0f;  // a dense step may turn it into +0
    w(81, 8) = 0.0f;
    return w;
  }
};

template <typename Body>
void for_each_rule(const Body& body) {
  for (const std::string& name : names_of<UpdateRule>())
    for (const bool regularised : {false, true})
      for (const float decay : {0.0f, 0.01f}) {
        SCOPED_TRACE(fmt::format("{}, regularised {}, decay {}", name, regularised, decay));
        body(*find_named<UpdateRule>(name), schedule_of(regularised, decay));
        if (::testing::Test::HasFatalFailure()) return;
      }
}

TEST_F(SparseUpdateTest, LazyRowsHaveTheBitsOfDenseUpdates) {
  Executor executor(2);
  const auto sparse = samples::make_sparse(executor);
  const auto dense = samples::make_update(executor);
  for_each_rule([&](const UpdateRule& rule, const UpdateSchedule& schedule) {
    const PaddedMatrix<float> first = start();
    Weights lazy(first, kUnits, kWidth), eager(first, kUnits, kWidth);
    TransposedBatch xt;
    for (std::int64_t step = 0; step < 30; ++step) {
      const SparseRows x = small_batch();
      PaddedMatrix<float> delta(kBatch, kWidth), g(kUnits, kWidth);
      samples::fill_normal(delta.view(), random_);
      sparse->transpose(x.view(), xt);
      sparse->gradient(xt, delta.view(), 1.0f / kBatch, g.view());
      dense->update(rule, schedule.at(rule, step), eager.w.view(), g.view(), eager.slots());
      if (step % 3 == 1) sparse->catch_up(rule, schedule, step, xt, lazy.rows());
      // In two blocks of columns, as the engine does.
      for (const auto& [c, count] : std::vector<std::pair<Index, Index>>{{0, 64}, {64, 81}}) {
        RowState rows = lazy.rows();
        rows.w = rows.w.columns(c, count);
        for (MatrixView<float>& slot : rows.slot) slot = slot.columns(c, count);
        sparse->update_rows(rule, schedule, step, xt, delta.view().columns(c, count), 1.0f / kBatch,
                            rows);
      }
      sparse->mark_done(xt, step, samples::view_of(lazy.done));
      for (Index t = 0; t < xt.touched; ++t) {
        const Index row = Index(xt.unit.data()[t]);
        ASSERT_EQ(std::memcmp(&lazy.w(row, 0), &eager.w(row, 0), kWidth * sizeof(float)), 0)
            << "row " << row << " at step " << step;
      }
      if (step % 11 == 10) {
        Weights caught_up = lazy;
        sparse->catch_up(rule, schedule, step + 1, caught_up.rows());
        ASSERT_TRUE(caught_up.same_bits(eager)) << "after step " << step;
        if (step == 10) lazy = caught_up;
      }
    }
    sparse->catch_up(rule, schedule, 30, lazy.rows());
    EXPECT_TRUE(lazy.same_bits(eager));
    EXPECT_EQ(lazy.done, std::vector<std::int64_t>(kUnits, 30));
    EXPECT_TRUE(lazy.w.padding_is_intact());
  });
}

// Units that all examples hold are summed in parts on a GPU: the gradient's parts are the same.
TEST_F(SparseUpdateTest, PopularUnitsGetTheGradientOfAll) {
  Executor executor(2);
  const auto sparse = samples::make_sparse(executor);
  const auto dense = samples::make_update(executor);
  constexpr Index kExamples = 700;
  const SparseRows x = samples::awkward_batch(kExamples, kUnits, 20, true, random_);
  PaddedMatrix<float> delta(kExamples, kWidth), g(kUnits, kWidth);
  samples::fill_normal(delta.view(), random_);
  TransposedBatch xt;
  sparse->transpose(x.view(), xt);
  sparse->gradient(xt, delta.view(), 0.01f, g.view());
  for_each_rule([&](const UpdateRule& rule, const UpdateSchedule& schedule) {
    const PaddedMatrix<float> first = start();
    Weights lazy(first, kUnits, kWidth), eager(first, kUnits, kWidth);
    dense->update(rule, schedule.at(rule, 0), eager.w.view(), g.view(), eager.slots());
    for (const auto& [c, count] : std::vector<std::pair<Index, Index>>{{0, 3}, {3, 142}}) {
      RowState rows = lazy.rows();
      rows.w = rows.w.columns(c, count);
      for (MatrixView<float>& slot : rows.slot) slot = slot.columns(c, count);
      sparse->update_rows(rule, schedule, 0, xt, delta.view().columns(c, count), 0.01f, rows);
    }
    sparse->mark_done(xt, 0, samples::view_of(lazy.done));
    sparse->catch_up(rule, schedule, 1, lazy.rows());
    EXPECT_TRUE(lazy.same_bits(eager));
  });
}

// So many units that a GPU's warps take several at a time, some beyond those that occur.
TEST_F(SparseUpdateTest, ManyUnitsGetTheGradientOfAll) {
  Executor executor(2);
  const auto sparse = samples::make_sparse(executor);
  constexpr Index kExamples = 96, kMany = 7000, kCols = 644;
  const SparseRows x = samples::awkward_batch(kExamples, kMany, 200, false, random_);
  PaddedMatrix<float> delta(kExamples, kCols, 4), g(kMany, kCols, 4), first(kMany, kCols, 4);
  samples::fill_normal(delta.view(), random_);
  samples::fill_normal(first.view(), random_, 0.1f);
  TransposedBatch xt;
  sparse->transpose(x.view(), xt);
  sparse->gradient(xt, delta.view(), 0.01f, g.view());
  const auto dense = samples::make_update(executor);
  const UpdateSchedule schedule;
  for (const UpdateRule& rule : {UpdateRule(Sgd{}), UpdateRule(Adam{})})
    for (int repeat = 0; repeat < 2; ++repeat) {
      Weights lazy(first, kMany, kCols, 4), eager(first, kMany, kCols, 4);
      dense->update(rule, schedule.at(rule, 0), eager.w.view(), g.view(), eager.slots());
      sparse->update_rows(rule, schedule, 0, xt, delta.view(), 0.01f, lazy.rows());
      sparse->mark_done(xt, 0, samples::view_of(lazy.done));
      sparse->catch_up(rule, schedule, 1, lazy.rows());
      EXPECT_TRUE(lazy.same_bits(eager));
    }
}

// The same in columns that can be read in fours, for rows that missed steps.
TEST_F(SparseUpdateTest, PopularUnitsThatLagGetTheGradientOfAll) {
  Executor executor(2);
  const auto sparse = samples::make_sparse(executor);
  const auto dense = samples::make_update(executor);
  constexpr Index kExamples = 300, kCols = 296, kPadding = 4;
  constexpr std::int64_t kStep = 3;
  const SparseRows x = samples::awkward_batch(kExamples, kUnits, 20, true, random_);
  PaddedMatrix<float> delta(kExamples, kCols, kPadding), first(kUnits, kCols, kPadding);
  samples::fill_normal(delta.view(), random_);
  samples::fill_normal(first.view(), random_, 0.1f);
  PaddedMatrix<float> g = first, none = Weights::zeros(kUnits, kCols, kPadding);
  TransposedBatch xt;
  sparse->transpose(x.view(), xt);
  sparse->gradient(xt, delta.view(), 0.01f, g.view());
  for_each_rule([&](const UpdateRule& rule, const UpdateSchedule& schedule) {
    Weights lazy(first, kUnits, kCols, kPadding), eager(first, kUnits, kCols, kPadding);
    for (std::int64_t step = 0; step <= kStep; ++step)
      dense->update(rule, schedule.at(rule, step), eager.w.view(), (step < kStep ? none : g).view(),
                    eager.slots());
    for (const auto& [c, count] : std::vector<std::pair<Index, Index>>{{0, 36}, {36, 260}}) {
      RowState rows = lazy.rows();
      rows.w = rows.w.columns(c, count);
      for (MatrixView<float>& slot : rows.slot) slot = slot.columns(c, count);
      sparse->update_rows(rule, schedule, kStep, xt, delta.view().columns(c, count), 0.01f, rows);
    }
    sparse->mark_done(xt, kStep, samples::view_of(lazy.done));
    sparse->catch_up(rule, schedule, kStep + 1, lazy.rows());
    EXPECT_TRUE(lazy.same_bits(eager));
  });
}

// Averages of all sizes, so that rows come to rest early and late; some weights never do.
TEST_F(SparseUpdateTest, RulesWithNumbersOfTheirOwnCatchUpWithStateOfAnySize) {
  Executor executor(2);
  const auto sparse = samples::make_sparse(executor);
  const auto dense = samples::make_update(executor);
  constexpr Index kRows = 6, kCols = 128;
  constexpr std::int64_t kFirst = 20, kSteps = 1500;
  const UpdateSchedule schedule = schedule_of(false, 0.001f);
  const auto any_size = [&](float value) { return std::ldexp(value, -int(below(140))); };
  for (const std::string& name : names_of<UpdateRule>()) {
    const UpdateRule rule = *find_named<UpdateRule>(name);
    if (std::visit([](const auto& r) { return r.times == 0; }, rule)) continue;
    SCOPED_TRACE(name);
    PaddedMatrix<float> first(kRows, kCols), none = Weights::zeros(kRows, kCols);
    samples::fill_normal(first.view(), random_, 0.1f);
    Weights lazy(first, kRows, kCols);
    for (Index r = 0; r < kRows; ++r)
      for (Index c = 0; c < kCols; ++c) {
        lazy.slot[0](r, c) = any_size(uniform(-1.0f, 1.0f));
        for (std::size_t s = 1; s < lazy.slot.size(); ++s)
          lazy.slot[s](r, c) = any_size(uniform(0.0f, 1.0f));
        if (r == 3) lazy.w(r, c) = c % 2 == 0 ? 0.0f : -0.0f;
        if (r == 4) lazy.w(r, c) = any_size(uniform(-1.0f, 1.0f));
        if (r == 5 && c % 3 == 0) lazy.slot[0](r, c) = -0.0f;
      }
    Weights eager = lazy;
    lazy.done.assign(kRows, kFirst);
    for (std::int64_t step = kFirst; step < kSteps; ++step)
      dense->update(rule, schedule.at(rule, step), eager.w.view(), none.view(), eager.slots());
    sparse->catch_up(rule, schedule, kSteps, lazy.rows());
    EXPECT_TRUE(lazy.same_bits(eager));
  }
}

// Long enough for velocities to die out, for steps to leave the table of recent settings, and for
// the shortcuts of rows at rest.
TEST_F(SparseUpdateTest, RowsThatLagFarBehindCatchUpExactly) {
  Executor executor(2);
  const auto sparse = samples::make_sparse(executor);
  const auto dense = samples::make_update(executor);
  constexpr Index kRows = 2, kCols = 20;
  // On a GPU each dense step of this test is copied there and back.
  const std::int64_t kSteps = samples::sums_like_the_cpu() ? 17000 : 3000;
  for_each_rule([&](const UpdateRule& rule, const UpdateSchedule& schedule) {
    PaddedMatrix<float> first(kRows, kCols), g(kRows, kCols), none = Weights::zeros(kRows, kCols);
    samples::fill_normal(first.view(), random_, 0.1f);
    samples::fill_normal(g.view(), random_);
    Weights lazy(first, kRows, kCols), eager(first, kRows, kCols);
    for (Weights* weights : {&lazy, &eager})
      dense->update(rule, schedule.at(rule, 0), weights->w.view(), g.view(), weights->slots());
    lazy.done.assign(kRows, 1);
    for (std::int64_t step = 1; step < kSteps; ++step)
      dense->update(rule, schedule.at(rule, step), eager.w.view(), none.view(), eager.slots());
    sparse->catch_up(rule, schedule, kSteps, lazy.rows());
    ASSERT_TRUE(lazy.same_bits(eager));
  });
}

TEST_F(SparseUpdateTest, BitsDoNotDependOnLanes) {
  const PaddedMatrix<float> first = start();
  PaddedMatrix<float> delta(200, kWidth);
  samples::fill_normal(delta.view(), random_);
  const SparseRows x = samples::awkward_batch(200, kUnits, 20, false, random_);
  for_each_rule([&](const UpdateRule& rule, const UpdateSchedule& schedule) {
    samples::expect_same_bits_however_run([&](Executor& executor) {
      const auto kernels = samples::make_sparse(executor);
      Weights weights(first, kUnits, kWidth);
      TransposedBatch xt;
      kernels->transpose(x.view(), xt);
      kernels->update_rows(rule, schedule, 7, xt, delta.view(), 0.005f, weights.rows());
      kernels->mark_done(xt, 7, samples::view_of(weights.done));
      kernels->catch_up(rule, schedule, 9, weights.rows());
      std::vector<std::uint32_t> bits = samples::bits_of(weights.w.view());
      for (auto& slot : weights.slot) samples::append(bits, samples::bits_of(slot.view()));
      return bits;
    });
  });
}

TEST_F(SparseUpdateTest, AStepThatARowIsPastIsRefused) {
  Executor executor(2);
  const auto kernels = samples::make_sparse(executor);
  const SparseRows x = samples::awkward_batch(5, kUnits, 3, false, random_);
  PaddedMatrix<float> delta = Weights::zeros(5, kWidth);
  Weights weights(start(), kUnits, kWidth);
  TransposedBatch xt;
  kernels->transpose(x.view(), xt);
  kernels->mark_done(xt, 4, samples::view_of(weights.done));
  // The host cannot see how far a GPU's rows are.
  if (samples::sums_like_the_cpu()) {
    EXPECT_THROW(
        kernels->update_rows(Sgd{}, UpdateSchedule{}, 4, xt, delta.view(), 1.0f, weights.rows()),
        ShapeError);
  }
  weights.done.pop_back();
  EXPECT_THROW(
      kernels->update_rows(Sgd{}, UpdateSchedule{}, 5, xt, delta.view(), 1.0f, weights.rows()),
      ShapeError);
}

}  // namespace
}  // namespace norn
