// SPDX-License-Identifier: Apache-2.0
// One GPU: opening it, and putting its kernel families together.
#include "kernels/cuda.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/queue.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/windows/window_product.h"
#include "src/base/text.h"

#include <fmt/format.h>

namespace norn {
namespace {

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties;
}

}  // namespace

struct CudaDevice::State {
  /// A stream with memory of its own: a pool gives pieces away again in the order of one stream.
  struct Lane {
    void open(const GpuOptions& chosen, int multiprocessors) {
      cuda::check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "cudaStreamCreate");
      memory = std::make_unique<cuda::DeviceMemory>(handle, chosen.memory_pool);
      stream = std::make_unique<cuda::Stream>(
          cuda::Stream{handle, *memory, chosen.precision, multiprocessors, &left_free});
    }
    Lane() = default;
    ~Lane() {
      stream.reset();
      memory.reset();
      if (handle) cudaStreamDestroy(handle);
    }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    cudaStream_t handle = nullptr;
    int left_free = 0;
    std::unique_ptr<cuda::DeviceMemory> memory;
    std::unique_ptr<cuda::Stream> stream;
  };
  explicit State(const GpuOptions& chosen) : options(chosen) {
    if (const int count = cuda_device_count(); options.device < 0 || options.device >= count)
      throw DeviceError(
          fmt::format("GPU {} is not there: {} can be used; see nvidia-smi, or use `device` cpu",
                      options.device, count == 0 ? "none" : fmt::format("0 to {}", count - 1)));
    cuda::check(cudaSetDevice(options.device), "cudaSetDevice");
    properties = properties_of(options.device);
    if (!cuda::device_runs_this_build())
      throw DeviceError(fmt::format(
          "GPU {} ({}, compute capability {}.{}) cannot run this build; configure it with "
          "-DCMAKE_CUDA_ARCHITECTURES={}{}, or use `device` cpu",
          options.device, properties.name, properties.major, properties.minor, properties.major,
          properties.minor));
    main.open(options, properties.multiProcessorCount);
    prefetch.open(options, properties.multiProcessorCount);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  GpuOptions options;
  cudaDeviceProp properties{};
  Lane main;
  Lane prefetch;  // what prepares batches
};

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

CudaDevice::CudaDevice(const GpuOptions& options) : state_(std::make_unique<State>(options)) {}

CudaDevice::~CudaDevice() = default;

Memory& CudaDevice::memory() {
  return *state_->main.memory;
}

Kernels CudaDevice::make_kernels() {
  const cuda::Stream& stream = *state_->main.stream;
  Kernels kernels;
  kernels.dense = cuda::make_dense(stream);
  kernels.sparse = cuda::make_sparse(stream);
  kernels.batch = cuda::make_batch(stream);
  kernels.pointwise = cuda::make_pointwise(stream);
  kernels.fixed = cuda::make_fixed(stream);
  kernels.normalization = cuda::make_normalization(stream);
  kernels.cost = cuda::make_cost(stream);
  kernels.update = cuda::make_update(stream);
  kernels.select = cuda::make_select(stream);
  kernels.fused = cuda::make_fused(stream);
  kernels.recommend = cuda::make_recommend(stream);
  kernels.factored = cuda::make_factored(stream);
  kernels.convolution = cuda::make_convolution(stream, *kernels.dense);
  kernels.pooling = cuda::make_pooling(stream);
  kernels.run_sums = cuda::make_run_sums(stream);
  kernels.prefetch_batch = cuda::make_batch(*state_->prefetch.stream);
  kernels.prefetch_sparse = cuda::make_sparse(*state_->prefetch.stream);
  kernels.prefetch_factored = cuda::make_factored(*state_->prefetch.stream);
  kernels.prefetch_memory = state_->prefetch.memory.get();
  kernels.queue = std::make_unique<cuda::DeviceQueue>(
      state_->main.handle, state_->prefetch.handle, &state_->main.left_free, state_->options.graphs,
      state_->options.max_steps_in_flight);
  kernels.precision = state_->options.precision;
  kernels.computes_in_bf16 = kernels.precision.casts_operands() && cuda::device_reads_windows();
  kernels.block_rule = cuda_block_rule();
  return kernels;
}

std::string CudaDevice::description() const {
  int version = 0;
  cuda::check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  return fmt::format("{}, {}, CUDA {}.{}", state_->properties.name,
                     human_bytes(double(state_->properties.totalGlobalMem)), version / 1000,
                     version % 1000 / 10);
}

std::string CudaDevice::identity() const {
  std::string text = "GPU";
  for (const char byte : state_->properties.uuid.bytes)
    text += fmt::format("-{:02x}", unsigned(static_cast<unsigned char>(byte)));
  return text;
}

std::int64_t CudaDevice::free_bytes() const {
  return state_->main.memory->free_bytes();
}

}  // namespace norn
