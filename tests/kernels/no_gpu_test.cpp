// SPDX-License-Identifier: Apache-2.0
// What is said where there is no GPU, or not that one.
#include "kernels/cuda.h"
#include "kernels/gpu_probe.h"
#include "norn/base/error.h"
#include "tests/support/message_of.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

TEST(NoGpu, ABuildWithoutCudaSaysHowToGetOne) {
  if (cuda_versions().built) GTEST_SKIP() << "this build has CUDA";
  EXPECT_EQ(message_of<DeviceError>([] { CudaDevice(); }),
            "this build has no CUDA; use the CPU, or build with the preset cuda on a machine with "
            "nvcc");
  EXPECT_EQ(message_of<DeviceError>([] { measure_gpu(0, {}); }),
            "this build has no CUDA, so no GPU can be measured; build the preset cuda");
}

TEST(NoGpu, AGpuThatIsNotThereIsNamedWithThoseThatAre) {
  if (!cuda_versions().built) GTEST_SKIP() << "this build has no CUDA";
  const int count = cuda_device_count();
  GpuOptions options;
  options.device = count + 7;
  EXPECT_EQ(message_of<DeviceError>([&] { CudaDevice device(options); }),
            fmt::format("GPU {} is not there: {} can be used; see nvidia-smi, or use --device cpu",
                        count + 7, count == 0 ? "none" : fmt::format("0 to {}", count - 1)));
}

}  // namespace
}  // namespace norn
