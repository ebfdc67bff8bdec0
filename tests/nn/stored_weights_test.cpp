// SPDX-License-Identifier: Apache-2.0
// Weights in halves for those that want floats: some rows at a time, with the bits of floats.
#include "src/nn/stored_weights.h"

#include "norn/base/error.h"

#include <bit>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

class StoredWeightsTest : public ::testing::Test {
 protected:
  StoredWeightsTest() { RecordProperty("seed", int(seed_ & 0x7fffffff)); }

  Weights made(Index sources, Index units, WeightStorage storage, bool by_source = false) {
    WeightShape shape;
    shape.sources = sources;
    shape.destinations = units;
    shape.mine = {0, by_source ? sources : units};
    shape.by_source = by_source;
    shape.by_destination = !by_source;
    Weights weights(shape, 2, true, BlockRule{}, storage);
    weights.for_each_tensor([](auto& array) { array.allocate(host_memory()); });
    return weights;
  }
  void fill(Matrix<float>& m) {
    std::normal_distribution<float> normal;
    for (Index i = 0; i < m.view().size(); ++i) m.view().data[i] = normal(random_);
  }
  static Matrix<float> floats_of(Weights& weights) {
    Matrix<float> all(weights.rows(), weights.cols());
    read_weights(host_memory(), weights.values(), all.view());
    return all;
  }
  static void expect_same(const Matrix<float>& a, const Matrix<float>& b) {
    ASSERT_EQ(std::pair(a.rows(), a.cols()), std::pair(b.rows(), b.cols()));
    for (Index i = 0; i < a.view().size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(a.view().data[i]),
                std::bit_cast<std::uint32_t>(b.view().data[i]))
          << i;
  }

  const unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  Executor executor_{2};
  Kernels kernels_ = make_cpu_kernels(executor_);
  const Compute compute_{executor_, kernels_, host_memory()};
};

constexpr WeightStorage kStorages[] = {WeightStorage::floats, WeightStorage::floats_and_bf16,
                                       WeightStorage::halves};

TEST_F(StoredWeightsTest, ComeBackAsTheyWereWritten) {
  for (const WeightStorage storage : kStorages)
    for (const auto& [sources, units] :
         {std::pair<Index, Index>{1, 1}, {33, 127}, {0, 5}, {5, 0}}) {
      Weights weights = made(sources, units, storage);
      Matrix<float> written(units, sources);
      fill(written);
      write_weights(host_memory(), written.view(), weights.values());
      expect_same(floats_of(weights), written);
    }
}

// More than fit in one run, in all orders.
TEST_F(StoredWeightsTest, AreEditedByRows) {
  for (const WeightStorage storage : kStorages) {
    Weights weights = made(1000, 5000, storage);
    Matrix<float> expected(5000, 1000);
    fill(expected);
    write_weights(host_memory(), expected.view(), weights.values());
    Index next = 0;
    int runs = 0;
    edit_rows(compute_, weights.values(), [&](Index first, MatrixView<float> rows) {
      ASSERT_EQ(first, next);
      ASSERT_EQ(rows.cols, 1000);
      for (Index r = 0; r < rows.rows; ++r)
        for (Index c = 0; c < rows.cols; ++c) {
          ASSERT_EQ(rows(r, c), expected.view()(first + r, c));
          rows(r, c) *= 1.0f + float(r % 3);
        }
      for (Index r = 0; r < rows.rows; ++r)
        for (Index c = 0; c < rows.cols; ++c) expected.view()(first + r, c) = rows(r, c);
      next += rows.rows;
      ++runs;
    });
    EXPECT_EQ(next, 5000);
    EXPECT_EQ(runs, storage == WeightStorage::halves ? 3 : 1);
    expect_same(floats_of(weights), expected);
  }
}

TEST_F(StoredWeightsTest, HaveTheNormLimitOfFloats) {
  Weights floats = made(70, 300, WeightStorage::floats),
          halves = made(70, 300, WeightStorage::halves);
  Matrix<float> values(300, 70);
  fill(values);
  for (Weights* weights : {&floats, &halves}) {
    write_weights(host_memory(), values.view(), weights->values());
    clip_row_norms(compute_, 8.0f, weights->values_of({100, 300}));
  }
  expect_same(floats_of(halves), floats_of(floats));
}

// What lies behind the last unit are zeros, for products that take runs of eight.
TEST_F(StoredWeightsTest, OperandIsTheUpperHalf) {
  for (const bool by_source : {false, true}) {
    Weights weights = made(24, 13, WeightStorage::halves, by_source);
    Matrix<float> values(weights.rows(), weights.cols());
    fill(values);
    write_weights(host_memory(), values.view(), weights.values());
    const DenseOperand operand = weights.operand();
    ASSERT_TRUE(operand.is_bf16_alone());
    ASSERT_EQ(operand.rows(), weights.rows());
    for (Index r = 0; r < weights.rows(); ++r)
      for (Index c = 0; c < weights.cols(); ++c)
        ASSERT_EQ(operand.bf16(r, c).bits, FloatHalves::of(values.view()(r, c)).high.bits);
    EXPECT_EQ(operand.zero_rows, by_source ? 0 : 3);
    for (Index r = 0; r < operand.zero_rows; ++r)
      for (Index c = 0; c < operand.cols(); ++c)
        ASSERT_EQ(operand.bf16(operand.rows() + r, c).bits, 0);
    const Connection connection(weights, false, false);
    const Range units = by_source ? Range{4, 11} : Range{5, 13};
    const DenseOperand part = connection.operand(units);
    EXPECT_TRUE(part.is_bf16_alone());
    EXPECT_EQ(part.rows(), units.count());
    EXPECT_EQ(part.bf16.data, operand.bf16.row(units.begin));
    EXPECT_EQ(part.zero_rows, by_source ? 0 : 3);
  }
}

TEST_F(StoredWeightsTest, TakeFourBytesAWeight) {
  for (const WeightStorage storage : kStorages) {
    Weights weights = made(16, 24, storage);
    Index bytes = 0;
    weights.for_each_tensor([&](auto& array) {
      if (array.tensor().purpose == Purpose::parameter) bytes += array.tensor().bytes();
    });
    EXPECT_EQ(bytes, 4 * 16 * 24);
  }
}

}  // namespace
}  // namespace norn
