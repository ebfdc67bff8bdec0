// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

/// Collectives of GPUs that read and write each other's memory: one kernel each.
namespace norn {

constexpr int kMostPeers = 8;
constexpr int kMostPeerMatrices = 4;
/// Thread blocks of a kernel, at most. Those of one number wait for each other on all ranks.
constexpr int kMostPeerBlocks = 64;

/// Where ranks tell each other how far they are. Every kernel of a run has a number, `turn`, which
/// grows by one from kernel to kernel and is the same on all ranks.
struct PeerBoard {
  int rank = 0;
  int ranks = 0;
  std::uint64_t sequence = 0;
  std::uint64_t* flags[kMostPeers] = {};  ///< of every rank: [kMostPeerBlocks x kMostPeers]
  const int* given_up = nullptr;          ///< of the host: nobody waits when it is not 0
};
constexpr std::size_t kPeerFlagBytes =
    sizeof(std::uint64_t) * std::size_t(kMostPeerBlocks) * std::size_t(kMostPeers);

/// Rows of memory of which every rank has a run of columns; extents are in bytes.
struct PeerColumns {
  std::int64_t rows = 0;
  std::int64_t begin[kMostPeers] = {};
  std::int64_t bytes[kMostPeers] = {};
};

/// Sends columns `begin[r]` of `matrices` matrices to every other rank r, one matrix packed after
/// the other from to[r] on.
struct PeerSend {
  PeerColumns columns;
  int blocks = 1;  ///< of threads; the same on all ranks
  int matrices = 0;
  const std::byte* from[kMostPeerMatrices] = {};
  std::int64_t stride[kMostPeerMatrices] = {};  ///< bytes from row to row
  std::byte* to[kMostPeers] = {};
};
/// As work of `stream`; later work of it finds what the others sent. Addresses and extents are
/// multiples of 4 bytes.
cudaError_t peer_send(const PeerBoard& board, const PeerSend& send, cudaStream_t stream);

/// Makes `whole` complete: own columns are sent to all others, packed from to[r] on, and theirs,
/// packed from from[r] on, are put into their places.
struct PeerGather {
  PeerColumns columns;
  int blocks = 1;              ///< of threads; the same on all ranks
  std::byte* whole = nullptr;  ///< at a multiple of 16 bytes
  std::int64_t stride = 0;     ///< bytes from row to row, the same on all ranks
  std::byte* to[kMostPeers] = {};
  const std::byte* from[kMostPeers] = {};
};
cudaError_t peer_gather(const PeerBoard& board, const PeerGather& gather, cudaStream_t stream);

/// Columns begin[rank] of the matrices become the sums over all ranks, of int64 accumulators: what
/// the others bring stands packed from from[r] on, as `sent` says of what this rank sends.
struct PeerReduce {
  PeerSend sent;
  const std::byte* from[kMostPeers] = {};
};
cudaError_t peer_reduce(const PeerBoard& board, const PeerReduce& reduce, cudaStream_t stream);

/// A place of every rank.
using PeerWorkspaces = std::array<std::byte*, std::size_t(kMostPeers)>;

/// `values` become the sums, or the largest, of all ranks: `count` each, sent to places of
/// `workspace[r]` of every rank, which has ranks x count of them.
cudaError_t peer_sum(const PeerBoard& board, std::int64_t* values, std::int64_t count,
                     const PeerWorkspaces& workspace, int blocks, cudaStream_t stream);
cudaError_t peer_max(const PeerBoard& board, std::int32_t* values, std::int64_t count,
                     const PeerWorkspaces& workspace, int blocks, cudaStream_t stream);

}  // namespace norn
