// SPDX-License-Identifier: Apache-2.0
// What kernels/cuda.h says in a build without CUDA.
#include "kernels/cuda.h"

#include "norn/base/error.h"

namespace norn {

struct CudaDevice::State {};

int cuda_device_count() {
  return 0;
}

CudaDevice::CudaDevice(const GpuOptions&) {
  throw DeviceError(
      "this build has no CUDA; use the CPU, or build with the preset cuda on a machine with nvcc");
}

CudaDevice::~CudaDevice() = default;

Memory& CudaDevice::memory() {
  return host_memory();
}

Kernels CudaDevice::make_kernels() {
  return {};
}

std::string CudaDevice::description() const {
  return {};
}

std::string CudaDevice::identity() const {
  return {};
}

std::int64_t CudaDevice::free_bytes() const {
  return 0;
}

}  // namespace norn
