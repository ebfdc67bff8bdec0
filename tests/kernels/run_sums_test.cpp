// SPDX-License-Identifier: Apache-2.0
// Sums over runs of examples against float64 loops, and the same bits whoever has which run.
#include "kernels/run_sums.h"

#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"
#include "tests/support/message_of.h"

#include <cmath>
#include <memory>
#include <vector>

namespace norn {
namespace {

using samples::PaddedMatrix;
using samples::view_of;

class RunSums : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random(Index rows, Index cols) {
    PaddedMatrix<float> x(rows, cols, 4 * below(2) + below(2));
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) x(r, c) = uniform(-2, 4);
    return x;
  }
  // Some of the rows in up to eight runs, which leave none out.
  std::vector<Range> cut(Index rows) {
    std::vector<Range> runs;
    for (Index first = 0; first < rows && runs.size() < 8;) {
      const Index count = runs.size() == 7 ? rows - first : 1 + below(rows - first);
      runs.push_back({first, first + count});
      first += count;
    }
    return runs;
  }
  std::vector<FixedSum> sums_of(PaddedMatrix<float>& a, PaddedMatrix<float>& b, bool multiplies,
                                const std::vector<Range>& runs) {
    const Index sums = (multiplies ? 2 : 1) * a.cols();
    PaddedMatrix<double> of_runs(Index(runs.size()) + below(2), sums);
    std::vector<FixedSum> result(std::size_t(sums), FixedSum::from_words(1, 2, 3));
    kernels_->sum_columns(a.view(), multiplies ? b.view() : MatrixView<float>{}, runs,
                          of_runs.view(), view_of(result));
    return result;
  }
  Executor executor_{2};
  std::unique_ptr<RunSumKernels> kernels_ = samples::make_run_sums(executor_);
};

TEST_F(RunSums, AgreeWithFloat64) {
  for (Index rows : {1, 7, 130, 2100, 9000})
    for (Index width : {1, 3, 32, 65, 128}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      PaddedMatrix<float> a = random(rows, width), b = random(rows, width);
      const bool multiplies = below(2) == 0;
      const std::vector<Range> runs = cut(rows);
      const std::vector<FixedSum> sums = sums_of(a, b, multiplies, runs);
      std::vector<float> values(sums.size(), -1.0f);
      kernels_->to_float(view_of(sums), 0.125, view_of(values));
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const Index c = Index(i) % width;
        double expected = 0.0, magnitude = 0.0;
        for (Index r = 0; r < rows; ++r) {
          const double term = double(a(r, c)) * (Index(i) < width ? 1.0 : double(b(r, c)));
          expected += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(sums[i].value(), expected, 1e-12 * magnitude) << i;
        ASSERT_EQ(values[i], float(sums[i].value() * 0.125)) << i;
      }
    }
}

// A rank has some of the runs, in rows of its own.
TEST_F(RunSums, HaveTheSameBitsWhoeverHasWhichRun) {
  for (int i = 0; i < 10; ++i) {
    const Index rows = 2 + below(5000), width = 1 + below(70);
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
    PaddedMatrix<float> a = random(rows, width), b = random(rows, width);
    const std::vector<Range> runs = cut(rows);
    const std::vector<FixedSum> alone = sums_of(a, b, true, runs);
    std::vector<FixedSum> added(alone.size());
    for (std::size_t first = 0; first < runs.size();) {
      const std::size_t count = 1 + std::size_t(below(Index(runs.size() - first)));
      const Index begin = runs[first].begin, end = runs[first + count - 1].end;
      PaddedMatrix<float> own_a = random(end - begin, width), own_b = random(end - begin, width);
      std::vector<Range> own;
      for (std::size_t run = first; run < first + count; ++run)
        own.push_back({runs[run].begin - begin, runs[run].end - begin});
      for (Index r = begin; r < end; ++r)
        for (Index c = 0; c < width; ++c) {
          own_a(r - begin, c) = a(r, c);
          own_b(r - begin, c) = b(r, c);
        }
      const std::vector<FixedSum> part = sums_of(own_a, own_b, true, own);
      for (std::size_t c = 0; c < part.size(); ++c) added[c].add(part[c]);
      first += count;
    }
    EXPECT_TRUE(added == alone);
  }
}

// A device that computes in bfloat16 may have no floats.
TEST_F(RunSums, HaveTheBitsOfFloatsInBf16) {
  if (!samples::is_gpu()) GTEST_SKIP() << "the CPU computes in floats";
  for (int i = 0; i < 30; ++i) {
    const Index rows = 1 + below(6000),
                width = below(2) == 0 ? 8 * (1 + below(20)) : 1 + below(140);
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
    PaddedMatrix<float> a = random(rows, width);
    PaddedMatrix<Bfloat16> bf16(rows, width, 8 * below(2) + below(2) * below(8));
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < width; ++c) {
        bf16(r, c) = Bfloat16::rounded(a(r, c));
        a(r, c) = bf16(r, c).value();
      }
    const std::vector<Range> runs = cut(rows);
    const std::vector<FixedSum> expected = sums_of(a, a, false, runs);
    PaddedMatrix<double> of_runs(Index(runs.size()), width);
    std::vector<FixedSum> sums(std::size_t(width), FixedSum::from_words(1, 2, 3));
    const MatrixView<const float> none{nullptr, rows, width, width};
    kernels_->sum_columns({none, bf16.view()}, {}, runs, of_runs.view(), view_of(sums));
    EXPECT_TRUE(sums == expected);
  }
}

TEST_F(RunSums, OfNoRunsAreZero) {
  PaddedMatrix<float> none(0, 5);
  for (const FixedSum& sum : sums_of(none, none, true, {})) EXPECT_EQ(sum.value(), 0.0);
}

TEST_F(RunSums, AddTermsInTheirOrder) {
  for (std::size_t count : {1, 2, 7, 8})
    for (Index size : {1, 3, 4, 130, 9001}) {
      std::vector<std::vector<float>> terms;
      std::vector<VectorView<const float>> views;
      const Index shift = below(4);  // terms may begin anywhere
      for (std::size_t t = 0; t < count; ++t) {
        terms.emplace_back();
        for (Index i = 0; i < size + shift; ++i)
          terms.back().push_back(uniform(-1, 1) * std::ldexp(1.0f, int(below(40)) - 20));
      }
      for (const std::vector<float>& term : terms) views.push_back({term.data() + shift, size});
      std::vector<float> sum(std::size_t(size), -1.0f);
      kernels_->add_terms(views, view_of(sum));
      for (std::size_t i = 0; i < sum.size(); ++i) {
        double expected = 0.0;
        for (const VectorView<const float>& term : views) expected += double(term[Index(i)]);
        ASSERT_EQ(sum[i], float(expected)) << count << ' ' << i;
      }
    }
}

TEST_F(RunSums, RefuseWhatDoesNotFit) {
  PaddedMatrix<float> a = random(6, 3), narrow = random(6, 2);
  PaddedMatrix<double> of_runs(2, 6);
  std::vector<FixedSum> sums(6);
  const std::vector<Range> runs = {{0, 4}, {4, 6}};
  const auto sum = [&](MatrixView<const float> b, const std::vector<Range>& of, Index count) {
    kernels_->sum_columns(a.view(), b, of, of_runs.view(), {sums.data(), count});
  };
  EXPECT_THROW(sum(a.view(), runs, 5), ShapeError);
  EXPECT_THROW(sum(narrow.view(), runs, 6), ShapeError);
  EXPECT_THROW(sum(a.view(), {{0, 4}, {4, 7}}, 6), ShapeError);
  PaddedMatrix<Bfloat16> bf16(6, 3);
  const DenseOperand alone({nullptr, 6, 3, 3}, bf16.view());
  EXPECT_EQ(message_of<ShapeError>([&] {
              kernels_->sum_columns(alone, a.view(), runs, of_runs.view(), {sums.data(), 6});
            }),
            "sum_columns: a and b differ in shape, or a has no floats");
  EXPECT_THROW(sum(a.view(), {{0, 1}, {1, 2}, {2, 3}}, 6), ShapeError);
  EXPECT_NO_THROW(sum(a.view(), runs, 6));
  std::vector<float> values(5);
  EXPECT_THROW(kernels_->to_float(view_of(std::as_const(sums)), 1.0, view_of(values)), ShapeError);
  const std::vector<VectorView<const float>> terms(9, {values.data(), 5});
  EXPECT_THROW(kernels_->add_terms(terms, view_of(values)), ShapeError);
  EXPECT_THROW(kernels_->add_terms(std::span(terms).first(2), {values.data(), 4}), ShapeError);
}

}  // namespace
}  // namespace norn
