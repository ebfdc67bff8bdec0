// SPDX-License-Identifier: Apache-2.0
// The inverse of symmetric matrices by a device's products: against the identity and the one of
// main memory, of sizes around the blocks, and what has no inverse.
#include "src/engine/train/device_inverse.h"

#include "kernels/symmetric_inverse.h"
#include "tests/kernels/symmetric_matrices.h"
#include "tests/support/test_runtime.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace norn {
namespace {

class DeviceInverse : public samples::SymmetricMatrices {
 protected:
  double invert(std::vector<double>& a, Index n, Index stride) {
    return invert_on_device(lanes_, context_.compute, {a.data(), n, n, stride});
  }

  Executor lanes_{2};
  std::unique_ptr<Runtime> runtime_ = test::make_test_runtime(2);
  const std::unique_ptr<Communicator> one_ = make_single_process();
  const Context context_ = runtime_->context(*one_);
};

TEST_F(DeviceInverse, IsTheInverse) {
  for (const Index n : {Index(1), 1 + below(100), Index(511), Index(512), 513 + below(600)}) {
    SCOPED_TRACE(n);
    const Index stride = n + below(4);
    const std::vector<double> a = draw(n, stride);
    std::vector<double> inverse = a, reference = a;
    const double least = invert(inverse, n, stride);
    EXPECT_GT(least, 0.5);
    EXPECT_GT(invert_symmetric(lanes_, {reference.data(), n, n, stride}), 0.5);
    EXPECT_LT(error_of(inverse, a, n, stride), 1e-10);
    double difference = 0.0;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) {
        const auto at = std::size_t(i * stride + j);
        difference = std::max(difference, std::abs(inverse[at] - reference[at]));
      }
    EXPECT_LT(difference, 1e-10);
    std::vector<double> again = a;
    invert(again, n, stride);
    for (Index i = 0; i < n; ++i)
      EXPECT_EQ(std::memcmp(&again[std::size_t(i * stride)], &inverse[std::size_t(i * stride)],
                            std::size_t(n) * sizeof(double)),
                0);
  }
}

TEST_F(DeviceInverse, SaysWhatIsNotPositiveDefinite) {
  const Index n = 1 + below(1200);
  std::vector<double> a = draw(n, n);
  const Index bad = below(n);
  a[std::size_t(bad * n + bad)] = -1.0;
  EXPECT_FALSE(invert(a, n, n) > 0.0);
}

TEST_F(DeviceInverse, IsOfDevicesWithEnoughMemory) {
  Memory& memory = context_.compute.memory;
  EXPECT_FALSE(inverts_on_device(host_memory(), 10));
  EXPECT_EQ(inverts_on_device(memory, 10), !memory.is_host());
  EXPECT_FALSE(inverts_on_device(memory, Index(1) << 22));
}

}  // namespace
}  // namespace norn
