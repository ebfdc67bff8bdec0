// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/collectives.h"
#include "src/parallel/gpu/side_stream.h"
#include "src/parallel/gpu/transport.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace norn {

/// Collectives of GPUs as work of a queue: each by the first of `transports` that takes it, in the
/// order of the queue's stream or beside it.
class GpuCollectives final : public Collectives {
 public:
  /// The last of the transports takes everything.
  GpuCollectives(Communicator& ranks, WorkQueue& queue, Memory& memory,
                 std::vector<std::unique_ptr<Transport>> transports);
  ~GpuCollectives() override;
  GpuCollectives(const GpuCollectives&) = delete;
  GpuCollectives& operator=(const GpuCollectives&) = delete;
  std::string describe() const override;

 private:
  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override;
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override;
  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override;
  void do_reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                 std::span<const Range> shares) override;
  bool exchanges() const override { return true; }
  std::vector<MatrixView<const float>> do_exchange_columns(
      std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
      std::span<const Range> shares) override;
  void do_all_reduce_sum(std::span<std::int64_t> values) override;
  void do_all_reduce_max(std::span<float> values) override;
  bool can_overlap() const override { return true; }
  void do_overlap(const std::function<void()>& enqueue) override { streams_->overlap(enqueue); }
  void do_wait_for_overlapped() override { streams_->wait_for_overlapped(); }
  bool reached(WorkQueue& queue, WorkQueue::Mark mark) override;
  void give_up() override;

  void begin();
  template <typename T>
  void gather_columns(MatrixView<T> whole, std::span<const Range> shares);
  template <typename T>
  void trace(MatrixView<T> part);
  void wait_for_stream();
  /// ask(transport), of the first transport that takes it, is sent.
  template <typename Ask>
  void move(const Ask& ask);

  WorkQueue& queue_;
  Memory& memory_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::unique_ptr<SideStream> streams_;
  cudaEvent_t traced_ = nullptr;  // what comes before a collective that is traced
  bool ended_ = false;            // after an error
};

}  // namespace norn
