// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/context.h"
#include "src/tensor/buffer.h"

namespace norn {

/// Where `count` elements of main memory will stand on the device when its next run begins:
/// `buffer`, which grows as needed. Not within WorkQueue::run. Throws CommunicationError where the
/// device waits for a rank that is gone or late.
template <typename T>
const T* upload(const Context& context, const T* host, Index count, Buffer<T>& buffer) {
  if (count == 0) return nullptr;
  WorkQueue& queue = *context.compute.kernels.queue;
  if (buffer.size() < count) {
    // What the memory hands out may still be read by work that is under way.
    context.collectives->wait_for_all(queue);
    queue.wait_for_all();
    buffer = Buffer<T>(count + count / 4, context.compute.memory);
  }
  queue.upload(buffer.data(), host, std::size_t(count) * sizeof(T));
  return buffer.data();
}

}  // namespace norn
