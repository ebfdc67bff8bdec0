// SPDX-License-Identifier: Apache-2.0
// Dense products whose rows stand alone: a row has the same bits alone, in any company and in any
// place; on the CPU they are those of eight chains of fused multiply-adds for each run of the
// depth.
#include "kernels/cpu/dense_rows.h"

#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include <fmt/format.h>

namespace norn {
namespace {

using samples::PaddedMatrix;

/// One of the three products with operands of its own.
enum class Product { affine, added, of_sources };

struct Shape {
  Index units, depth, block;
  Product product;
};

class DenseRowsTest : public samples::RandomTest {
 protected:
  PaddedMatrix<float> random_matrix(Index rows, Index cols) {
    PaddedMatrix<float> m(rows, cols);
    samples::fill_normal(m.view(), random_);
    return m;
  }
  struct Operands {
    Operands(DenseRowsTest& test, const Shape& of, Index examples)
        : shape(of),
          x(test.random_matrix(examples, of.depth)),
          w(of.product == Product::of_sources ? test.random_matrix(of.depth, of.units)
                                              : test.random_matrix(of.units, of.depth)),
          bias(test.random_matrix(1, of.units)),
          start(test.random_matrix(examples, of.units)) {}
    float weight(Index unit, Index k) {
      return shape.product == Product::of_sources ? w(k, unit) : w(unit, k);
    }
    float first(Index example, Index unit) {
      if (shape.product == Product::affine) return bias(0, unit);
      return shape.product == Product::added ? start(example, unit) : 0.0f;
    }
    Shape shape;
    PaddedMatrix<float> x, w, bias, start;
  };

  static float sum_of_chains(Operands& operands, Index example, Index unit);

  /// The product of these rows of x, in this order.
  static std::vector<float> run(DenseProducts& products, Operands& given,
                                const std::vector<Index>& examples) {
    const Shape& shape = given.shape;
    const Index rows = Index(examples.size());
    PaddedMatrix<float> x(rows, shape.depth), z(rows, shape.units);
    for (Index r = 0; r < rows; ++r) {
      const Index e = examples[std::size_t(r)];
      std::copy_n(given.x.view().row(e), shape.depth, x.view().row(r));
      if (shape.product == Product::added)
        std::copy_n(given.start.view().row(e), shape.units, z.view().row(r));
    }
    if (shape.product == Product::affine)
      products.affine(x.view(), given.w.view(), {given.bias.view().row(0), shape.units}, z.view(),
                      shape.block);
    else if (shape.product == Product::added)
      products.multiply_transposed(x.view(), given.w.view(), z.view(), Existing::add, shape.block);
    else
      products.multiply(x.view(), given.w.view(), z.view());
    EXPECT_TRUE(z.padding_is_intact());
    std::vector<float> all;
    for (Index r = 0; r < rows; ++r)
      all.insert(all.end(), z.view().row(r), z.view().row(r) + shape.units);
    return all;
  }

  std::vector<Index> some_examples(Index count, Index of) {
    std::vector<Index> examples(static_cast<std::size_t>(count));
    for (Index& e : examples) e = below(of);
    return examples;
  }

  std::vector<Shape> shapes() {
    std::vector<Shape> all;
    for (const Product product : {Product::affine, Product::added, Product::of_sources})
      for (const auto& [units, depth] :
           std::vector<std::pair<Index, Index>>{{1, 1},
                                                {7, 3},
                                                {16, 128},
                                                {65, 129},
                                                {130, 1024},
                                                {515, 77},
                                                {1 + below(700), 1 + below(600)}})
        all.push_back({units, depth, product == Product::of_sources ? 0 : below(3) * 32, product});
    return all;
  }
};

TEST_F(DenseRowsTest, RowsHaveTheSameBitsAloneAndInAnyCompany) {
  constexpr Index kExamples = 40;
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  DenseProducts& products = kernels->by_row();
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(fmt::format("{} units, depth {}, blocks of {}, product {}", shape.units,
                             shape.depth, shape.block, int(shape.product)));
    Operands operands(*this, shape, kExamples);
    std::vector<Index> each(static_cast<std::size_t>(kExamples));
    std::iota(each.begin(), each.end(), Index(0));
    std::vector<float> alone;
    for (const Index e : each) {
      const std::vector<float> row = run(products, operands, {e});
      alone.insert(alone.end(), row.begin(), row.end());
    }
    const auto row_of = [&](const std::vector<float>& all, Index r) {
      return all.data() + r * shape.units;
    };
    for (const Index batch : {Index(2), Index(3), Index(17), Index(256), 1 + below(700)}) {
      const std::vector<Index> examples = some_examples(batch, kExamples);
      const std::vector<float> z = run(products, operands, examples);
      for (Index r = 0; r < batch; ++r)
        ASSERT_EQ(std::memcmp(row_of(z, r), row_of(alone, examples[std::size_t(r)]),
                              std::size_t(shape.units) * sizeof(float)),
                  0)
            << "row " << r << " of " << batch;
    }
  }
}

TEST_F(DenseRowsTest, RowsAgreeWithFloat64) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(fmt::format("{} units, depth {}, product {}", shape.units, shape.depth,
                             int(shape.product)));
    const Index examples = 1 + below(90);
    Operands operands(*this, shape, examples);
    std::vector<Index> each(static_cast<std::size_t>(examples));
    std::iota(each.begin(), each.end(), Index(0));
    const std::vector<float> z = run(kernels->by_row(), operands, each);
    for (Index r = 0; r < examples; ++r)
      for (Index u = 0; u < shape.units; ++u) {
        double sum = double(operands.first(r, u)), magnitude = std::abs(sum);
        for (Index k = 0; k < shape.depth; ++k) {
          const double term = double(operands.x(r, k)) * double(operands.weight(u, k));
          sum += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(double(z[std::size_t(r * shape.units + u)]), sum, 2e-6 * magnitude);
      }
  }
}

TEST_F(DenseRowsTest, BitsDoNotDependOnLanes) {
  Operands operands(*this, {700, 300, 0, Product::affine}, 600);
  std::vector<Index> each(600);
  std::iota(each.begin(), each.end(), Index(0));
  samples::expect_same_bits_however_run([&](Executor& executor) {
    const auto kernels = samples::make_dense(executor);
    return run(kernels->by_row(), operands, each);
  });
}

TEST_F(DenseRowsTest, NothingIsASumOfNothing) {
  Executor executor(2);
  const auto kernels = samples::make_dense(executor);
  Operands operands(*this, {5, 0, 0, Product::affine}, 3);
  const std::vector<float> z = run(kernels->by_row(), operands, {0, 1, 2});
  for (Index i = 0; i < Index(z.size()); ++i) EXPECT_EQ(z[std::size_t(i)], operands.bias(0, i % 5));
  operands = Operands(*this, {5, 0, 0, Product::of_sources}, 3);
  for (const float value : run(kernels->by_row(), operands, {0, 1, 2})) EXPECT_EQ(value, 0.0f);
  EXPECT_TRUE(run(kernels->by_row(), operands, {}).empty());
}

/// What row_product.h says an element is.
float DenseRowsTest::sum_of_chains(Operands& operands, Index example, Index unit) {
  float sum = operands.first(example, unit);
  for (Index run = 0; run < operands.shape.depth; run += 256) {
    const Index end = std::min(run + 256, operands.shape.depth);
    for (Index first = run; first < std::min(run + 8, end); ++first) {
      float chain = 0.0f;
      for (Index k = first; k < end; k += 8)
        chain = std::fma(operands.x(example, k), operands.weight(unit, k), chain);
      sum += chain;
    }
  }
  return sum;
}

// On this processor, by each set of instructions that it has.
TEST_F(DenseRowsTest, AreEightChainsOfEachRunByAllInstructions) {
  Executor executor(2);
  const std::vector<const RowProductInstructions*> all = row_product_instructions();
  EXPECT_STREQ(all.back()->name, "plain");
  for (const RowProductInstructions* instructions : all) {
    const auto products = make_cpu_dense_rows(executor, *instructions);
    for (const Shape& shape : shapes()) {
      SCOPED_TRACE(fmt::format("{}: {} units, depth {}, product {}", instructions->name,
                               shape.units, shape.depth, int(shape.product)));
      for (const Index examples : {1 + below(16), 17 + below(40)}) {
        Operands operands(*this, shape, examples);
        std::vector<Index> each(static_cast<std::size_t>(examples));
        std::iota(each.begin(), each.end(), Index(0));
        const std::vector<float> z = run(*products, operands, each);
        for (Index r = 0; r < examples; ++r)
          for (Index u = 0; u < shape.units; ++u)
            ASSERT_EQ(z[std::size_t(r * shape.units + u)], sum_of_chains(operands, r, u))
                << r << ", " << u << " of " << examples;
      }
    }
  }
}

}  // namespace
}  // namespace norn
