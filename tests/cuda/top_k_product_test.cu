// SPDX-License-Identifier: Apache-2.0
// The best units of products that are never written, against a full sort. Operands are small
// integers, so that scores are exact and ties many.
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/select/top_k_product.h"
#include "kernels/select.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

struct Problem {
  Index examples;
  Index units;
  Index width;
  Index k;
  Index first_unit = 0;
};

class TopKProductTest : public ::testing::Test {
 protected:
  static constexpr Index kPadding = 8;

  void draw(const Problem& problem, int largest) {
    p_ = problem;
    std::uniform_int_distribution<int> whole(-largest, largest);
    const auto fill = [&](std::vector<float>& values, Index rows) {
      values.resize(std::size_t(rows * p_.width));
      for (float& value : values) value = float(whole(random_));
    };
    fill(x_, p_.examples);
    fill(w_, p_.units);
    bias_.resize(std::size_t(p_.units));
    for (float& value : bias_) value = float(whole(random_));
    row_begin_.assign(1, 0);
    column_.clear();
    for (Index r = 0; r < p_.examples; ++r) {
      std::set<Column> columns;
      for (int i = 0; i < 40; ++i)
        columns.insert(Column(p_.first_unit + Index(random_() % std::uint64_t(p_.units))));
      column_.insert(column_.end(), columns.begin(), columns.end());
      row_begin_.push_back(RowOffset(column_.size()));
    }
  }

  template <typename T>
  Buffer<T> on_gpu(const std::vector<T>& values) {
    Buffer<T> buffer(Index(values.size()), memory_);
    buffer.write(values.data(), buffer.size());
    return buffer;
  }
  /// Rows of bfloat16 with padding between.
  Buffer<Bfloat16> padded_on_gpu(const std::vector<float>& values, Index rows) {
    std::vector<Bfloat16> padded(std::size_t(rows * (p_.width + kPadding)));
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < p_.width; ++c)
        padded[std::size_t(r * (p_.width + kPadding) + c)] =
            Bfloat16::rounded(values[std::size_t(r * p_.width + c)]);
    return on_gpu(padded);
  }

  /// Runs find(); returns whether it gave up.
  bool find() {
    Buffer<Bfloat16> x = padded_on_gpu(x_, p_.examples);
    Buffer<Bfloat16> w = padded_on_gpu(w_, p_.units);
    Buffer<float> bias = on_gpu(bias_);
    Buffer<RowOffset> row_begin = on_gpu(row_begin_);
    Buffer<Column> column = on_gpu(column_);
    Buffer<std::int64_t> gave_up = on_gpu(std::vector<std::int64_t>{0});
    const Index stride = p_.width + kPadding;
    const MatrixView<const Bfloat16> x_view{x.data(), p_.examples, p_.width, stride};
    const MatrixView<const Bfloat16> w_view{w.data(), p_.units, p_.width, stride};
    EXPECT_TRUE(cuda::TopKProduct::fits(x_view, w_view, p_.k));
    const CsrView excluded{row_begin.data(), column.data(), nullptr, p_.examples,
                           p_.first_unit + p_.units};
    TopK best;
    select_->begin(p_.examples, p_.k, best);
    product_.find(x_view, w_view, bias.view(), p_.first_unit, {excluded, {}}, best, gave_up.data());
    std::int64_t result = -1;
    gave_up.read(&result, 1);
    score_.resize(std::size_t(p_.examples * p_.k));
    unit_.resize(score_.size());
    count_.resize(std::size_t(p_.examples));
    memory_.read(best.score.view().data, score_.data(), score_.size() * sizeof(float));
    memory_.read(best.unit.view().data, unit_.data(), unit_.size() * sizeof(Index));
    best.count.read(count_.data(), p_.examples);
    return result != 0;
  }

  float expected_score(Index r, Index unit) const {
    float sum = bias_[std::size_t(unit)];
    for (Index i = 0; i < p_.width; ++i)
      sum += x_[std::size_t(r * p_.width + i)] * w_[std::size_t(unit * p_.width + i)];
    return sum;
  }

  void expect_best() const {
    const Index step = p_.examples * p_.units > 10'000'000 ? 37 : 1;  // to be done in seconds
    for (Index r = 0; r < p_.examples; r += step) {
      std::vector<std::pair<float, Index>> all;  // the score's negative, so that pairs ascend
      for (Index unit = 0; unit < p_.units; ++unit)
        if (!std::binary_search(column_.begin() + row_begin_[std::size_t(r)],
                                column_.begin() + row_begin_[std::size_t(r) + 1],
                                Column(p_.first_unit + unit)))
          all.emplace_back(-expected_score(r, unit), p_.first_unit + unit);
      const Index count = std::min(p_.k, Index(all.size()));
      std::partial_sort(all.begin(), all.begin() + count, all.end());
      ASSERT_EQ(count_[std::size_t(r)], count) << "row " << r;
      for (Index i = 0; i < count; ++i) {
        ASSERT_EQ(unit_[std::size_t(r * p_.k + i)], all[std::size_t(i)].second)
            << "row " << r << " rank " << i;
        ASSERT_EQ(score_[std::size_t(r * p_.k + i)], -all[std::size_t(i)].first);
      }
    }
  }

  std::mt19937_64 random_{std::random_device{}()};
  Problem p_{};
  std::vector<float> x_, w_, bias_;
  std::vector<RowOffset> row_begin_;
  std::vector<Column> column_;
  std::vector<float> score_;
  std::vector<Index> unit_, count_;
  cuda::DeviceMemory memory_{nullptr, false};
  cuda::Stream stream_{nullptr, memory_, Precision::bf16, 132};
  std::unique_ptr<SelectKernels> select_ = cuda::make_select(stream_);
  cuda::TopKProduct product_{stream_};
};

TEST_F(TopKProductTest, AgreesWithAFullSort) {
  for (const Problem& problem :
       {Problem{300, 21000, 96, 20}, Problem{5, 999, 256, 100}, Problem{256, 30001, 64, 1},
        Problem{1, 5000, 8, 128}, Problem{70, 40000, 256, 100, 12345}, Problem{260, 150000, 136, 3},
        Problem{3, 3, 16, 5}}) {
    SCOPED_TRACE(std::to_string(problem.examples) + " x " + std::to_string(problem.units) + " x " +
                 std::to_string(problem.width) + ", K " + std::to_string(problem.k));
    for (int largest : {1, 16}) {
      draw(problem, largest);
      EXPECT_FALSE(find());
      expect_best();
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(TopKProductTest, GivesUpWhenScoresRiseWithTheUnit) {
  draw({2, 20000, 8, 10}, 1);
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = 1.0f;
  for (std::size_t unit = 0; unit < bias_.size(); ++unit) bias_[unit] = float(unit);
  EXPECT_TRUE(find());
}

}  // namespace
}  // namespace norn
