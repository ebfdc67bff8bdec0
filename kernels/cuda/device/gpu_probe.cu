// SPDX-License-Identifier: Apache-2.0
// Measures what a GPU does outside of kernels: launches, copies, its memory.
#include "kernels/cuda/families.h"
#include "kernels/gpu_driver.h"
#include "kernels/gpu_probe.h"
#include "norn/base/error.h"
#include "src/base/text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace norn {
namespace {

using cuda::check;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMebi = std::size_t(1) << 20;
constexpr std::size_t kLockedBytes = 64 * kMebi;
constexpr std::size_t kPageableBytes = 32 * kMebi;
constexpr std::size_t kMemoryBytes = 1024 * kMebi;
constexpr std::size_t kPeerBytes = 128 * kMebi;
constexpr int kLaunches = 2000;
constexpr int kGraphNodes = 200;
constexpr int kTrips = 200;

__global__ void empty_kernel() {}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// A stream of a GPU with what is measured there; gives back all.
class Bench {
 public:
  explicit Bench(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Bench() {
    cudaStreamSynchronize(stream_);
    for (void* part : device_parts_) cudaFree(part);
    for (void* part : host_parts_) cudaFreeHost(part);
    if (begin_) cudaEventDestroy(begin_);
    if (end_) cudaEventDestroy(end_);
    if (stream_) cudaStreamDestroy(stream_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  cudaStream_t stream() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  void* on_device(std::size_t bytes) {
    void* part = nullptr;
    check(cudaMalloc(&part, bytes), "cudaMalloc");
    device_parts_.push_back(part);
    check(cudaMemsetAsync(part, 1, bytes, stream_), "cudaMemsetAsync");
    return part;
  }
  void* locked(std::size_t bytes) {
    void* part = nullptr;
    check(cudaMallocHost(&part, bytes), "cudaMallocHost");
    host_parts_.push_back(part);
    return part;
  }
  /// Gigabytes a second of the fastest of a few.
  template <typename Work>
  double gigabytes(std::size_t bytes, const Work& work) {
    float least = 1e30f;
    for (int i = 0; i < 4; ++i) {
      check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
      work();
      check(cudaEventRecord(end_, stream_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      float milliseconds = 0.0f;
      check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
      if (i > 0) least = std::min(least, milliseconds);
    }
    return 1e-6 * double(bytes) / double(least);
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::vector<void*> device_parts_;
  std::vector<void*> host_parts_;
};

void launch(cudaStream_t stream) {
  empty_kernel<<<1, 32, 0, stream>>>();
  cuda::check_launch("empty_kernel");
}

double microseconds_of_launch(const Bench& bench) {
  std::vector<double> tries;
  for (int t = 0; t < 5; ++t) {
    bench.wait();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kLaunches; ++i) launch(bench.stream());
    bench.wait();
    tries.push_back(1e6 * seconds_since(start) / kLaunches);
  }
  return median(tries);
}

double microseconds_of_round_trip(const Bench& bench) {
  std::vector<double> tries;
  for (int i = 0; i < kTrips; ++i) {
    const Clock::time_point start = Clock::now();
    launch(bench.stream());
    bench.wait();
    tries.push_back(1e6 * seconds_since(start));
  }
  return median(tries);
}

double microseconds_in_graph(const Bench& bench) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  check(cudaStreamBeginCapture(bench.stream(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  for (int i = 0; i < kGraphNodes; ++i) launch(bench.stream());
  check(cudaStreamEndCapture(bench.stream(), &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
  std::vector<double> tries;
  for (int t = 0; t < 6; ++t) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < 5; ++i) check(cudaGraphLaunch(runnable, bench.stream()), "cudaGraphLaunch");
    bench.wait();
    if (t > 0) tries.push_back(1e6 * seconds_since(start) / (5 * kGraphNodes));
  }
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  return median(tries);
}

void measure_copies(Bench& bench, const std::function<void()>& while_copying, GpuRates& rates) {
  void* device = bench.on_device(kLockedBytes);
  void* host = bench.locked(kLockedBytes);
  const auto copy = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return bench.gigabytes(bytes, [&] {
      check(cudaMemcpyAsync(to, from, bytes, kind, bench.stream()), "cudaMemcpyAsync");
    });
  };
  rates.to_device = copy(device, host, kLockedBytes, cudaMemcpyHostToDevice);
  rates.to_host = copy(host, device, kLockedBytes, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 30; ++i)
    check(cudaMemcpyAsync(device, host, kLockedBytes, cudaMemcpyHostToDevice, bench.stream()),
          "cudaMemcpyAsync");
  if (while_copying) while_copying();
  bench.wait();
  std::vector<char> pageable(kPageableBytes, 1);
  rates.pageable_to_device = copy(device, pageable.data(), kPageableBytes, cudaMemcpyHostToDevice);
  rates.pageable_to_host = copy(pageable.data(), device, kPageableBytes, cudaMemcpyDeviceToHost);
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

/// Before anything is allocated: what the copies and measure_memory() need.
void require_room() {
  if (const std::size_t free = free_bytes(); free < 2 * kLockedBytes)
    throw DeviceError("the GPU's memory is full: " + human_bytes(double(free)) +
                      " are free, and measuring takes " + human_bytes(double(2 * kLockedBytes)) +
                      "; end what else runs on it");
}

double measure_memory(Bench& bench) {
  const std::size_t bytes = std::min(kMemoryBytes, free_bytes() / 8 / kMebi * kMebi);
  void* from = bench.on_device(bytes);
  void* to = bench.on_device(bytes);
  return bench.gigabytes(2 * bytes, [&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, bench.stream()),
          "cudaMemcpyAsync");
  });
}

int attribute(cudaDeviceAttr what, int device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, what, device) == cudaSuccess ? value : 0;
}

}  // namespace

CudaVersions cuda_versions() {
  CudaVersions versions;
  versions.built = true;
  cudaRuntimeGetVersion(&versions.runtime);
  if (cudaDriverGetVersion(&versions.driver) != cudaSuccess) versions.driver = 0;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) versions.error = cudaGetErrorString(status);
  cudaGetLastError();
  return versions;
}

std::vector<GpuShape> cuda_gpus() {
  std::vector<GpuShape> gpus;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  for (int d = 0; d < count; ++d) {
    GpuShape gpu;
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, d), "cudaGetDeviceProperties");
    std::array<char, 32> pci{};
    check(cudaDeviceGetPCIBusId(pci.data(), int(pci.size()), d), "cudaDeviceGetPCIBusId");
    gpu.device = d;
    gpu.name = properties.name;
    gpu.pci = plain_pci_address(pci.data());
    gpu.capability = 10 * properties.major + properties.minor;
    gpu.multiprocessors = properties.multiProcessorCount;
    gpu.core_mhz = 1e-3 * attribute(cudaDevAttrClockRate, d);
    gpu.memory_mhz = 1e-3 * attribute(cudaDevAttrMemoryClockRate, d);
    gpu.memory_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, d);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

GpuRates measure_gpu(int device, const std::function<void()>& while_copying) {
  Bench bench(device);
  require_room();
  GpuRates rates;
  rates.launch_microseconds = microseconds_of_launch(bench);
  rates.round_trip_microseconds = microseconds_of_round_trip(bench);
  rates.graph_microseconds = microseconds_in_graph(bench);
  measure_copies(bench, while_copying, rates);
  rates.memory = measure_memory(bench);
  return rates;
}

std::vector<PeerRate> measure_peers() {
  std::vector<PeerRate> rates;
  const int count = int(cuda_gpus().size());
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      PeerRate rate{from, to, false, 0.0};
      int direct = 0;
      check(cudaDeviceCanAccessPeer(&direct, from, to), "cudaDeviceCanAccessPeer");
      rate.direct = direct != 0;
      Bench target(to);
      void* there = target.on_device(kPeerBytes);
      target.wait();
      Bench source(from);
      if (rate.direct) {
        const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
        cudaGetLastError();
        if (status != cudaErrorPeerAccessAlreadyEnabled)
          check(status, "cudaDeviceEnablePeerAccess");
      }
      void* here = source.on_device(kPeerBytes);
      rate.gigabytes = source.gigabytes(kPeerBytes, [&] {
        check(cudaMemcpyPeerAsync(there, to, here, from, kPeerBytes, source.stream()),
              "cudaMemcpyPeerAsync");
      });
      rates.push_back(rate);
    }
  }
  return rates;
}

}  // namespace norn
