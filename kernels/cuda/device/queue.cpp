// SPDX-License-Identifier: Apache-2.0
// The order of a GPU's work: graphs that are brought up to date from step to step, uploads during
// them, marks to wait for.
#include "kernels/cuda/device/queue.h"

#include <algorithm>
#include <cstring>

namespace norn::cuda {
namespace {

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

}  // namespace

DeviceQueue::DeviceQueue(cudaStream_t stream, cudaStream_t prefetch, int* left_free, bool graphs,
                         int depth)
    : stream_(stream), prefetch_(prefetch), left_free_(left_free), graphs_(graphs), depth_(depth) {
  for (cudaStream_t* own : {&copies_, &back_})
    check(cudaStreamCreateWithFlags(own, cudaStreamNonBlocking), "cudaStreamCreate");
  ready_ = make_event();
  for (Piece& piece : pieces_) piece.sent = make_event();
  for (cudaEvent_t& event : finished_) event = make_event();
  for (cudaEvent_t& event : downloaded_) event = make_event();
  for (cudaEvent_t& event : marks_) event = make_event();
}

DeviceQueue::~DeviceQueue() {
  for (cudaStream_t used : {copies_, prefetch_, stream_, back_}) cudaStreamSynchronize(used);
  cudaEventDestroy(ready_);
  drop_graphs();
  for (Piece& piece : pieces_) {
    cudaEventDestroy(piece.sent);
    if (piece.host) cudaFreeHost(piece.host);
  }
  for (cudaEvent_t event : finished_) cudaEventDestroy(event);
  for (cudaEvent_t event : downloaded_) cudaEventDestroy(event);
  for (cudaEvent_t event : marks_) cudaEventDestroy(event);
  for (void* memory : staging_) cudaFreeHost(memory);
  cudaStreamDestroy(copies_);
  cudaStreamDestroy(back_);
}

void DeviceQueue::run(const std::function<void()>& enqueue) {
  if (copied_) {
    check(cudaStreamWaitEvent(stream_, last_sent()), "cudaStreamWaitEvent");
    copied_ = false;
  }
  if (prepared_) {
    check(cudaStreamWaitEvent(stream_, ready_), "cudaStreamWaitEvent");
    prepared_ = false;
  }
  // An event that was never recorded is reached.
  check(cudaStreamWaitEvent(stream_, downloaded_[runs_ % downloaded_.size()]),
        "cudaStreamWaitEvent");
  if (!graphs_ || profiling_) {
    enqueue();
  } else {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> owner(graph, cudaGraphDestroy);
    launch(graph);
  }
  check(cudaEventRecord(finished_[runs_++ % finished_.size()], stream_), "cudaEventRecord");
}

// A kept graph with the same kernels takes over the new arguments; a different piece of work, such
// as an epoch's last and smaller batch, gets a graph of its own.
void DeviceQueue::launch(cudaGraph_t graph) {
  std::vector<KernelCluster> clusters = clusters_of(graph);
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    cudaGraphExecUpdateResultInfo result{};
    if (kept->clusters != clusters) continue;
    if (cudaGraphExecUpdate(kept->graph, graph, &result) == cudaSuccess) {
      std::rotate(kept_.begin(), kept, kept + 1);
      check(cudaGraphLaunch(kept_.front().graph, stream_), "cudaGraphLaunch");
      return;
    }
    cudaGetLastError();
  }
  if (kept_.size() == kGraphs) {
    cudaGraphExecDestroy(kept_.back().graph);
    kept_.pop_back();
  }
  cudaGraphExec_t fresh = nullptr;
  // What overlaps with the rest comes first where both could begin.
  check(cudaGraphInstantiate(&fresh, graph, cudaGraphInstantiateFlagUseNodePriority),
        "cudaGraphInstantiate");
  kept_.insert(kept_.begin(), {fresh, std::move(clusters)});
  check(cudaGraphLaunch(fresh, stream_), "cudaGraphLaunch");
}

// One that the device is at goes when it is done.
void DeviceQueue::drop_graphs() {
  for (const Kept& kept : kept_) cudaGraphExecDestroy(kept.graph);
  kept_.clear();
}

DeviceQueue::Piece& DeviceQueue::next_piece(std::size_t bytes) {
  Piece& piece = pieces_[piece_];
  piece_ = (piece_ + 1) % kPieces;
  check(cudaEventSynchronize(piece.sent), "cudaEventSynchronize");
  if (piece.size < bytes) {
    if (piece.host) check(cudaFreeHost(piece.host), "cudaFreeHost");
    piece.host = nullptr;
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes + bytes / 4, cudaHostAllocDefault), "cudaHostAlloc");
    piece.host = static_cast<std::byte*>(memory);
    piece.size = bytes + bytes / 4;
  }
  return piece;
}

void DeviceQueue::upload(void* to, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  Piece& piece = next_piece(bytes);
  std::memcpy(piece.host, host, bytes);
  if (!copied_) wait_for_run_before_last(copies_);
  check(cudaMemcpyAsync(to, piece.host, bytes, cudaMemcpyHostToDevice, copies_), "cudaMemcpyAsync");
  check(cudaEventRecord(piece.sent, copies_), "cudaEventRecord");
  copied_ = true;
}

// What the run before the last one read may be overwritten then; the last one may still be going
// on.
void DeviceQueue::wait_for_run_before_last(cudaStream_t stream) {
  if (runs_ >= finished_.size())
    check(cudaStreamWaitEvent(stream, finished_[runs_ % finished_.size()]), "cudaStreamWaitEvent");
}

void DeviceQueue::wait_for_last_run(cudaStream_t stream) {
  if (runs_ > 0)
    check(cudaStreamWaitEvent(stream, finished_[(runs_ - 1) % finished_.size()]),
          "cudaStreamWaitEvent");
}

void DeviceQueue::prepare(const std::function<void()>& enqueue) {
  wait_for_run_before_last(prefetch_);
  if (copied_) check(cudaStreamWaitEvent(prefetch_, last_sent()), "cudaStreamWaitEvent");
  enqueue();
  check(cudaEventRecord(ready_, prefetch_), "cudaEventRecord");
  prepared_ = true;
}

void DeviceQueue::download(void* host, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  wait_for_last_run(back_);
  check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, back_), "cudaMemcpyAsync");
  const std::size_t last = (runs_ + downloaded_.size() - 1) % downloaded_.size();
  check(cudaEventRecord(downloaded_[last], back_), "cudaEventRecord");
}

void DeviceQueue::stage(const char* name) {
  if (!profiling_) return;
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  stages_.emplace_back(name, event);
  check(cudaEventRecord(event, stream_), "cudaEventRecord");
}

std::vector<WorkQueue::StageTime> DeviceQueue::stage_times() {
  wait_for_all();
  std::vector<StageTime> times;
  for (std::size_t i = 0; i + 1 < stages_.size(); ++i) {
    const std::string name = stages_[i].first;
    auto at = std::find_if(times.begin(), times.end(),
                           [&](const StageTime& time) { return time.name == name; });
    if (at == times.end()) at = times.insert(times.end(), StageTime{name});
    float milliseconds = 0.0f;
    check(cudaEventElapsedTime(&milliseconds, stages_[i].second, stages_[i + 1].second),
          "cudaEventElapsedTime");
    at->seconds += 1e-3 * double(milliseconds);
    ++at->count;
  }
  for (const auto& [name, event] : stages_) cudaEventDestroy(event);
  stages_.clear();
  return times;
}

void* DeviceQueue::staging(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault),
        "cudaHostAlloc");
  staging_.push_back(memory);
  return memory;
}

WorkQueue::Mark DeviceQueue::mark() {
  wait_for_last_run(back_);
  check(cudaEventRecord(marks_[std::size_t(next_mark_) % kMarks], back_), "cudaEventRecord");
  return next_mark_++;
}

// An event that has been recorded again since stands for a later mark: reaching it is enough.
bool DeviceQueue::reached(Mark mark) {
  const cudaError_t status = cudaEventQuery(marks_[std::size_t(mark) % kMarks]);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

void DeviceQueue::wait(Mark mark) {
  check(cudaEventSynchronize(marks_[std::size_t(mark) % kMarks]), "cudaEventSynchronize");
}

void DeviceQueue::wait_for_all() {
  for (cudaStream_t stream : {copies_, prefetch_, stream_, back_})
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace norn::cuda
