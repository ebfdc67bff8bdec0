// SPDX-License-Identifier: Apache-2.0
// What a run computes on.
#include "src/engine/network/context.h"

#include "src/base/host.h"
#include "src/base/text.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

namespace norn {

std::string CpuRuntime::description() const {
  return fmt::format("{}, {}", describe_cpu_kernels(), counted(executor_.lanes(), "thread"));
}

std::int64_t CpuRuntime::available_bytes() const {
  return available_memory_bytes(executor_.lanes());
}

namespace {

// Every rank's text, in rank order.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine) {
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& text :
       communicator.gather_to_all(std::as_bytes(std::span(mine))))
    texts.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
  return texts;
}

// Which of the ranks of its host this one is, from 0.
int rank_on_host(Communicator& communicator) {
  const std::vector<std::string> hosts = gather_texts(communicator, host_name());
  return int(std::count(hosts.begin(), hosts.begin() + communicator.rank(), host_name()));
}

// Whether no two ranks compute on one GPU.
bool own_gpus(Communicator& communicator, const std::string& gpu) {
  std::vector<std::string> gpus = gather_texts(communicator, host_name() + " " + gpu);
  std::sort(gpus.begin(), gpus.end());
  return std::adjacent_find(gpus.begin(), gpus.end()) == gpus.end();
}

}  // namespace

Context CudaRuntime::context(Communicator& communicator, Log log) {
  std::shared_ptr<Collectives> collectives;
  if (communicator.size() == 1) {
    collectives = make_host_collectives(communicator);
  } else if (own_gpus(communicator, device_.identity()) && has_nccl()) {
    collectives = make_gpu_collectives(communicator, options_.device, *kernels_.queue,
                                       device_.memory(), options_.peer_memory);
  } else {
    kernels_.queue->make_graphs(false);
    collectives = make_staged_collectives(communicator, device_.memory(), *kernels_.queue);
  }
  return {Compute{executor_, kernels_, device_.memory()}, communicator, std::move(collectives),
          std::move(log)};
}

std::string CudaRuntime::description() const {
  return fmt::format("{}, {}", device_.description(), name_of(options_.precision));
}

std::unique_ptr<Runtime> make_runtime(DeviceChoice choice, Communicator& communicator) {
  const int gpus = cuda_device_count();
  const bool is_free = choice.kind == DeviceChoice::Kind::automatic && !choice.gpu;
  if (choice.kind == DeviceChoice::Kind::cpu || (is_free && communicator.any(gpus == 0)))
    return std::make_unique<CpuRuntime>(choice.threads);
  const int turn = choice.gpu ? 0 : rank_on_host(communicator);
  choice.gpu_options.device = choice.gpu.value_or(gpus == 0 ? 0 : turn % gpus);
  return std::make_unique<CudaRuntime>(choice.gpu_options);
}

}  // namespace norn
