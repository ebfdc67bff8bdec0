// SPDX-License-Identifier: Apache-2.0
// What a run computes on.
#include "norn/engine/context.h"

#include "norn/base/error.h"
#include "norn/engine/memory_plan.h"

#include <fmt/format.h>

namespace norn {

std::string CpuRuntime::description() const {
  return fmt::format("{}, {} threads", describe_cpu_kernels(), executor_.lanes());
}

std::int64_t CpuRuntime::available_bytes() const {
  return available_memory_bytes(executor_.lanes());
}

Context CudaRuntime::context(Communicator& communicator, Log log) {
  if (communicator.size() > 1)
    throw UsageError(
        fmt::format("{} ranks cannot compute on GPUs yet; start one rank, or use --device cpu",
                    communicator.size()));
  return {Compute{executor_, kernels_, device_.memory()}, communicator, std::move(log)};
}

std::string CudaRuntime::description() const {
  return fmt::format("{}, {}", device_.description(), name_of(options_.precision));
}

std::unique_ptr<Runtime> make_runtime(const DeviceChoice& choice, int ranks) {
  const bool automatic = choice.kind == DeviceChoice::Kind::automatic;
  if (choice.kind == DeviceChoice::Kind::cpu ||
      (automatic && (ranks > 1 || cuda_device_count() == 0)))
    return std::make_unique<CpuRuntime>(choice.threads);
  return std::make_unique<CudaRuntime>(choice.cuda);
}

}  // namespace norn
