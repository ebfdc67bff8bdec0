// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/precision.h"

namespace norn {

/// How a GPU is used.
struct GpuOptions {
  int device = 0;
  Precision precision = Precision::tf32;
  /// Memory that is given back is kept for the next request. Off: every request goes to the driver,
  /// so that compute-sanitizer sees the end of each.
  bool memory_pool = true;
  /// Whether WorkQueue::run makes graphs of its work. Off: kernels are launched one by one.
  bool graphs = true;
  /// Whether ranks of one machine may write into each other's memory. Off: all is left to NCCL.
  bool peer_memory = true;
  /// Steps that a run may begin before it waits for the first of them.
  int max_steps_in_flight = 4;
};

}  // namespace norn
