// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of a machine share, and what they send each other through it.
//
// A workspace has two halves, which sends use in turn. A rank writes into a half of another's again
// two sends later; it has met all ranks at the send between, where none comes before it is done
// with what the send before brought. So nobody waits before he writes.
#include "src/parallel/gpu/peer_transport.h"

#include "norn/base/error.h"
#include "src/base/host.h"
#include "src/parallel/gpu/gpu_error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace norn {
namespace {

// A GPU's memory is handed over in whole pages.
constexpr std::int64_t kPage = 2 << 20;
constexpr std::int64_t kSmallBytes = 256 << 10;   // of a rank's values in an all_reduce
constexpr std::int64_t kMostWords = 1 << 30;      // kernels number them in 32 bits
constexpr std::int64_t kBytesOfBlock = 32 << 10;  // that make another block worth it

std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 15) / 16 * 16;
}

int blocks_for(std::int64_t bytes) {
  return int(std::clamp<std::int64_t>(bytes / kBytesOfBlock, 1, kMostPeerBlocks));
}

/// Memory may be made while a graph is captured: it is not the graph's.
class Uncaptured {
 public:
  Uncaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Uncaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Uncaptured(const Uncaptured&) = delete;
  Uncaptured& operator=(const Uncaptured&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// The rank's memory, for the others.
struct Offer {
  bool good = false;
  cudaIpcMemHandle_t handle{};
};

}  // namespace

std::unique_ptr<PeerTransport> PeerTransport::make(Communicator& ranks, bool allowed) {
  const std::string mine = (allowed ? "on " : "off ") + host_name();
  bool together = ranks.size() <= kMostPeers && allowed;
  for (const std::vector<std::byte>& theirs : ranks.gather_to_all(std::as_bytes(std::span(mine))))
    together = together && theirs.size() == mine.size() &&
               std::memcmp(theirs.data(), mine.data(), mine.size()) == 0;
  if (ranks.any(!together)) return nullptr;
  std::unique_ptr<PeerTransport> transport(new PeerTransport(ranks));
  const bool failed = !transport->prepare();
  cudaGetLastError();
  return ranks.any(failed) ? nullptr : std::move(transport);
}

bool PeerTransport::prepare() {
  board_.rank = ranks_.rank();
  board_.ranks = ranks_.size();
  const bool heeds = cudaHostAlloc(reinterpret_cast<void**>(&given_up_), sizeof *given_up_,
                                   cudaHostAllocMapped) == cudaSuccess;
  if (heeds) *given_up_ = 0;
  board_.given_up = given_up_;
  const std::optional<Shared> flags = share(std::int64_t(kPeerFlagBytes));
  if (!flags) return false;
  flags_ = *flags;
  for (int r = 0; r < board_.ranks; ++r)
    board_.flags[r] = reinterpret_cast<std::uint64_t*>(flags_.of[std::size_t(r)]);
  const std::optional<Shared> small = share(2 * board_.ranks * kSmallBytes);
  if (small) small_ = *small;
  return small && heeds;
}

PeerTransport::~PeerTransport() {
  // After an error the others may still write here; the end of the process frees it.
  if (given_up_ && *given_up_ != 0) return;
  for (const Shared& workspace : workspaces_) release(workspace);
  release(small_);
  release(flags_);
  if (given_up_) cudaFreeHost(given_up_);
}

// Zeros, before any rank can reach them.
std::optional<PeerTransport::Shared> PeerTransport::share(std::int64_t bytes) {
  const Uncaptured uncaptured;
  Shared shared;
  shared.bytes = whole_pages(bytes);
  const auto me = std::size_t(ranks_.rank());
  void* own = nullptr;
  Offer offer;
  offer.good = cudaMalloc(&own, std::size_t(shared.bytes)) == cudaSuccess &&
               cudaIpcGetMemHandle(&offer.handle, own) == cudaSuccess;
  if (offer.good) {
    cudaStream_t stream = nullptr;
    offer.good = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                 cudaMemsetAsync(own, 0, std::size_t(shared.bytes), stream) == cudaSuccess &&
                 cudaStreamSynchronize(stream) == cudaSuccess;
    if (stream) cudaStreamDestroy(stream);
  }
  shared.of[me] = static_cast<std::byte*>(own);
  const auto offers = ranks_.gather_to_all(std::as_bytes(std::span(&offer, 1)));
  bool reached = true;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    Offer theirs;
    std::memcpy(&theirs, offers[r].data(), sizeof theirs);
    void* place = nullptr;
    reached = reached && theirs.good;
    if (r == me || !reached) continue;
    reached =
        cudaIpcOpenMemHandle(&place, theirs.handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
    shared.of[r] = static_cast<std::byte*>(place);
  }
  if (!ranks_.any(!reached)) return shared;
  release(shared);
  cudaGetLastError();
  return std::nullopt;
}

void PeerTransport::release(const Shared& shared) const {
  for (int r = 0; r < ranks_.size(); ++r) {
    std::byte* const place = shared.of[std::size_t(r)];
    if (place == nullptr) continue;
    if (r == ranks_.rank())
      cudaFree(place);
    else
      cudaIpcCloseMemHandle(place);
  }
}

// The half for a send in which ranks get at most `bytes`. Smaller workspaces stay: steps that were
// captured use them.
const PeerTransport::Places* PeerTransport::workspace(std::int64_t bytes) {
  if (workspaces_.empty() || workspaces_.back().bytes < 2 * bytes) {
    if (full_) return nullptr;
    const std::optional<Shared> shared = share(2 * bytes);
    full_ = !shared;
    if (full_) return nullptr;
    workspaces_.push_back(*shared);
  }
  const Shared& workspace = workspaces_.back();
  const std::int64_t half = workspace.bytes / 2 / 16 * 16;
  for (int r = 0; r < board_.ranks; ++r)
    at_[std::size_t(r)] = workspace.of[std::size_t(r)] + (sends_ % 2 == 0 ? 0 : half);
  ++sends_;
  return &at_;
}

PeerBoard PeerTransport::next_sequence() {
  ++board_.sequence;
  return board_;
}

// launch(board, stream), with the number that it has among the kernels of all ranks.
template <typename Launch>
Transfer PeerTransport::launched(const Launch& launch) {
  return {[this, launch, board = next_sequence()](cudaStream_t stream) {
            check_gpu(ranks_, launch(board, stream), "peer memory");
          },
          {}};
}

std::optional<Transfer> PeerTransport::gather_columns(const ByteMatrix& whole,
                                                      std::span<const Range> shares) {
  PeerGather gather;
  gather.whole = whole.data;
  gather.stride = whole.stride;
  gather.columns.rows = whole.rows;
  std::array<std::int64_t, std::size_t(kMostPeers)> at{};
  std::int64_t all = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    gather.columns.begin[r] = shares[r].begin;
    gather.columns.bytes[r] = shares[r].count();
    at[r] = all;
    all += aligned(whole.rows * shares[r].count());
  }
  require(reinterpret_cast<std::uintptr_t>(whole.data) % 16 == 0,
          "collectives: a matrix that is gathered must begin at a multiple of 16 bytes");
  if (all / 2 > kMostWords) return std::nullopt;
  const Places* const places = workspace(all);
  if (!places) return std::nullopt;
  const auto me = std::size_t(board_.rank);
  for (std::size_t r = 0; r < shares.size(); ++r) {
    gather.to[r] = (*places)[r] + at[me];
    gather.from[r] = (*places)[me] + at[r];
  }
  gather.blocks = blocks_for(all);
  return launched([gather](const PeerBoard& board, cudaStream_t stream) {
    return peer_gather(board, gather, stream);
  });
}

// What every rank sends to the owners of its matrices' columns, and where this one finds what it
// gets: of what the ranks send one after the other, without its own.
template <typename T>
std::optional<PeerReduce> PeerTransport::places(std::span<const MatrixView<T>> mine,
                                                std::int64_t rows, std::span<const Index> counts,
                                                std::span<const Range> shares) {
  for (const Index count : counts)
    if (count > kMostPeerMatrices) return std::nullopt;
  const auto me = std::size_t(board_.rank);
  // Where what rank `from` sends to rank `to` stands in that one's workspace.
  const auto place = [&](std::size_t from, std::size_t to) {
    std::int64_t at = 0;
    for (std::size_t r = 0; r < from; ++r)
      if (r != to) at += aligned(counts[r] * rows * shares[to].count());
    return at;
  };
  std::int64_t most = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) most = std::max(most, place(shares.size(), r));
  if (most / 4 > kMostWords) return std::nullopt;
  const Places* const workspaces = workspace(most);
  if (!workspaces) return std::nullopt;
  PeerReduce reduce;
  PeerSend& send = reduce.sent;
  send.columns.rows = rows;
  send.matrices = int(mine.size());
  for (std::size_t m = 0; m < mine.size(); ++m) {
    send.from[m] = reinterpret_cast<const std::byte*>(mine[m].data);
    send.stride[m] = mine[m].stride * std::int64_t(sizeof(T));
  }
  for (std::size_t r = 0; r < shares.size(); ++r) {
    send.columns.begin[r] = shares[r].begin;
    send.columns.bytes[r] = shares[r].count();
    send.to[r] = (*workspaces)[r] + place(me, r);
    if (r != me) reduce.from[r] = (*workspaces)[me] + place(r, me);
  }
  send.blocks = blocks_for(most);
  return reduce;
}

std::optional<Transfer> PeerTransport::exchange_columns(
    std::span<const MatrixView<const float>> mine, std::int64_t rows, std::span<const Index> counts,
    std::span<const Range> shares, std::vector<MatrixView<const float>>& received) {
  const std::optional<PeerReduce> at = places(mine, rows, counts, shares);
  if (!at) return std::nullopt;
  const Index width = shares[std::size_t(board_.rank)].count() / Index(sizeof(float));
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const auto* matrix = reinterpret_cast<const float*>(at->from[r]);
    if (matrix == nullptr) continue;
    for (Index m = 0; m < counts[r]; ++m, matrix += rows * width)
      received.push_back({matrix, rows, width, width});
  }
  return launched([send = at->sent](const PeerBoard& board, cudaStream_t stream) {
    return peer_send(board, send, stream);
  });
}

std::optional<Transfer> PeerTransport::reduce_scatter_columns(
    std::span<const MatrixView<std::int64_t>> wholes, std::span<const Range> shares) {
  const std::vector<Index> counts(shares.size(), Index(wholes.size()));
  const std::optional<PeerReduce> at = places(wholes, wholes[0].rows, counts, shares);
  if (!at) return std::nullopt;
  return launched([reduce = *at](const PeerBoard& board, cudaStream_t stream) {
    return peer_reduce(board, reduce, stream);
  });
}

// The ranks' values go to one half of the small workspace, and those of the next sum to the other.
template <typename T, typename Launch>
std::optional<Transfer> PeerTransport::reduce_all(std::span<T> values, const Launch& launch) {
  const auto bytes = std::int64_t(values.size_bytes());
  if (bytes > kSmallBytes) return std::nullopt;
  const std::int64_t half = sums_ % 2 == 0 ? 0 : board_.ranks * kSmallBytes;
  ++sums_;
  Places workspace = {};
  for (std::size_t r = 0; r < std::size_t(board_.ranks); ++r) workspace[r] = small_.of[r] + half;
  return launched([=, blocks = blocks_for(bytes * 8)](const PeerBoard& board, cudaStream_t stream) {
    return launch(board, workspace, blocks, stream);
  });
}

std::optional<Transfer> PeerTransport::all_reduce_sum(std::span<std::int64_t> values) {
  return reduce_all(values, [values](const PeerBoard& board, const Places& workspace, int blocks,
                                     cudaStream_t stream) {
    return peer_sum(board, values.data(), std::int64_t(values.size()), workspace, blocks, stream);
  });
}

std::optional<Transfer> PeerTransport::all_reduce_max(std::span<float> values) {
  return reduce_all(values, [values](const PeerBoard& board, const Places& workspace, int blocks,
                                     cudaStream_t stream) {
    return peer_max(board, reinterpret_cast<std::int32_t*>(values.data()),
                    std::int64_t(values.size()), workspace, blocks, stream);
  });
}

}  // namespace norn
