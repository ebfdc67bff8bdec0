// SPDX-License-Identifier: Apache-2.0
// Sums of deltas: the same bits wherever the partial sums are kept and however they come.
#include "src/nn/delta_sum.h"

#include "tests/support/device_like_memory.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

using test::DeviceLikeMemory;

constexpr Index kExamples = 5;
constexpr Index kUnits = 7;

class DeltaSumTest : public testing::Test {
 protected:
  std::vector<Matrix<float>> random_partial_sums(Index count) {
    std::vector<Matrix<float>> partial_sums;
    for (Index i = 0; i < count; ++i) {
      partial_sums.emplace_back(kExamples, kUnits);
      for (Index e = 0; e < partial_sums.back().view().size(); ++e)
        partial_sums.back().view().data[e] = std::normal_distribution<float>(0.0f, 1.0f)(random_);
    }
    return partial_sums;
  }
  static DeltaSum sum_in(Memory& memory, const SumShape& shape) {
    DeltaSum sum(shape, memory.is_host());
    sum.for_each_tensor([&](auto& array) { array.allocate(memory); });
    sum.initialise(memory);
    return sum;
  }
  /// Takes the sum of the partial sums, which come `at_once` at a time.
  std::vector<float> sum(DeltaSum& sum, std::vector<Matrix<float>>& partial_sums, Index at_once) {
    SumFlags flags;
    add(sum, partial_sums, at_once, flags);
    Matrix<float> result(kExamples, kUnits);
    sum.take(compute_, 0, result.view());
    EXPECT_EQ(flags.out_of_range, 0);
    return {result.view().data, result.view().data + kExamples * kUnits};
  }
  void add(DeltaSum& sum, std::vector<Matrix<float>>& partial_sums, Index at_once,
           SumFlags& flags) {
    sum.begin(kExamples, &flags);
    for (Index i = 0; i < Index(partial_sums.size());) {
      const Index wanted = std::min(at_once, Index(partial_sums.size()) - i);
      const SumSlots slots = sum.next_slots(compute_, wanted);
      EXPECT_LE(slots.count, wanted);
      for (const MatrixView<float>& slot : slots.all()) {
        EXPECT_EQ(slot.data - slots.of[0].data,
                  (&slot - slots.all().data()) * kExamples * slot.stride);
        for (Index r = 0; r < kExamples; ++r)
          std::copy_n(partial_sums[std::size_t(i)].view().row(r), kUnits, slot.row(r));
        ++i;
      }
      for (const MatrixView<float>& slot : slots.all()) sum.add(compute_, 0, slot);
      if (slots.count == 0) sum.add(compute_, 0, partial_sums[std::size_t(i++)].view());
    }
  }

  std::mt19937 random_{std::random_device{}()};
  Executor executor_{1};
  Kernels kernels_ = make_cpu_kernels(executor_);
  DeviceLikeMemory device_;
  Compute compute_{executor_, kernels_, device_};
};

TEST_F(DeltaSumTest, HasTheSameBitsHoweverPartialSumsCome) {
  for (Index count : {1, 3, 4, 5, 9}) {
    SCOPED_TRACE(count);
    std::vector<Matrix<float>> partial_sums = random_partial_sums(count);
    DeltaSum on_host = sum_in(host_memory(), {kExamples, kUnits, count, false});
    const std::vector<float> expected = sum(on_host, partial_sums, 1);
    for (Index e = 0; e < kExamples * kUnits; ++e) {
      double exact = 0.0;
      for (Matrix<float>& term : partial_sums) exact += double(term.view().data[e]);
      ASSERT_NEAR(expected[std::size_t(e)], exact, 1e-6);
    }
    for (bool is_reduced : {false, true})
      for (Index at_once : {1, 2, 3, 4, 9}) {
        DeltaSum on_device = sum_in(device_, {kExamples, kUnits, count, is_reduced});
        for (int step = 0; step < 2; ++step)
          EXPECT_EQ(sum(on_device, partial_sums, at_once), expected) << at_once;
      }
  }
}

// A rank takes the rows of its own examples, of large terms and of small ones.
TEST_F(DeltaSumTest, GivesTheRowsOfSomeExamples) {
  for (Index count : {1, 4, 6})
    for (const float factor : {1.0f, 1e8f})
      for (bool is_reduced : {false, true}) {
        SCOPED_TRACE(testing::Message() << count << ' ' << factor << ' ' << is_reduced);
        std::vector<Matrix<float>> partial_sums = random_partial_sums(count);
        for (Matrix<float>& term : partial_sums)
          for (Index e = 0; e < kExamples * kUnits; ++e) term.view().data[e] *= factor;
        DeltaSum on_host = sum_in(host_memory(), {kExamples, kUnits, count, false});
        DeltaSum on_device = sum_in(device_, {kExamples, kUnits, count, is_reduced});
        // What a step leaves in rows that it did not take must not be in the next one.
        for (int step = 0; step < 2; ++step) {
          const std::vector<float> expected = sum(on_host, partial_sums, 1);
          SumFlags flags;
          add(on_device, partial_sums, 2, flags);
          Matrix<float> rows(2, kUnits);
          on_device.take_rows(compute_, 1 + step, rows.view());
          EXPECT_EQ(flags.out_of_range, 0);
          for (Index e = 0; e < 2 * kUnits; ++e)
            ASSERT_EQ(rows.view().data[e], expected[std::size_t((1 + step) * kUnits + e)]) << e;
        }
      }
}

TEST_F(DeltaSumTest, NeedsNoAccumulatorsForFourPartialSumsOfOneRank) {
  const Index accumulators = 2 * kExamples * kUnits * Index(sizeof(std::int64_t));
  const auto bytes = [&](Index partial_sums, bool is_reduced) {
    const SumShape shape{kExamples, kUnits, partial_sums, is_reduced};
    Index all = 0;
    DeltaSum(shape, false).for_each_tensor([&](auto& array) {
      if (array.tensor().rows > 1) all += array.tensor().bytes();
    });
    return all;
  };
  const Index slot = bytes(1, false);
  EXPECT_LT(slot, accumulators);
  EXPECT_EQ(bytes(4, false), 4 * slot);
  EXPECT_EQ(bytes(4, true), 4 * slot + accumulators);
  EXPECT_EQ(bytes(5, false), 4 * slot + accumulators);
}

}  // namespace
}  // namespace norn
