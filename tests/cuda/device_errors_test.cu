// SPDX-License-Identifier: Apache-2.0
// What is said when the CUDA runtime, its libraries or a GPU's memory refuse something.
#include "kernels/cuda/dense/dense_plan.h"
#include "kernels/cuda/device/driver_entry.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/factored/float64_products.h"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/gpu_probe.h"
#include "tests/support/message_of.h"

#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

/// Sizes and other numbers, which differ from one GPU to the next.
std::string without_numbers(const std::string& text) {
  return std::regex_replace(text, std::regex("[0-9]+(\\.[0-9]+)?( ([KMGTP]i)?B)?"), "#");
}

TEST(DeviceErrors, OfTheRuntimeNameCallAndPlace) {
  const int line = __LINE__ + 1;
  EXPECT_EQ(message_of<DeviceError>([] { cuda::check(cudaSetDevice(10'000), "cudaSetDevice"); }),
            std::string("cudaSetDevice failed at ") + __FILE__ + ":" + std::to_string(line) +
                ": cudaErrorInvalidDevice (invalid device ordinal)");
  cudaGetLastError();
  const std::string launch =
      message_of<DeviceError>([] { cuda::check(cudaErrorInvalidConfiguration, "copy_words"); });
  EXPECT_EQ(std::regex_replace(launch, std::regex(" at .*: cuda"), " at test.cu:9: cuda"),
            "copy_words failed at test.cu:9: cudaErrorInvalidConfiguration (invalid configuration "
            "argument)");
}

TEST(DeviceErrors, OfMemoryNameWhatWasAskedFor) {
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  {
    cuda::DeviceMemory memory(stream, true);
    EXPECT_EQ(
        without_numbers(message_of<DeviceError>([&] { memory.allocate(std::size_t(1) << 50); })),
        "GPU memory: # (# bytes) could not be allocated, # are in use by this process; use a "
        "smaller batch, more GPUs, or a GPU with more memory");
  }
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TEST(DeviceErrors, OfAMemoryThatIsFull) {
  std::vector<void*> taken;
  for (std::size_t bytes = std::size_t(1) << 34; bytes >= std::size_t(1) << 20;) {
    void* part = nullptr;
    if (cudaMalloc(&part, bytes) == cudaSuccess)
      taken.push_back(part);
    else
      bytes /= 2;
  }
  cudaGetLastError();
  const std::string message = message_of<DeviceError>([] { measure_gpu(0, {}); });
  for (void* part : taken) cudaFree(part);
  EXPECT_EQ(without_numbers(message),
            "the GPU's memory is full: # are free, and measuring takes #; end what else runs on "
            "it");
}

TEST(DeviceErrors, OfTensorMapsNameTheDriversStatus) {
  // An address that is no multiple of 16 bytes.
  const MatrixView<const Bfloat16> odd{reinterpret_cast<const Bfloat16*>(0x1002), 64, 64, 64};
  EXPECT_FALSE(cuda::can_map(odd));
  EXPECT_EQ(message_of<DeviceError>([&] { cuda::map_boxes(odd); }),
            "cuTensorMapEncodeTiled failed with status 1");
}

TEST(DeviceErrors, OfAnOldDriverNameTheFunctionThatItLacks) {
  EXPECT_EQ(message_of<DeviceError>([] { cuda::driver_entry<void*>("cuNoSuchFunction", 12000); }),
            "the CUDA driver has no cuNoSuchFunction, which came with CUDA 12; update it, or use "
            "`device` cpu");
}

TEST(DeviceErrors, OfProductsWithoutAnAlgorithmNameTheirShape) {
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  {
    cuda::DeviceMemory memory(stream, true);
    cuda::DensePlans plans(cuda::Stream{stream, memory, Precision::fp32, 1});
    constexpr Index kWide = Index(1) << 33;  // beyond the library's 32 bits; nothing is read
    cuda::DensePlans::Task task;
    float* const nowhere = reinterpret_cast<float*>(0x1000);
    task.a = {nowhere, kWide, 8, kWide};
    task.b = {nowhere, 8, 8, 8};
    task.result = {nowhere, 8, kWide, kWide};
    EXPECT_EQ(message_of<DeviceError>([&] { plans.multiply(task); }),
              "cuBLASLt has no algorithm for a product of [8589934592 x 8] and [8 x 8] in fp32");
  }
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TEST(DeviceErrors, OfProductsOfFloat64NameTheirShape) {
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  {
    cuda::DeviceMemory memory(stream, true);
    cuda::Float64Products products(cuda::Stream{stream, memory, Precision::fp32, 1});
    constexpr Index kWide = Index(1) << 33;  // beyond the library's 32 bits; nothing is read
    double* const nowhere = reinterpret_cast<double*>(0x1000);
    const MatrixView<double> left{nowhere, 8, 8, 8}, right{nowhere, 8, kWide, kWide};
    EXPECT_EQ(message_of<DeviceError>([&] { products.multiply(1.0, {left}, {right}, 0.0, right); }),
              "cuBLASLt has no algorithm for a product of [8 x 8] and [8 x 8589934592] in float64");
  }
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace
}  // namespace norn
