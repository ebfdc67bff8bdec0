// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels against float64 loops at the edge shapes.
#include "kernels/pointwise.h"

#include "kernels/batch.h"
#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "src/base/checksum.h"
#include "tests/kernels/device.h"
#include "tests/kernels/samples.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

namespace norn {
namespace {

using samples::PaddedMatrix;

class Pointwise : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random(Index rows, Index cols, float low = -4, float high = 4) {
    PaddedMatrix<float> x(rows, cols);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) x(r, c) = uniform(low, high);
    return x;
  }
  Executor executor_{1};
  std::unique_ptr<PointwiseKernels> kernels_ = samples::make_pointwise(executor_);
};

TEST_F(Pointwise, RowsAreSetAndMatricesAdded) {
  for (Index width : samples::edge_widths()) {
    PaddedMatrix<float> row = random(1, width);
    PaddedMatrix<float> x = random(7, width);
    PaddedMatrix<float> z(7, width);
    kernels_->set_rows({row.view().row(0), width}, z.view());
    kernels_->add(x.view(), z.view());
    for (Index r = 0; r < 7; ++r)
      for (Index c = 0; c < width; ++c) ASSERT_EQ(z(r, c), row(0, c) + x(r, c));
    EXPECT_TRUE(z.padding_is_intact());
  }
}

TEST_F(Pointwise, MatricesAreCopiedScaledAndRounded) {
  for (Index rows : {0, 1, 3, 40})
    for (Index padding : {0, 3, 4, 5})
      for (Index width : samples::edge_widths()) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width) + " + " +
                     std::to_string(padding));
        PaddedMatrix<float> x = random(rows, width);
        if (rows > 0) x(0, 0) = std::numeric_limits<float>::quiet_NaN();
        PaddedMatrix<float> z(rows, width, padding);
        PaddedMatrix<Bfloat16> bf16(rows, width, padding);
        kernels_->copy(x.view(), z.view());
        kernels_->cast_to_bf16(z.view(), bf16.view());
        for (Index r = 0; r < rows; ++r)
          for (Index c = 0; c < width; ++c) {
            ASSERT_EQ(std::memcmp(&z(r, c), &x(r, c), sizeof(float)), 0) << r << ' ' << c;
            ASSERT_EQ(bf16(r, c).bits, Bfloat16::rounded(x(r, c)).bits) << r << ' ' << c;
          }
        kernels_->scale(-0.3f, z.view());
        for (Index r = 0; r < rows; ++r)
          for (Index c = r == 0 ? 1 : 0; c < width; ++c) ASSERT_EQ(z(r, c), -0.3f * x(r, c));
        EXPECT_TRUE(z.padding_is_intact() && bf16.padding_is_intact());
      }
}

TEST_F(Pointwise, ViewsMayBeginAtAnyColumn) {
  for (Index first : {0, 1, 2, 3, 4, 7})
    for (Index count : {1, 4, 31, 64}) {
      SCOPED_TRACE(std::to_string(first) + " + " + std::to_string(count));
      PaddedMatrix<float> x = random(9, 80);
      PaddedMatrix<float> z = random(9, 80);
      const PaddedMatrix<float> before = z;
      kernels_->add(x.view().columns(3, count), z.view().columns(first, count));
      kernels_->activate(Relu{}, z.view().columns(first, count));
      PaddedMatrix<float> expected = before;
      for (Index r = 0; r < 9; ++r)
        for (Index c = 0; c < count; ++c)
          expected(r, first + c) = std::max(0.0f, expected(r, first + c) + x(r, 3 + c));
      EXPECT_TRUE(z.same_bits(expected));
    }
}

TEST_F(Pointwise, EveryActivationAndItsSlopeAgreeWithFloat64) {
  for (const std::string& name : names_of<Activation>())
    for (Index width : samples::edge_widths()) {
      SCOPED_TRACE(name + " " + std::to_string(width));
      const Activation activation = *find_named<Activation>(name);
      const PaddedMatrix<float> z = random(3, width, -8, 8);
      PaddedMatrix<float> y = z;
      kernels_->activate(activation, y.view());
      const PaddedMatrix<float> incoming = random(3, width);
      PaddedMatrix<float> delta = incoming;
      PaddedMatrix<float> z_copy = z;
      const bool from_z = slope_from(activation) == SlopeFrom::z;
      PaddedMatrix<float> delta_with_copy = incoming;
      PaddedMatrix<Bfloat16> copy(3, width);
      auto& x_of_slope = from_z ? z_copy : y;
      kernels_->multiply_slope(activation, x_of_slope.view(), delta.view());
      kernels_->multiply_slope(activation, x_of_slope.view(), delta_with_copy.view(), copy.view());
      EXPECT_TRUE(delta_with_copy.same_bits(delta) && copy.padding_is_intact());
      for (Index r = 0; r < 3; ++r)
        for (Index c = 0; c < width; ++c)
          ASSERT_EQ(copy(r, c).bits, Bfloat16::rounded(delta(r, c)).bits);
      std::visit(
          [&](const auto& f) {
            PaddedMatrix<float> d = incoming;
            for (Index r = 0; r < 3; ++r)
              for (Index c = 0; c < width; ++c) {
                const double value = f.value(double(z_copy(r, c)));
                ASSERT_NEAR(double(y(r, c)), value, 1e-6 * std::max(1.0, std::abs(value)));
                const double x = double(from_z ? z_copy(r, c) : y(r, c));
                ASSERT_NEAR(double(delta(r, c)), double(d(r, c)) * f.slope(x), 2e-6);
              }
          },
          activation);
      EXPECT_TRUE(y.padding_is_intact() && delta.padding_is_intact());
    }
}

TEST_F(Pointwise, ALayersOutputsAreThoseOfItsStepsOneByOne) {
  const std::unique_ptr<BatchKernels> batch = samples::make_batch(executor_);
  const Philox random_numbers = Philox::stream(seed_, RandomPurpose::test);
  for (const std::string& name : names_of<Activation>())
    for (Index padding : {0, 4, 5})
      for (Index first_unit : {0, 4, 1003})
        for (Index cols : {1, 3, 64, 133})
          for (float p : {0.0f, 0.4f}) {
            SCOPED_TRACE(name + " " + std::to_string(cols) + " + " + std::to_string(padding) +
                         " from " + std::to_string(first_unit));
            const Activation f = *find_named<Activation>(name);
            DropoutMask mask = name == "SELU" && p > 0
                                   ? DropoutMask::alpha(p, -1.75f, random_numbers, 9, first_unit)
                                   : DropoutMask::inverted(p, random_numbers, 9, first_unit);
            if (first_unit == 0) mask.places = 1 + below(4);
            PaddedMatrix<float> y(17, cols, padding), before(17, cols, 3);
            for (Index r = 0; r < 17; ++r)
              for (Index c = 0; c < cols; ++c) y(r, c) = uniform(-4, 4);
            PaddedMatrix<Bfloat16> bf16(17, cols, padding);
            PaddedMatrix<float> transposed(cols, 17 + padding, padding);
            PaddedMatrix<float> alone = y, expected = y, expected_before(17, cols, 3);
            PaddedMatrix<Bfloat16> expected_bf16(17, cols, padding);
            const PaddedMatrix<float> z = y;
            PaddedMatrix<float> kept(17, cols, padding);
            const bool keeps = slope_from(f) == SlopeFrom::z;
            kernels_->activate(f, mask, y.view(),
                               {before.view(), bf16.view(), transposed.view(),
                                keeps ? kept.view() : MatrixView<float>{}});
            kernels_->activate(f, mask, alone.view(), {});
            if (keeps) {
              EXPECT_TRUE(kept.same_bits(z));
            }
            kernels_->activate(f, expected.view());
            kernels_->copy(expected.view(), expected_before.view());
            if (p > 0) batch->mask(mask, expected_before.view(), expected.view());
            kernels_->cast_to_bf16(expected.view(), expected_bf16.view());
            EXPECT_TRUE(y.same_bits(expected) && alone.same_bits(expected));
            EXPECT_TRUE(before.same_bits(expected_before));
            EXPECT_TRUE(bf16.same_bits(expected_bf16));
            for (Index c = 0; c < cols; ++c)
              for (Index r = 0; r < transposed.cols(); ++r)
                ASSERT_EQ(transposed(c, r), r < 17 ? y(r, c) : 0.0f);
            EXPECT_TRUE(transposed.padding_is_intact());
          }
}

TEST_F(Pointwise, ColumnsAreSummedInRowOrder) {
  for (Index rows : {0, 1, 33, 1000, 3000})
    for (Index width : samples::edge_widths()) {
      PaddedMatrix<float> delta = random(rows, width);
      std::vector<float> sum(std::size_t(width), -1.0f);
      kernels_->sum_columns(delta.view(), 0.125f, samples::view_of(sum));
      for (Index c = 0; c < width; ++c) {
        double expected = 0;
        for (Index r = 0; r < rows; ++r) expected += double(delta(r, c));
        if (samples::sums_like_the_cpu())
          ASSERT_EQ(sum[std::size_t(c)], float(0.125 * expected)) << rows << ' ' << width;
        else
          ASSERT_NEAR(double(sum[std::size_t(c)]), 0.125 * expected,
                      1e-7 * std::abs(expected) + 1e-12)
              << rows << ' ' << width;
      }
    }
}

TEST_F(Pointwise, ColumnSumsDoNotDependOnHowColumnsAreCut) {
  for (Index rows : {200, 5000}) {
    PaddedMatrix<float> delta = random(rows, 70);
    std::vector<float> whole(70), parts(70);
    kernels_->sum_columns(delta.view(), 0.3f, samples::view_of(whole));
    for (const auto& [first, count] : std::vector<std::pair<Index, Index>>{{0, 7}, {7, 1}, {8, 62}})
      kernels_->sum_columns(delta.view().columns(first, count), 0.3f,
                            samples::view_of(parts).range(first, count));
    EXPECT_EQ(whole, parts) << rows;
  }
}

TEST_F(Pointwise, ColumnSumsDoNotDependOnWhatIsSummedWithThem) {
  for (Index rows : {0, 100, 4000}) {
    std::vector<PaddedMatrix<float>> delta;
    std::vector<std::vector<float>> together, alone;
    for (Index width : {4, 70, 0, 1, 512, 33, 64, 100, 3, 256, 40})
      delta.push_back(random(rows + width * (rows > 0 ? 3 : 0), width));
    std::vector<ColumnSum> sums;
    for (PaddedMatrix<float>& one : delta) {
      const Index width = one.view().cols;
      together.emplace_back(std::size_t(width), -1.0f);
      alone.emplace_back(std::size_t(width), -2.0f);
    }
    for (std::size_t i = 0; i < delta.size(); ++i) {
      const float scale = 0.1f * float(i + 1);
      sums.push_back({delta[i].view(), scale, samples::view_of(together[i])});
      kernels_->sum_columns(delta[i].view(), scale, samples::view_of(alone[i]));
    }
    kernels_->sum_columns(sums);
    EXPECT_EQ(together, alone) << rows;
  }
}

TEST_F(Pointwise, Bf16ColumnsAreSummed) {
  for (Index rows : {0, 1, 33, 1000})
    for (Index width : samples::edge_widths()) {
      PaddedMatrix<float> delta = random(rows, width);
      PaddedMatrix<Bfloat16> bf16(rows, width);
      kernels_->cast_to_bf16(delta.view(), bf16.view());
      std::vector<float> sum(std::size_t(width), -1.0f);
      kernels_->sum_columns(MatrixView<const Bfloat16>(bf16.view()), 0.125f, samples::view_of(sum));
      for (Index c = 0; c < width; ++c) {
        double expected = 0;
        for (Index r = 0; r < rows; ++r) expected += double(bf16(r, c).value());
        ASSERT_NEAR(double(sum[std::size_t(c)]), 0.125 * expected,
                    1e-7 * std::max(1.0, std::abs(expected)))
            << rows << ' ' << width;
      }
    }
}

TEST_F(Pointwise, SoftMaxOfRowsAndItsJacobianAgreeWithFloat64) {
  for (Index width : samples::edge_widths()) {
    SCOPED_TRACE(width);
    PaddedMatrix<float> z = random(4, width, -20, 20);
    PaddedMatrix<float> y = z;
    kernels_->softmax_rows(y.view());
    PaddedMatrix<float> dy = random(4, width);
    PaddedMatrix<float> delta = dy;
    kernels_->softmax_rows_backward(y.view(), delta.view());
    for (Index r = 0; r < 4; ++r) {
      double top = double(z(r, 0));
      for (Index c = 0; c < width; ++c) top = std::max(top, double(z(r, c)));
      double total = 0;
      double coupling = 0;
      for (Index c = 0; c < width; ++c) {
        total += std::exp(double(z(r, c)) - top);
        coupling += double(dy(r, c)) * double(y(r, c));
      }
      for (Index c = 0; c < width; ++c) {
        ASSERT_NEAR(double(y(r, c)), std::exp(double(z(r, c)) - top) / total, 3e-7);
        ASSERT_NEAR(double(delta(r, c)), double(y(r, c)) * (double(dy(r, c)) - coupling), 2e-6);
      }
    }
    EXPECT_TRUE(y.padding_is_intact() && delta.padding_is_intact());
  }
}

TEST_F(Pointwise, SoftMaxOfLongRowsSumsToOne) {
  for (Index width : {1024, 1025, 16384, 20001}) {
    SCOPED_TRACE(width);
    PaddedMatrix<float> y = random(3, width, -20, 20);
    y(1, width - 1) = 40.0f;
    kernels_->softmax_rows(y.view());
    PaddedMatrix<float> delta = random(3, width);
    const PaddedMatrix<float> dy = delta;
    kernels_->softmax_rows_backward(y.view(), delta.view());
    for (Index r = 0; r < 3; ++r) {
      double total = 0, slope = 0;
      for (Index c = 0; c < width; ++c) {
        total += double(y(r, c));
        slope += double(delta(r, c));
      }
      EXPECT_NEAR(total, 1.0, 1e-6);
      EXPECT_NEAR(slope, 0.0, 1e-6);  // the outputs' sum stays 1
    }
    EXPECT_GT(y(1, width - 1), 0.99f);
    EXPECT_TRUE(y.padding_is_intact() && delta.padding_is_intact() && !delta.same_bits(dy));
  }
}

TEST_F(Pointwise, LanesDoNotChangeTheBits) {
  const PaddedMatrix<float> z = random(300, 777);
  const auto run = [&](PointwiseKernels& kernels) {
    PaddedMatrix<float> y = z;
    kernels.activate(Tanh{}, y.view());
    kernels.softmax_rows(y.view());
    PaddedMatrix<float> delta = z;
    kernels.softmax_rows_backward(y.view(), delta.view());
    kernels.multiply_slope(Sigmoid{}, y.view(), delta.view());
    PaddedMatrix<float> sum(1, 777);
    kernels.sum_columns(delta.view(), 1.0f, {sum.view().row(0), 777});
    kernels.add(delta.view(), y.view());
    kernels.set_rows({sum.view().row(0), 777}, delta.view().row_range(0, 20));
    return std::vector<PaddedMatrix<float>>{y, delta, sum};
  };
  const std::vector<PaddedMatrix<float>> expected = run(*kernels_);
  for (int lanes : {1, 2, 7}) {
    Executor executor(lanes);
    const std::vector<PaddedMatrix<float>> actual = run(*samples::make_pointwise(executor));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(actual[i].same_bits(expected[i])) << lanes << ' ' << i;
  }
}

TEST_F(Pointwise, ShapesThatDoNotFitAreRefused) {
  PaddedMatrix<float> a(3, 4);
  PaddedMatrix<float> b(4, 3);
  EXPECT_THROW(kernels_->add(a.view(), b.view()), ShapeError);
  EXPECT_THROW(kernels_->copy(a.view(), b.view()), ShapeError);
  EXPECT_THROW(kernels_->cast_to_bf16(a.view(), PaddedMatrix<Bfloat16>(4, 3).view()), ShapeError);
  EXPECT_THROW(kernels_->multiply_slope(Linear{}, a.view(), b.view()), ShapeError);
  EXPECT_THROW(
      kernels_->multiply_slope(Linear{}, a.view(), a.view(), PaddedMatrix<Bfloat16>(4, 3).view()),
      ShapeError);
  EXPECT_THROW(kernels_->activate(Linear{}, {}, a.view(), {.before_dropout = b.view()}),
               ShapeError);
  EXPECT_THROW(kernels_->activate(Linear{}, {}, a.view(), {.transposed = a.view()}), ShapeError);
  EXPECT_THROW(kernels_->sum_columns(a.view(), 1.0f, {nullptr, 3}), ShapeError);
  const ColumnSum wrong{a.view(), 1.0f, {nullptr, 3}};
  EXPECT_THROW(kernels_->sum_columns({&wrong, 1}), ShapeError);
}

// Word by word, without checksum()'s loop.
std::uint64_t expected_checksum(const std::vector<std::byte>& bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < 4 && i + b < bytes.size(); ++b)
      word |= std::uint32_t(bytes[i + b]) << (8 * b);
    sum += checksum_term(word, i / 4);
  }
  return sum;
}

TEST_F(Pointwise, ChecksumFindsEveryFlippedBit) {
  Executor three_lanes(3);
  const auto with_lanes = samples::make_pointwise(three_lanes);
  for (std::size_t size : {0, 1, 3, 4, 5, 127, 128, 1000, 4096, 3000001}) {
    std::vector<std::byte> bytes(size);
    for (std::byte& b : bytes) b = std::byte(random_());
    const auto sum_of = [&](PointwiseKernels& kernels) {
      std::uint64_t sum = 7;  // what is there is added to
      kernels.checksum({bytes.data(), Index(bytes.size())}, &sum);
      return sum - 7;
    };
    const std::uint64_t sum = sum_of(*kernels_);
    EXPECT_EQ(sum, expected_checksum(bytes)) << size;
    EXPECT_EQ(sum, sum_of(*with_lanes)) << size;
    for (int trial = 0; trial < 8 && size > 0; ++trial) {
      std::byte& flipped = bytes[random_() % size];
      const std::byte bit = std::byte(1) << int(random_() % 8);
      flipped ^= bit;
      EXPECT_NE(sum_of(*kernels_), sum) << size;
      flipped ^= bit;
    }
  }
}

TEST_F(Pointwise, ChecksumTellsPlacesApart) {
  std::array<std::uint32_t, 4> words = {1, 2, 0, 0};
  const auto sum_of = [&](Index bytes) {
    std::uint64_t sum = 0;
    kernels_->checksum({reinterpret_cast<const std::byte*>(words.data()), bytes}, &sum);
    return sum;
  };
  const std::uint64_t sum = sum_of(16);
  EXPECT_NE(sum_of(12), sum);  // one zero fewer
  std::swap(words[0], words[1]);
  EXPECT_NE(sum_of(16), sum);
}

// Kernels may compare words in place of the numbers that they are.
TEST_F(Pointwise, WordsAreKeptAsTheirNumbersAre) {
  for (int round = 0; round < 2000; ++round) {
    const float smallest = 0x1p-24f, drawn = uniform(0, 1);
    const float p =
        round < 2 ? std::abs(float(round) - smallest) : std::clamp(drawn, smallest, 1 - smallest);
    const DropoutMask mask = DropoutMask::inverted(p, {}, 0, 0);
    const std::uint32_t least = mask.least_kept();
    EXPECT_GE(Philox::uniform(least), p);
    EXPECT_LT(Philox::uniform(least - 1), p);
    for (const std::uint32_t word : {std::uint32_t(random_()), least + 255, least - 255})
      EXPECT_EQ(word >= least, Philox::uniform(word) >= p) << p << ", " << word;
  }
}

}  // namespace
}  // namespace norn
