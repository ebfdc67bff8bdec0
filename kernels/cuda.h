// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernels.h"
#include "norn/kernels/gpu_options.h"

#include <cstdint>
#include <memory>
#include <string>

/// NVIDIA GPUs. A build without CUDA has these functions too, and finds no device.
namespace norn {

/// GPUs that this process may use; 0 where there is no driver or the build has no CUDA.
int cuda_device_count();

/// How wide blocks of a GPU are, on any GPU: a plan of a run there may be made where there is none.
BlockRule cuda_block_rule();

/// One GPU with its memory, its queue of work and its kernels. Used by one thread at a time.
class CudaDevice {
 public:
  /// Throws DeviceError when there is no such device, or it cannot run this build's code.
  explicit CudaDevice(const GpuOptions& options = {});
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  Memory& memory();
  /// The kernels of this device, which must outlive them.
  Kernels make_kernels();
  /// "NVIDIA H200, 139.8 GiB, CUDA 13.0".
  std::string description() const;
  /// Tells this GPU from every other one of its host.
  std::string identity() const;
  /// Bytes that nobody uses now.
  std::int64_t free_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace norn
