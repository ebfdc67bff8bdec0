// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/parallel/communicator.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

/// How bytes come from one GPU's memory to another's. GpuCollectives asks one transport after the
/// other, and gives what the first of them makes ready to a stream.
namespace norn {

/// A matrix as rows of bytes: row r begins `stride` bytes behind row r - 1.
struct ByteMatrix {
  std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t stride = 0;
};

/// A collective that waits for nothing but its stream: what it packs has been packed.
struct Transfer {
  std::function<void(cudaStream_t)> send;     ///< may overlap with other work of the GPU
  std::vector<std::function<void()>> unpack;  ///< work of the GPU's own stream, behind `send`
};

/// All ranks call the same functions in the same order with the same shapes. A function that
/// returns nothing has done nothing, on any rank: the collective does not fit this transport.
/// `shares` of columns and rows are in bytes, one for each rank, in rank order.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  /// "NCCL 2.28.3", "peer memory": for logs.
  virtual std::string describe() const = 0;

  /// Bytes shares[r] of every row of rank r come to all ranks. The matrix is not empty.
  virtual std::optional<Transfer> gather_columns(const ByteMatrix& whole,
                                                 std::span<const Range> shares) = 0;
  /// Bytes shares[r] behind `whole` of rank r come to all ranks.
  virtual std::optional<Transfer> gather_rows(std::byte* /*whole*/,
                                              std::span<const Range> /*shares*/) {
    return std::nullopt;
  }
  /// The columns shares[rank] of every matrix become the sums of all ranks.
  virtual std::optional<Transfer> reduce_scatter_columns(
      std::span<const MatrixView<std::int64_t>> wholes, std::span<const Range> shares) = 0;
  /// As Collectives::exchange_columns; `received` is where the other ranks' matrices will stand.
  virtual std::optional<Transfer> exchange_columns(
      std::span<const MatrixView<const float>> mine, std::int64_t rows,
      std::span<const Index> counts, std::span<const Range> shares,
      std::vector<MatrixView<const float>>& received) = 0;
  virtual std::optional<Transfer> all_reduce_sum(std::span<std::int64_t> values) = 0;
  /// Of magnitudes: none is negative.
  virtual std::optional<Transfer> all_reduce_max(std::span<float> values) = 0;

  /// Throws CommunicationError when a collective has failed meanwhile.
  virtual void check_state() {}
  /// What waits on the device for other ranks ends at once; its results are of no use.
  virtual void give_up() = 0;
};

}  // namespace norn
