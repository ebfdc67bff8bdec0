// SPDX-License-Identifier: Apache-2.0
// Fixed-point sums: the same accumulators for any order and any lanes, coarse accumulators, range,
// accuracy.
#include "kernels/fixed.h"

#include "kernels/batch.h"
#include "kernels/named_variant.h"
#include "kernels/pointwise.h"
#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace norn {
namespace {

using samples::PaddedMatrix;

/// A sum with padding of its own.
struct Sum {
  Sum(Index rows, Index cols) : fine(rows, cols, 3), coarse(rows, cols, 7) {
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) fine(r, c) = coarse(r, c) = 0;
  }
  FixedMatrixView view() { return {fine.view(), coarse.view(), &coarse_used, &out_of_range}; }
  bool same_accumulators(const Sum& other) const {
    return fine.same_bits(other.fine) && coarse.same_bits(other.coarse) &&
           coarse_used == other.coarse_used && out_of_range == other.out_of_range;
  }
  PaddedMatrix<std::int64_t> fine;
  PaddedMatrix<std::int64_t> coarse;
  std::int64_t coarse_used = 0;
  std::int64_t out_of_range = 0;
};

class Fixed : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random_partial_sums(Index rows, Index cols, float scale) {
    PaddedMatrix<float> x(rows, cols);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) x(r, c) = uniform(-scale, scale);
    return x;
  }
  /// Partial sums of which some belong to the coarse accumulators.
  std::vector<PaddedMatrix<float>> mixed_partial_sums(Index count, Index rows, Index cols) {
    std::vector<PaddedMatrix<float>> partial_sums;
    for (Index i = 0; i < count; ++i) {
      partial_sums.push_back(random_partial_sums(rows, cols, 1.0f));
      for (int large = 0; large < 5; ++large)
        partial_sums.back()(below(rows), below(cols)) = uniform(-1e5f, 1e5f);
    }
    return partial_sums;
  }

  Executor executor_{1};
  std::unique_ptr<FixedKernels> kernels_ = samples::make_fixed(executor_);
};

TEST_F(Fixed, AccumulatorsAreThePartialSumsRoundedHalfToEven) {
  for (Index width : samples::edge_widths()) {
    const FixedFormat format{.fine_bits = 20, .term_bits = 12};
    PaddedMatrix<float> x = random_partial_sums(3, width, 1000.0f);
    x(0, 0) = 1.5f / 1048576.0f;  // halves
    x(1, 0) = -0.5f / 1048576.0f;
    x(2, width - 1) = 2.5f / 1048576.0f;
    Sum sum(3, width);
    kernels_->add(&format, x.view(), sum.view());
    kernels_->add(&format, x.view(), sum.view());
    for (Index r = 0; r < 3; ++r)
      for (Index c = 0; c < width; ++c)
        ASSERT_EQ(sum.fine(r, c), 2 * std::llrint(double(x(r, c)) * 1048576.0))
            << width << ' ' << r << ' ' << c;
    EXPECT_EQ(sum.fine(0, 0), 4);
    EXPECT_EQ(sum.fine(1, 0) % 2, 0);
    EXPECT_EQ(sum.coarse_used, 0);
    EXPECT_TRUE(sum.fine.padding_is_intact() && sum.coarse.padding_is_intact());
  }
}

TEST_F(Fixed, SettingASumForgetsWhatItHeld) {
  const FixedFormat format{.fine_bits = 40, .term_bits = 8};
  for (Index width : samples::edge_widths()) {
    PaddedMatrix<float> term = mixed_partial_sums(1, 6, width).front();
    Sum set(6, width), added(6, width);
    for (Index r = 0; r < 6; ++r)
      for (Index c = 0; c < width; ++c) set.fine(r, c) = 17 + r + c;
    kernels_->set(&format, term.view(), set.view());
    kernels_->add(&format, term.view(), added.view());
    EXPECT_TRUE(set.same_accumulators(added)) << width;
  }
}

TEST_F(Fixed, PartialSumsAddedAtOnceAreThoseAddedOneByOne) {
  const FixedFormat format{.fine_bits = 40, .term_bits = 8};
  for (Index width : samples::edge_widths())
    for (int count = 1; count <= PartialSums::kMost; ++count) {
      std::vector<PaddedMatrix<float>> partial_sums = mixed_partial_sums(count, 6, width);
      Sum one_by_one(6, width), at_once(6, width), set(6, width);
      for (Index r = 0; r < 6; ++r)
        for (Index c = 0; c < width; ++c) set.fine(r, c) = 17 + r + c;
      PartialSums all;
      for (PaddedMatrix<float>& term : partial_sums) {
        kernels_->add(&format, term.view(), one_by_one.view());
        all.of[all.count++] = term.view();
      }
      kernels_->add(&format, all, at_once.view());
      kernels_->set(&format, all, set.view());
      EXPECT_TRUE(at_once.same_accumulators(one_by_one)) << width << ' ' << count;
      EXPECT_TRUE(set.same_accumulators(one_by_one)) << width << ' ' << count;
      EXPECT_TRUE(at_once.fine.padding_is_intact() && set.fine.padding_is_intact());
    }
}

TEST_F(Fixed, PartialSumsHaveTheBitsOfTheirAccumulators) {
  const Philox random_numbers = Philox::stream(seed_, RandomPurpose::test);
  for (Index cols : {1, 64, 133, 512})
    for (Index padding : {0, 3, 4})
      for (int count = 1; count <= PartialSums::kMost; ++count)
        for (bool is_bad : {false, true}) {
          SCOPED_TRACE(std::to_string(cols) + " + " + std::to_string(padding) + " terms " +
                       std::to_string(count));
          const FixedFormat format{.fine_bits = 40, .term_bits = 8};
          std::vector<PaddedMatrix<float>> partial_sums;
          PartialSums all;
          Sum accumulators(19, cols), none(0, 0);
          for (int t = 0; t < count; ++t) partial_sums.emplace_back(19, cols, padding);
          for (PaddedMatrix<float>& term : partial_sums) {
            for (Index r = 0; r < 19; ++r)
              for (Index c = 0; c < cols; ++c)
                term(r, c) = below(50) == 0 ? uniform(-1e5f, 1e5f) : uniform(-1e-3f, 1e-3f);
            if (is_bad) term(below(19), below(cols)) = std::numeric_limits<float>::infinity();
            kernels_->add(&format, term.view(), accumulators.view());
            all.of[all.count++] = term.view();
          }
          FixedMatrixView no_accumulators;
          no_accumulators.out_of_range = &none.out_of_range;
          PaddedMatrix<std::int64_t> coarse = accumulators.coarse;
          PaddedMatrix<float> expected(19, cols, padding), value(19, cols, padding);
          float maximum = -1.0f, expected_maximum = -1.0f;
          kernels_->to_float(&format, accumulators.view(), expected.view(), &expected_maximum);
          kernels_->to_float(&format, no_accumulators, all, value.view(), &maximum);
          EXPECT_TRUE(value.same_bits(expected));
          EXPECT_EQ(maximum, expected_maximum);
          EXPECT_EQ(none.out_of_range, accumulators.out_of_range);
          EXPECT_EQ(accumulators.out_of_range, is_bad ? 1 : 0);
          accumulators.coarse = coarse;
          const DropoutMask mask = DropoutMask::inverted(0.4f, random_numbers, 5, 8).slope();
          const OutputSlope slope{Tanh{}, mask, partial_sums.front().view()};
          FixedFormat adapted = format, expected_format = format;
          kernels_->to_delta(&expected_format, 7, accumulators.view(), {}, slope, expected.view(),
                             {}, &expected_maximum);
          PaddedMatrix<Bfloat16> bf16(19, cols, padding);
          kernels_->to_delta(&adapted, 7, no_accumulators, all, slope, value.view(), bf16.view(),
                             &maximum);
          EXPECT_TRUE(value.same_bits(expected));
          EXPECT_EQ(maximum, expected_maximum);
          EXPECT_EQ(adapted, expected_format);
          for (Index r = 0; r < 19; ++r)
            for (Index c = 0; c < cols; ++c)
              ASSERT_EQ(bf16(r, c).bits, Bfloat16::rounded(value(r, c)).bits);
          EXPECT_TRUE(value.padding_is_intact() && bf16.padding_is_intact());
        }
}

TEST_F(Fixed, ADeltaIsThatOfItsStepsOneByOne) {
  const auto pointwise = samples::make_pointwise(executor_);
  const auto batch = samples::make_batch(executor_);
  const Philox random_numbers = Philox::stream(seed_, RandomPurpose::test);
  for (const std::string& name : names_of<Activation>())
    for (Index first_unit : {0, 8, 1003})
      for (Index padding : {0, 3, 4})
        for (Index cols : {1, 64, 133})
          for (float p : {0.0f, 0.4f}) {
            SCOPED_TRACE(name + " " + std::to_string(cols) + " + " + std::to_string(padding) +
                         " from " + std::to_string(first_unit) + " p " + std::to_string(p));
            const Activation f = *find_named<Activation>(name);
            const DropoutMask mask =
                DropoutMask::inverted(p, random_numbers, 5, first_unit).slope();
            const FixedFormat format{.fine_bits = 40, .term_bits = 8};
            PaddedMatrix<std::int64_t> fine(19, cols, padding), coarse(19, cols, padding);
            PaddedMatrix<float> y(19, cols, padding), term(19, cols), expected(19, cols);
            for (Index r = 0; r < 19; ++r)
              for (Index c = 0; c < cols; ++c) {
                fine(r, c) = coarse(r, c) = 0;
                y(r, c) = uniform(-0.9f, 0.9f);
                term(r, c) = uniform(-2, 2);
              }
            if (cols == 133) term(below(19), below(cols)) = 3e5f;
            std::int64_t coarse_used = 0, out_of_range = 0;
            const FixedMatrixView sum{fine.view(), coarse.view(), &coarse_used, &out_of_range};
            for (int i = 0; i < 2; ++i) kernels_->add(&format, term.view(), sum);
            PaddedMatrix<std::int64_t> kept_coarse = coarse;
            PaddedMatrix<float> delta(19, cols, padding);
            PaddedMatrix<Bfloat16> bf16(19, cols, padding);
            for (std::int64_t adapt_count : {0, 9}) {
              coarse = kept_coarse;
              FixedFormat adapted = format;
              float maximum = -1.0f, expected_maximum = -1.0f;
              kernels_->to_delta(&adapted, adapt_count, sum, {}, {f, mask, y.view()}, delta.view(),
                                 adapt_count > 0 ? bf16.view() : MatrixView<Bfloat16>{}, &maximum);
              for (Index r = 0; r < 19; ++r)
                for (Index c = 0; c < cols; ++c) ASSERT_EQ(coarse(r, c), 0);
              coarse = kept_coarse;
              kernels_->to_float(&format, sum, expected.view(), &expected_maximum);
              if (p > 0) batch->mask(mask, expected.view(), expected.view());
              pointwise->multiply_slope(f, y.view(), expected.view());
              EXPECT_EQ(maximum, expected_maximum);
              EXPECT_EQ(adapted, adapt_count > 0
                                     ? FixedFormat::for_maximum(double(maximum), adapt_count)
                                     : format);
              for (Index r = 0; r < 19; ++r)
                for (Index c = 0; c < cols; ++c) {
                  ASSERT_EQ(delta(r, c), expected(r, c)) << r << ' ' << c;
                  if (adapt_count > 0) {
                    ASSERT_EQ(bf16(r, c).bits, Bfloat16::rounded(expected(r, c)).bits);
                  }
                }
              EXPECT_TRUE(delta.padding_is_intact() && bf16.padding_is_intact());
            }
          }
}

TEST_F(Fixed, OrderOfPartialSumsDoesNotChangeAnAccumulator) {
  constexpr Index kRows = 40;
  constexpr Index kCols = 300;
  const FixedFormat format{.fine_bits = 40, .term_bits = 8};
  std::vector<PaddedMatrix<float>> partial_sums = mixed_partial_sums(20, kRows, kCols);
  Sum forward(kRows, kCols);
  for (PaddedMatrix<float>& term : partial_sums)
    kernels_->add(&format, term.view(), forward.view());
  EXPECT_EQ(forward.coarse_used, 1);
  EXPECT_EQ(forward.out_of_range, 0);
  std::shuffle(partial_sums.begin(), partial_sums.end(), random_);
  Sum shuffled(kRows, kCols);
  for (PaddedMatrix<float>& term : partial_sums)
    kernels_->add(&format, term.view(), shuffled.view());
  EXPECT_TRUE(shuffled.same_accumulators(forward));
}

TEST_F(Fixed, LanesThatAddAtTheSameTimeGiveTheSameAccumulators) {
  constexpr Index kRows = 200;
  constexpr Index kCols = 128;
  constexpr Index kPartialSums = 48;
  const FixedFormat format{.fine_bits = 40, .term_bits = 8};
  std::vector<PaddedMatrix<float>> partial_sums = mixed_partial_sums(kPartialSums, kRows, kCols);
  Sum expected(kRows, kCols);
  for (PaddedMatrix<float>& term : partial_sums)
    kernels_->add(&format, term.view(), expected.view());
  for (int lanes : {1, 2, 7}) {
    Executor executor(lanes);
    const std::unique_ptr<FixedKernels> kernels = samples::make_fixed(executor);
    Sum from_tasks(kRows, kCols);
    executor.for_each(kPartialSums, [&](Index i, int) {
      kernels->add(&format, partial_sums[std::size_t(i)].view(), from_tasks.view());
    });
    EXPECT_TRUE(from_tasks.same_accumulators(expected)) << lanes;
    Sum from_outside(kRows, kCols);
    for (PaddedMatrix<float>& term : partial_sums)
      kernels->add(&format, term.view(), from_outside.view());
    EXPECT_TRUE(from_outside.same_accumulators(expected)) << lanes;
  }
}

TEST_F(Fixed, SumsAreAccurateWithAndWithoutCoarseAccumulators) {
  for (bool has_large : {false, true}) {
    constexpr Index kRows = 5;
    constexpr Index kCols = 70;
    const FixedFormat format{.fine_bits = 40, .term_bits = 8};
    Sum sum(kRows, kCols);
    std::vector<double> expected(kRows * kCols, 0.0);
    std::vector<PaddedMatrix<float>> partial_sums = mixed_partial_sums(30, kRows, kCols);
    if (!has_large)
      for (PaddedMatrix<float>& term : partial_sums) term = random_partial_sums(kRows, kCols, 1.0f);
    for (PaddedMatrix<float>& term : partial_sums) {
      kernels_->add(&format, term.view(), sum.view());
      for (Index r = 0; r < kRows; ++r)
        for (Index c = 0; c < kCols; ++c)
          expected[std::size_t(r * kCols + c)] += double(term(r, c));
    }
    EXPECT_EQ(sum.coarse_used, has_large ? 1 : 0);
    PaddedMatrix<float> value(kRows, kCols);
    float maximum = -1;
    kernels_->to_float(&format, sum.view(), value.view(), &maximum);
    double largest = 0;
    for (Index r = 0; r < kRows; ++r)
      for (Index c = 0; c < kCols; ++c) {
        const double truth = expected[std::size_t(r * kCols + c)];
        largest = std::max(largest, std::abs(truth));
        // Half a float's last place, and half a unit of the coarse accumulator a large partial sum.
        EXPECT_NEAR(double(value(r, c)), truth, 6e-8 * std::abs(truth) + 30 * 0x1p-17);
        if (!has_large) {
          EXPECT_NEAR(double(value(r, c)), truth, 6e-8 * std::abs(truth) + 1e-10);
        }
      }
    EXPECT_FLOAT_EQ(maximum, float(largest));
    EXPECT_TRUE(value.padding_is_intact());
    for (Index r = 0; r < kRows; ++r)
      for (Index c = 0; c < kCols; ++c) ASSERT_EQ(sum.coarse(r, c), 0) << "cleared again";
  }
}

TEST_F(Fixed, PartialSumsBeyondEveryLimitAreReported) {
  const FixedFormat format{.fine_bits = 40, .term_bits = 12};
  const float beyond = float(format.coarse_limit());
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity(), beyond, -beyond}) {
    PaddedMatrix<float> x = random_partial_sums(4, 90, 1.0f);
    x(below(4), below(90)) = bad;
    Sum sum(4, 90);
    kernels_->add(&format, x.view(), sum.view());
    EXPECT_EQ(sum.out_of_range, 1) << bad;
  }
}

TEST_F(Fixed, LimitsBelongToTheNextWord) {
  const FixedFormat format{.fine_bits = 40, .term_bits = 12};
  PaddedMatrix<float> x(1, 2);
  x(0, 0) = std::nextafter(float(format.fine_limit()), 0.0f);
  x(0, 1) = -float(format.fine_limit());
  Sum sum(1, 2);
  kernels_->add(&format, x.view(), sum.view());
  EXPECT_GT(sum.fine(0, 0), 0);
  EXPECT_EQ(sum.coarse(0, 0), 0);
  EXPECT_EQ(sum.fine(0, 1), 0);
  EXPECT_LT(sum.coarse(0, 1), 0);
  PaddedMatrix<float> value(1, 2);
  float maximum = 0;
  kernels_->to_float(&format, sum.view(), value.view(), &maximum);
  EXPECT_FLOAT_EQ(value(0, 0), x(0, 0));
  EXPECT_FLOAT_EQ(value(0, 1), x(0, 1));
}

TEST_F(Fixed, FormatsFarFromOneWork) {
  for (int fine_bits : {-60, 0, 90, 160}) {
    const FixedFormat format{.fine_bits = fine_bits, .term_bits = 4};
    PaddedMatrix<float> x = random_partial_sums(2, 40, float(std::ldexp(1.0, 45 - fine_bits)));
    Sum sum(2, 40);
    kernels_->add(&format, x.view(), sum.view());
    EXPECT_EQ(sum.out_of_range, 0);
    PaddedMatrix<float> value(2, 40);
    float maximum = 0;
    kernels_->to_float(&format, sum.view(), value.view(), &maximum);
    for (Index r = 0; r < 2; ++r)
      for (Index c = 0; c < 40; ++c)
        EXPECT_LE(std::abs(value(r, c) - x(r, c)), 1e-6f * maximum) << fine_bits;
  }
}

TEST_F(Fixed, SumsWithoutPaddingAreOneRun) {
  const FixedFormat format{.fine_bits = 40, .term_bits = 8};
  for (Index cols : {1, 2, 37, 512}) {
    PaddedMatrix<float> x(31, cols, 0);
    PaddedMatrix<std::int64_t> fine(31, cols, 0), coarse(31, cols, 0);
    for (Index r = 0; r < 31; ++r)
      for (Index c = 0; c < cols; ++c) {
        x(r, c) = r == 11 && c == cols / 2 ? -54321.0f : uniform(-1, 1);
        fine(r, c) = coarse(r, c) = 0;
      }
    std::int64_t coarse_used = 0, out_of_range = 0;
    const FixedMatrixView sum{fine.view(), coarse.view(), &coarse_used, &out_of_range};
    for (int i = 0; i < 2; ++i) kernels_->add(&format, x.view(), sum);
    EXPECT_EQ(coarse_used, 1);
    EXPECT_EQ(out_of_range, 0);
    PaddedMatrix<float> value(31, cols, 0);
    float maximum = -1;
    kernels_->to_float(&format, sum, value.view(), &maximum);
    EXPECT_EQ(maximum, 108642.0f);
    for (Index r = 0; r < 31; ++r)
      for (Index c = 0; c < cols; ++c)
        ASSERT_NEAR(value(r, c), 2 * x(r, c), 1e-6f) << r << ' ' << c;
  }
}

TEST_F(Fixed, AFormatIsAdaptedToTheMaximum) {
  for (float maximum : {1e-40f, 3e-9f, 0.25f, 0.3f, 1.0f, 1.5f, 7e4f, 3e38f})
    for (std::int64_t partial_sums : {1, 2, 3, 4096, 4097, 10'000'000}) {
      FixedFormat format;
      kernels_->adapt(&maximum, partial_sums, &format);
      EXPECT_EQ(format, FixedFormat::for_maximum(double(maximum), partial_sums)) << maximum;
    }
  const FixedFormat before{.fine_bits = 17, .term_bits = 5};
  for (float maximum : {0.0f, -1.0f, std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN()}) {
    FixedFormat format = before;
    kernels_->adapt(&maximum, 100, &format);
    EXPECT_EQ(format, before) << maximum;
  }
}

TEST_F(Fixed, ShapesThatDoNotFitAreRefused) {
  Sum sum(3, 4);
  PaddedMatrix<float> x(3, 5);
  const FixedFormat format;
  EXPECT_THROW(kernels_->add(&format, x.view(), sum.view()), ShapeError);
  PaddedMatrix<float> y(3, 4);
  FixedMatrixView view = sum.view();
  view.coarse_used = nullptr;
  EXPECT_THROW(kernels_->add(&format, y.view(), view), ShapeError);
  PaddedMatrix<float> delta(3, 4);
  float maximum = 0.0f;
  FixedFormat adapted;
  EXPECT_THROW(kernels_->to_delta(&adapted, 0, sum.view(), {}, {Linear{}, {}, x.view()},
                                  delta.view(), {}, &maximum),
               ShapeError);
  EXPECT_THROW(kernels_->adapt(nullptr, 1, &adapted), ShapeError);
  PaddedMatrix<float> value(3, 4);
  EXPECT_THROW(kernels_->to_float(&format, sum.view(), y.view(), value.view(), &maximum),
               ShapeError)
      << "words and terms";
  FixedMatrixView no_accumulators;
  no_accumulators.out_of_range = &sum.out_of_range;
  EXPECT_THROW(kernels_->to_float(&format, no_accumulators, x.view(), value.view(), &maximum),
               ShapeError);
  EXPECT_THROW(kernels_->set(&format, {}, sum.view()), ShapeError);
}

}  // namespace
}  // namespace norn
