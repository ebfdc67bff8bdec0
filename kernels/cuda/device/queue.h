// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/graph_clusters.h"
#include "src/tensor/work_queue.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace norn::cuda {

/// Work in the order of one stream, beside it copies to the device on a second one and what
/// prepares them on a third.
class DeviceQueue final : public WorkQueue {
 public:
  /// `left_free`: what leave_free() sets.
  DeviceQueue(cudaStream_t stream, cudaStream_t prefetch, int* left_free, bool graphs, int depth);
  ~DeviceQueue() override;

  void run(const std::function<void()>& enqueue) override;
  bool make_graphs(bool on) override { return std::exchange(graphs_, on); }
  void drop_graphs() override;
  void* native_stream() override { return stream_; }
  void upload(void* to, const void* host, std::size_t bytes) override;
  void prepare(const std::function<void()>& enqueue) override;
  void download(void* host, const void* from, std::size_t bytes) override;
  void* staging(std::size_t bytes) override;
  void profile(bool on) override { profiling_ = on; }
  void stage(const char* name) override;
  std::vector<StageTime> stage_times() override;
  void leave_free(int multiprocessors) override { *left_free_ = multiprocessors; }
  int depth() const override { return depth_; }
  Mark mark() override;
  bool reached(Mark mark) override;
  void wait(Mark mark) override;
  void wait_for_all() override;

 private:
  /// A page-locked piece on its way to the device.
  struct Piece {
    std::byte* host = nullptr;
    std::size_t size = 0;
    cudaEvent_t sent = nullptr;
  };
  struct Kept {
    cudaGraphExec_t graph = nullptr;
    std::vector<KernelCluster> clusters;
  };
  static constexpr std::size_t kPieces = 32;
  static constexpr std::size_t kMarks = 64;
  static constexpr std::size_t kGraphs = 4;

  void launch(cudaGraph_t graph);
  Piece& next_piece(std::size_t bytes);
  cudaEvent_t last_sent() const { return pieces_[(piece_ + kPieces - 1) % kPieces].sent; }
  void wait_for_run_before_last(cudaStream_t stream);
  void wait_for_last_run(cudaStream_t stream);

  cudaStream_t stream_;
  cudaStream_t prefetch_;
  cudaStream_t copies_ = nullptr;
  cudaStream_t back_ = nullptr;  // downloads
  int* left_free_;
  bool graphs_;
  int depth_;
  std::vector<Kept> kept_;  // the one used last stands first
  std::array<Piece, kPieces> pieces_;
  std::size_t piece_ = 0;
  bool copied_ = false;                    // since the last run
  bool prepared_ = false;                  // since the last run
  cudaEvent_t ready_ = nullptr;            // what was prepared last
  std::array<cudaEvent_t, 2> finished_{};  // the last two runs
  std::size_t runs_ = 0;
  std::array<cudaEvent_t, 2> downloaded_{};  // what those two runs left
  std::array<cudaEvent_t, kMarks> marks_{};
  Mark next_mark_ = 0;
  std::vector<void*> staging_;
  bool profiling_ = false;
  std::vector<std::pair<const char*, cudaEvent_t>> stages_;
};

}  // namespace norn::cuda
