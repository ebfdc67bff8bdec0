// SPDX-License-Identifier: Apache-2.0
// Which NCCL there is, and whether it works on one GPU.
#include "src/parallel/nccl/nccl_settings.h"
#include "src/parallel/rank_facts.h"

#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

namespace norn {
namespace {

constexpr std::size_t kElements = std::size_t(1) << 20;

/// What the test makes; given back whatever happens.
struct Parts {
  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (comm) ncclCommDestroy(comm);
    if (memory) cudaFree(memory);
    if (stream) cudaStreamDestroy(stream);
  }
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* memory = nullptr;
};

std::string failure(cudaError_t status) {
  return status == cudaSuccess ? std::string() : cudaGetErrorString(status);
}
std::string failure(ncclResult_t status) {
  return status == ncclSuccess ? std::string() : ncclGetErrorString(status);
}

// An empty text when all went well.
std::string all_reduce_alone(int device) {
  Parts parts;
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < kElements; ++i) values[i] = float(i % 1000);
  std::string error = failure(cudaSetDevice(device));
  if (error.empty()) error = failure(cudaStreamCreate(&parts.stream));
  const std::size_t bytes = kElements * sizeof(float);
  if (error.empty())
    error = failure(cudaMalloc(reinterpret_cast<void**>(&parts.memory), 2 * bytes));
  float* const sums = parts.memory + kElements;
  if (error.empty())
    error = failure(cudaMemcpy(parts.memory, values.data(), bytes, cudaMemcpyHostToDevice));
  if (error.empty()) error = failure(ncclCommInitAll(&parts.comm, 1, &device));
  if (error.empty())
    error = failure(ncclAllReduce(parts.memory, sums, kElements, ncclFloat32, ncclSum, parts.comm,
                                  parts.stream));
  if (error.empty()) error = failure(cudaStreamSynchronize(parts.stream));
  std::vector<float> result(kElements);
  if (error.empty())
    error = failure(cudaMemcpy(result.data(), sums, bytes, cudaMemcpyDeviceToHost));
  if (error.empty() && result != values) error = "the sums are wrong";
  return error;
}

}  // namespace

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::optional<NcclFacts> try_nccl(int device) {
  set_nccl_up();
  return NcclFacts{nccl_version(), all_reduce_alone(device)};
}

}  // namespace norn
