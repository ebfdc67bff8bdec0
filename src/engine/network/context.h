// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda.h"
#include "norn/engine/device_choice.h"
#include "src/step/context.h"

#include <memory>
#include <string>

namespace norn {

/// Owns what a Context points to, for one rank.
class Runtime {
 public:
  virtual ~Runtime() = default;
  /// Of this rank; all ranks call it together. The context must not outlive the runtime.
  virtual Context context(Communicator& communicator, Log log = {}) = 0;
  /// One line for logs: "OpenBLAS 0.3.21 Cooperlake, 16 threads".
  virtual std::string description() const = 0;
  /// Bytes that a run may still take, where its weights will stand.
  virtual std::int64_t available_bytes() const = 0;
};

/// One rank on the CPU.
class CpuRuntime final : public Runtime {
 public:
  /// `threads` 0: one a core that this process may use.
  explicit CpuRuntime(int threads = 0)
      : executor_(threads), kernels_(make_cpu_kernels(executor_)) {}
  Context context(Communicator& communicator, Log log = {}) override {
    return {Compute{executor_, kernels_, host_memory()}, communicator,
            make_host_collectives(communicator), std::move(log)};
  }
  std::string description() const override;
  std::int64_t available_bytes() const override;

 private:
  Executor executor_;
  Kernels kernels_;
};

/// One rank on a GPU.
class CudaRuntime final : public Runtime {
 public:
  /// Throws DeviceError when there is no such GPU.
  explicit CudaRuntime(const GpuOptions& options = {})
      : options_(options), device_(options), executor_(1), kernels_(device_.make_kernels()) {}
  /// Several ranks are joined by NCCL where each has a GPU of its own, else through main memory.
  Context context(Communicator& communicator, Log log = {}) override;
  std::string description() const override;
  std::int64_t available_bytes() const override { return device_.free_bytes(); }

 private:
  GpuOptions options_;
  CudaDevice device_;
  Executor executor_;  // of one lane: the host's part is done by the calling thread
  Kernels kernels_;
};

/// For this rank; all ranks call it together and get the same kind. Throws DeviceError when a GPU
/// is asked for and there is none.
std::unique_ptr<Runtime> make_runtime(DeviceChoice choice, Communicator& communicator);

/// Memory that this process may still take: the least of what the machine has available, what its
/// control group allows and what its address space limit leaves beside the buffers that products on
/// `lanes` threads map.
std::int64_t available_memory_bytes(int lanes);

/// Main memory that the program and its libraries take, as far as they have been used.
std::int64_t program_bytes();

}  // namespace norn
