// SPDX-License-Identifier: Apache-2.0
// The number of BLAS's threads belongs to the program around the library.
#include "kernels/kernels.h"
#include "tests/kernels/samples.h"

#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

// The library's own name for them; its header is included where products are made alone.
extern "C" int openblas_get_num_threads();
extern "C" void openblas_set_num_threads(int);

namespace norn {
namespace {

// A program that gave BLAS so many threads.
class BlasThreads : public testing::Test {
 protected:
  BlasThreads() { openblas_set_num_threads(kThreads); }
  ~BlasThreads() override { openblas_set_num_threads(before_); }

  // A product large enough for BLAS to share it out.
  std::vector<float> product(int lanes) const {
    Executor executor(lanes);
    const Kernels kernels = make_cpu_kernels(executor);
    samples::PaddedMatrix<float> x(300, 700), w(520, 700), z(300, 520);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (auto* m : {&x, &w})
      for (Index r = 0; r < m->view().rows; ++r)
        for (Index c = 0; c < 700; ++c) m->view()(r, c) = normal(random);
    kernels.dense->multiply_transposed({x.view()}, {w.view()}, z.view(), Existing::overwrite);
    std::vector<float> values;
    for (Index r = 0; r < 300; ++r)
      values.insert(values.end(), z.view().row(r), z.view().row(r) + 520);
    return values;
  }

  static constexpr int kThreads = 3;

 private:
  const int before_ = openblas_get_num_threads();
};

TEST_F(BlasThreads, AreAsManyAfterAProductAsBefore) {
  const std::vector<float> shared = product(2);
  EXPECT_EQ(openblas_get_num_threads(), kThreads);
  openblas_set_num_threads(1);
  EXPECT_EQ(product(2), shared) << "bits do not depend on what the program set";
  EXPECT_EQ(openblas_get_num_threads(), 1);
}

TEST_F(BlasThreads, AreAsManyAfterProductsOfSeveralThreads) {
  const std::vector<float> expected = product(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) EXPECT_EQ(product(2), expected);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(openblas_get_num_threads(), kThreads);
}

}  // namespace
}  // namespace norn
