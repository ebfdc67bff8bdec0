// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/tensor/work_queue.h"

#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

namespace norn {

/// A second stream of a GPU, where collectives overlap with the first one's work until
/// wait_for_overlapped().
class SideStream {
 public:
  /// Throws for what is not cudaSuccess; the text names the call.
  using Check = std::function<void(cudaError_t, const char*)>;
  /// Beside the stream of `queue`, which outlives it.
  SideStream(WorkQueue& queue, Check check);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// The collectives that enqueue() hands to send() overlap with what is enqueued after it.
  void overlap(const std::function<void()>& enqueue);
  /// Before a collective: there is one workspace for what is packed, and all ranks take collectives
  /// in one order, so whatever is on its way is waited for, but for the first one within overlap().
  void begin();
  /// Calls `send` with the stream that it belongs to: behind all that main() has so far.
  void send(const std::function<void(cudaStream_t)>& send);
  /// Work of main() that waits for what was sent: now, or at the next wait_for_overlapped().
  void afterwards(std::vector<std::function<void()>> work);
  /// What main() gets from now on sees what was sent.
  void wait_for_overlapped();
  /// Returns when both streams are done. What failed is not looked at.
  void drain() const;
  cudaStream_t main() const { return main_; }

 private:
  WorkQueue& queue_;
  Check check_;
  cudaStream_t main_;
  cudaStream_t side_ = nullptr;
  cudaEvent_t forked_ = nullptr;  // where side_ left main_
  cudaEvent_t done_ = nullptr;    // what overlaps
  bool forks_ = false;            // within overlap()
  bool goes_on_ = false;          // since the last wait_for_overlapped()
  std::vector<std::function<void()>> afterwards_;
};

}  // namespace norn
