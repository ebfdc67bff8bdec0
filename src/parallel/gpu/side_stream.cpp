// SPDX-License-Identifier: Apache-2.0
// The second stream of a GPU, on which collectives overlap with the first.
#include "src/parallel/gpu/side_stream.h"

#include <iterator>
#include <utility>

namespace norn {
namespace {

/// What kernels that overlap with it leave to a collective: 0 and 8 are alike, 16 and more slower.
constexpr int kMultiprocessorsLeftFree = 8;

}  // namespace

// Where both streams could begin, the collective comes first: other ranks wait for it.
SideStream::SideStream(WorkQueue& queue, Check check)
    : queue_(queue),
      check_(std::move(check)),
      main_(static_cast<cudaStream_t>(queue.native_stream())) {
  int least = 0;
  int greatest = 0;
  check_(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check_(cudaStreamCreateWithPriority(&side_, cudaStreamNonBlocking, greatest),
         "cudaStreamCreateWithPriority");
  for (cudaEvent_t* event : {&forked_, &done_})
    check_(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
}

SideStream::~SideStream() {
  for (cudaEvent_t event : {forked_, done_})
    if (event) cudaEventDestroy(event);
  if (side_) cudaStreamDestroy(side_);
}

void SideStream::overlap(const std::function<void()>& enqueue) {
  wait_for_overlapped();
  forks_ = true;
  try {
    enqueue();
  } catch (...) {
    forks_ = false;
    throw;
  }
  forks_ = false;
}

void SideStream::begin() {
  if (!forks_ || goes_on_) wait_for_overlapped();
}

void SideStream::send(const std::function<void(cudaStream_t)>& send) {
  if (!forks_) return send(main_);
  check_(cudaEventRecord(forked_, main_), "cudaEventRecord");
  check_(cudaStreamWaitEvent(side_, forked_), "cudaStreamWaitEvent");
  send(side_);
  check_(cudaEventRecord(done_, side_), "cudaEventRecord");
  goes_on_ = true;
  queue_.leave_free(kMultiprocessorsLeftFree);
}

void SideStream::afterwards(std::vector<std::function<void()>> work) {
  if (forks_)
    std::move(work.begin(), work.end(), std::back_inserter(afterwards_));
  else
    for (const std::function<void()>& part : work) part();
}

void SideStream::wait_for_overlapped() {
  if (goes_on_) {
    check_(cudaStreamWaitEvent(main_, done_), "cudaStreamWaitEvent");
    queue_.leave_free(0);
  }
  goes_on_ = false;
  for (const std::function<void()>& part : std::exchange(afterwards_, {})) part();
}

void SideStream::drain() const {
  cudaStreamSynchronize(main_);
  cudaStreamSynchronize(side_);
}

}  // namespace norn
