// SPDX-License-Identifier: Apache-2.0
// What a queue does where nothing is asynchronous.
#include "src/tensor/work_queue.h"

#include <cstring>

namespace norn {

void WorkQueue::upload(void* to, const void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, host, bytes);
}

void WorkQueue::download(void* host, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(host, from, bytes);
}

void* WorkQueue::staging(std::size_t bytes) {
  staging_.push_back(std::make_unique<std::byte[]>(bytes));
  return staging_.back().get();
}

}  // namespace norn
