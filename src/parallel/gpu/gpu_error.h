// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/communicator.h"

#include <string>

#include <cuda_runtime_api.h>

/// Errors of collectives on GPUs.
namespace norn {

/// Throws CommunicationError: this rank, where it runs, what failed and why.
[[noreturn]] void fail_gpu(const Communicator& ranks, const char* call, const std::string& what);
/// Throws as fail_gpu() unless `result` is cudaSuccess.
void check_gpu(const Communicator& ranks, cudaError_t result, const char* call);

}  // namespace norn
