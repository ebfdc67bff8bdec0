// SPDX-License-Identifier: Apache-2.0
// Errors of CUDA as those of Norn.
#include "src/parallel/gpu/gpu_error.h"

#include "norn/base/error.h"

#include <fmt/format.h>

namespace norn {

void fail_gpu(const Communicator& ranks, const char* call, const std::string& what) {
  throw CommunicationError(
      fmt::format("rank {} of {} ({}): {} failed: {}; NCCL_DEBUG=INFO tells more", ranks.rank(),
                  ranks.size(), ranks.place().text(), call, what));
}

void check_gpu(const Communicator& ranks, cudaError_t result, const char* call) {
  if (result != cudaSuccess) fail_gpu(ranks, call, cudaGetErrorString(result));
}

}  // namespace norn
