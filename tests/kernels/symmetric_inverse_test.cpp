// SPDX-License-Identifier: Apache-2.0
// The inverse of symmetric matrices: against the identity, of sizes around the blocks, by bits on
// any number of lanes.
#include "kernels/symmetric_inverse.h"

#include "tests/kernels/symmetric_matrices.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace norn {
namespace {

class SymmetricInverse : public samples::SymmetricMatrices {};

TEST_F(SymmetricInverse, TimesTheMatrixIsTheIdentity) {
  std::vector<Index> sizes = {1, 2, 191, 192, 193, 256, 257};
  for (int i = 0; i < 4; ++i) sizes.push_back(1 + below(420));
  Executor executor(2);
  for (const Index n : sizes) {
    SCOPED_TRACE(n);
    const Index stride = n + below(4);
    const std::vector<double> a = draw(n, stride);
    std::vector<double> inverse = a;
    EXPECT_GT(invert_symmetric(executor, {inverse.data(), n, n, stride}), 0.5);
    EXPECT_LT(error_of(inverse, a, n, stride), 1e-10);
  }
}

TEST_F(SymmetricInverse, HasTheSameBitsOnAnyNumberOfLanes) {
  const Index n = 300 + below(400);
  const std::vector<double> a = draw(n, n);
  std::vector<std::vector<double>> results;
  for (const int lanes : {1, 2, 7}) {
    Executor executor(lanes);
    results.push_back(a);
    invert_symmetric(executor, {results.back().data(), n, n, n});
    EXPECT_EQ(std::memcmp(results.back().data(), results.front().data(), a.size() * sizeof(double)),
              0);
  }
}

TEST_F(SymmetricInverse, SaysWhatIsNotPositiveDefinite) {
  const Index n = 1 + below(300);
  std::vector<double> a = draw(n, n);
  const Index bad = below(n);
  a[std::size_t(bad * n + bad)] = -1.0;
  Executor executor(2);
  EXPECT_FALSE(invert_symmetric(executor, {a.data(), n, n, n}) > 0.0);
}

}  // namespace
}  // namespace norn
