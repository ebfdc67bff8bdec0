// SPDX-License-Identifier: Apache-2.0
// Products whose rows stand alone, in each precision, from random shapes: a row has the same bits
// in batches of all sizes; and the scores that are compared inside the product are those that are
// written.
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/select/row_scores.h"
#include "kernels/cuda/select/top_k_product.h"
#include "kernels/dense.h"
#include "kernels/pointwise.h"
#include "kernels/select.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

/// NORN_BATCHINGS: batches for each shape.
int batchings() {
  const char* word = std::getenv("NORN_BATCHINGS");
  return word == nullptr ? 12 : std::atoi(word);
}

class RowProductsTest : public ::testing::TestWithParam<Precision> {
 protected:
  struct Matrix {
    Index rows, cols, stride;
    std::vector<float> host;
    Buffer<float> gpu;
    Buffer<Bfloat16> bf16;
    float* row(Index r) { return host.data() + r * stride; }
    MatrixView<float> view() { return {gpu.data(), rows, cols, stride}; }
    DenseOperand operand() {
      DenseOperand all(view());
      if (!bf16.empty()) all.bf16 = {bf16.data(), rows, cols, stride};
      return all;
    }
  };
  Matrix empty(Index rows, Index cols, Index stride) {
    Matrix m{rows, cols, stride, {}, Buffer<float>(std::max<Index>(1, rows * stride), memory_), {}};
    m.host.resize(std::size_t(m.gpu.size()));
    return m;
  }
  void upload(Matrix& m, bool with_copy) {
    m.gpu.write(m.host.data(), m.gpu.size());
    if (!with_copy || GetParam() != Precision::bf16) return;
    m.bf16 = Buffer<Bfloat16>(m.gpu.size(), memory_);
    pointwise_->cast_to_bf16(m.view(), {m.bf16.data(), m.rows, m.cols, m.stride});
  }
  Matrix random(Index rows, Index cols, Index stride, bool with_copy) {
    Matrix m = empty(rows, cols, stride);
    for (float& value : m.host) value = normal_(random_);
    upload(m, with_copy);
    return m;
  }
  Index below(Index count) { return Index(random_() % std::uint64_t(count)); }

  /// How a product is made. Strides say whether rows begin at 16 bytes.
  struct Case {
    Index units, depth, depth_stride, unit_stride, block;
    int product;  ///< 0: affine, 1: added, 2: weights by source
    bool with_copies;
  };
  Case draw_case() {
    Case c{};
    c.units = below(4) == 0 ? 1 + below(20'011) : 1 + below(1500);
    c.depth = 1 + below(1024);
    if (below(2)) c.depth = (c.depth + 7) / 8 * 8;
    if (below(3) == 0) c.depth = std::min<Index>(c.depth, 256);
    c.depth_stride = below(3) ? (c.depth + 7) / 8 * 8 : c.depth;
    c.unit_stride = (c.units + 7) / 8 * 8;
    if (below(4) == 0) c.unit_stride = c.units;
    c.product = int(below(3));
    c.block = c.product == 2 ? 0 : below(2) * 32 * (1 + below(8));
    c.with_copies = below(4) != 0;
    return c;
  }
  std::vector<float> run(const Case& c, Matrix& all_x, Matrix& w, Matrix& bias,
                         const std::vector<Index>& examples) {
    const Index rows = Index(examples.size());
    Matrix x = empty(rows, c.depth, c.depth_stride);
    for (Index r = 0; r < rows; ++r)
      std::copy_n(all_x.row(examples[std::size_t(r)]), c.depth, x.row(r));
    upload(x, c.with_copies);
    Matrix z = empty(rows, c.units, c.unit_stride);
    std::fill(z.host.begin(), z.host.end(), 0.5f);
    z.gpu.write(z.host.data(), z.gpu.size());
    DenseProducts& products = dense_->by_row();
    if (c.product == 0)
      products.affine(x.operand(), w.operand(), {bias.gpu.data(), c.units}, z.view(), c.block);
    else if (c.product == 1)
      products.multiply_transposed(x.operand(), w.operand(), z.view(), Existing::add, c.block);
    else
      products.multiply(x.operand(), w.operand(), z.view());
    cuda::check(cudaDeviceSynchronize(), "product");
    z.gpu.read(z.host.data(), z.gpu.size());
    std::vector<float> values;
    for (Index r = 0; r < rows; ++r) values.insert(values.end(), z.row(r), z.row(r) + c.units);
    return values;
  }

  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
  std::normal_distribution<float> normal_{0.0f, 1.0f};
  cuda::DeviceMemory memory_{nullptr, true};
  const cuda::Stream stream_{nullptr, memory_, GetParam(), 132};
  const std::unique_ptr<PointwiseKernels> pointwise_ = cuda::make_pointwise(stream_);
  const std::unique_ptr<DenseKernels> dense_ = cuda::make_dense(stream_);
};

TEST_P(RowProductsTest, HaveTheSameBitsInBatchesOfAllSizes) {
  constexpr Index kExamples = 64;
  for (int number = 0; number < 30; ++number) {
    const Case c = draw_case();
    SCOPED_TRACE("units " + std::to_string(c.units) + " (stride " + std::to_string(c.unit_stride) +
                 "), depth " + std::to_string(c.depth) + " (stride " +
                 std::to_string(c.depth_stride) + "), blocks of " + std::to_string(c.block) +
                 ", product " + std::to_string(c.product) + (c.with_copies ? ", copies" : ""));
    Matrix x = random(kExamples, c.depth, c.depth_stride, c.with_copies);
    Matrix w = c.product == 2 ? random(c.depth, c.units, c.unit_stride, c.with_copies)
                              : random(c.units, c.depth, c.depth_stride, c.with_copies);
    Matrix bias = random(1, c.units, c.units, false);
    std::vector<Index> examples(static_cast<std::size_t>(kExamples));
    std::iota(examples.begin(), examples.end(), Index(0));
    const std::vector<float> all = run(c, x, w, bias, examples);
    for (int batching = 0; batching < batchings(); ++batching) {
      const Index batch = batching < 4 ? batching + 1 : 1 + below(1024);
      examples.resize(std::size_t(batch));
      for (Index& e : examples) e = below(kExamples);
      const std::vector<float> z = run(c, x, w, bias, examples);
      int different = 0;
      for (Index r = 0; r < batch; ++r)
        different +=
            std::memcmp(z.data() + r * c.units, all.data() + examples[std::size_t(r)] * c.units,
                        std::size_t(c.units) * sizeof(float)) != 0;
      EXPECT_EQ(different, 0) << "rows of " << batch;
    }
  }
}

TEST_P(RowProductsTest, ScoresThatAreComparedAreThoseThatAreWritten) {
  if (GetParam() != Precision::bf16) return;  // others are never compared in the product
  for (const std::array<Index, 3>& shape : {std::array<Index, 3>{300, 20'011, 96},
                                            {1, 5000, 256},
                                            {37, 17'000, 8},
                                            {70, 40'001, 136}}) {
    const Index examples = shape[0], units = shape[1], width = shape[2];
    SCOPED_TRACE(units);
    Matrix x = random(examples, width, width, true), w = random(units, width, width, true);
    Matrix bias = random(1, units, units, false), z = empty(examples, units, units);
    constexpr Index kListed = 50;
    dense_->by_row().affine(x.operand(), w.operand(), {bias.gpu.data(), units}, z.view());
    TopK found, written;
    const auto select = cuda::make_select(stream_);
    select->begin(examples, kListed, found);
    select->begin(examples, kListed, written);
    Buffer<std::int64_t> gave_up = Buffer<std::int64_t>::zeros(1, memory_);
    cuda::TopKProduct product(stream_);
    ASSERT_TRUE(cuda::TopKProduct::fits(x.operand().bf16, w.operand().bf16, kListed));
    ASSERT_TRUE(cuda::fits_row_scores(x.operand().bf16, w.operand().bf16));
    product.find(x.operand().bf16, w.operand().bf16, {bias.gpu.data(), units}, 0, {}, found,
                 gave_up.data());
    select->merge(z.view(), 0, {}, written);
    cuda::check(cudaDeviceSynchronize(), "search");
    const auto fetched = [&](const auto* data) {
      std::vector<std::remove_cvref_t<decltype(*data)>> values(std::size_t(examples * kListed));
      memory_.read(data, values.data(), values.size() * sizeof(values[0]));
      return values;
    };
    EXPECT_EQ(fetched(found.score.view().data), fetched(written.score.view().data));
    EXPECT_EQ(fetched(found.unit.view().data), fetched(written.unit.view().data));
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, RowProductsTest,
                         testing::Values(Precision::fp32, Precision::tf32, Precision::bf16),
                         [](const testing::TestParamInfo<Precision>& info) {
                           return std::string(name_of(info.param));
                         });

}  // namespace
}  // namespace norn
