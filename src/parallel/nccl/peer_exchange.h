// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/parallel/communicator.h"
#include "src/parallel/nccl/peer_kernels.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace norn {

/// Collectives of the GPUs of one machine that reach each other's memory: what a library sends in
/// several steps, one kernel writes where it is wanted. What a member returns false or nothing
/// for, it has not done, on no rank: it is too large for the room that they have.
/// docs/decisions/0013-peer-memory.md.
class PeerExchange {
 public:
  /// Throws for what is not cudaSuccess.
  using Check = std::function<void(cudaError_t)>;
  /// Null where ranks stand on several machines, are more than kMostPeers, or a GPU cannot reach
  /// another. All ranks call it together. `check` sees every launch. Environment:
  /// NORN_PEER_MEMORY=off.
  static std::unique_ptr<PeerExchange> make(Communicator& ranks, Check check);
  ~PeerExchange();
  PeerExchange(const PeerExchange&) = delete;
  PeerExchange& operator=(const PeerExchange&) = delete;

  /// Bytes [shares[r].begin, shares[r].end) of every row of rank r come to all ranks.
  bool gather_columns(std::byte* whole, std::int64_t stride, std::int64_t rows,
                      std::span<const Range> shares, cudaStream_t stream);
  /// Where the rows of rank r's matrices stand, packed one matrix after the other, by rank: for
  /// work that is enqueued before the next call. `shares` in bytes; counts[r]: matrices of rank r.
  std::optional<std::vector<const std::byte*>> exchange_columns(
      std::span<const MatrixView<const float>> mine, std::int64_t rows,
      std::span<const Index> counts, std::span<const Range> shares, cudaStream_t stream);
  /// The columns `shares[rank]`, in bytes, of every matrix become the sums of all ranks.
  bool reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                              std::span<const Range> shares, cudaStream_t stream);
  bool all_reduce_sum(std::span<std::int64_t> values, cudaStream_t stream);
  /// Of the bits of magnitudes.
  bool all_reduce_max(std::span<float> values, cudaStream_t stream);

  /// What waits on the device for other ranks goes on at once; its results are of no use.
  void give_up() { *given_up_ = 1; }

 private:
  using Places = std::array<std::byte*, std::size_t(kMostPeers)>;
  /// Memory of which every rank has as much, and reaches that of the others.
  struct Shared {
    Places of = {};
    std::int64_t bytes = 0;
  };

  PeerExchange(Communicator& ranks, Check check) : ranks_(ranks), check_(std::move(check)) {}
  bool prepare();
  std::optional<Shared> share(std::int64_t bytes);
  void release(const Shared& shared) const;
  const Places* room(std::int64_t bytes);
  PeerBoard next_turn();
  template <typename T>
  std::optional<PeerReduce> places(std::span<const MatrixView<T>> mine, std::int64_t rows,
                                   std::span<const Index> counts, std::span<const Range> shares);
  template <typename T, typename Launch>
  bool join(std::span<T> values, const Launch& launch);

  Communicator& ranks_;
  Check check_;
  int* given_up_ = nullptr;
  PeerBoard board_;
  Shared flags_;
  Shared small_;               // of all_reduce: two rooms
  std::vector<Shared> rooms_;  // the last one is used, the others may be in graphs
  Places at_ = {};
  bool full_ = false;  // a rank had no more memory
  std::uint32_t sums_ = 0;
  std::uint32_t sends_ = 0;
};

}  // namespace norn
