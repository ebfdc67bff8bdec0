// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/gpu/transport.h"
#include "src/tensor/buffer.h"
#include "src/tensor/work_queue.h"

#include <string>

#include <nccl.h>

namespace norn {

/// For GPUs of any machines, each of one rank: takes every collective. Shares of columns are packed
/// in one workspace, sent whole, and unpacked.
class NcclTransport final : public Transport {
 public:
  /// Packs in `memory`, as work of `queue`. All ranks call it together. Throws CommunicationError
  /// when the GPUs cannot be joined.
  NcclTransport(Communicator& ranks, int device, WorkQueue& queue, Memory& memory);
  ~NcclTransport() override;
  std::string describe() const override;

  std::optional<Transfer> gather_columns(const ByteMatrix& whole,
                                         std::span<const Range> shares) override;
  std::optional<Transfer> gather_rows(std::byte* whole, std::span<const Range> shares) override;
  std::optional<Transfer> reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                                 std::span<const Range> shares) override;
  std::optional<Transfer> exchange_columns(std::span<const MatrixView<const float>> mine,
                                           std::int64_t rows, std::span<const Index> counts,
                                           std::span<const Range> shares,
                                           std::vector<MatrixView<const float>>& received) override;
  std::optional<Transfer> all_reduce_sum(std::span<std::int64_t> values) override;
  std::optional<Transfer> all_reduce_max(std::span<float> values) override;
  void check_state() override;
  void give_up() override;

 private:
  void check(ncclResult_t result, const char* call) const;
  std::byte* workspace(Index bytes);
  void copy(const ByteMatrix& from, const ByteMatrix& to) const;
  std::size_t rank() const { return std::size_t(ranks_.rank()); }

  Communicator& ranks_;
  WorkQueue& queue_;
  cudaStream_t stream_;  // the queue's
  Memory& memory_;
  ncclComm_t comm_ = nullptr;
  Buffer<std::byte> packed_;
};

}  // namespace norn
