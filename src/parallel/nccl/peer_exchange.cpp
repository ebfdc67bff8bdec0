// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of a machine share, and what they send each other through it.
//
// A room has two halves, which sends use in turn. A rank writes into a half of another's again two
// sends later; it has met all ranks at the send between, where none comes before it is done with
// what the send before brought. So nobody waits before he writes.
#include "src/parallel/nccl/peer_exchange.h"

#include "norn/base/error.h"
#include "norn/base/host.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
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

bool is_off() {
  const char* value = std::getenv("NORN_PEER_MEMORY");
  return value != nullptr && std::string(value) == "off";
}

/// The rank's memory, for the others.
struct Offer {
  bool good = false;
  cudaIpcMemHandle_t handle{};
};

}  // namespace

std::unique_ptr<PeerExchange> PeerExchange::make(Communicator& ranks, Check check) {
  const std::string mine = (is_off() ? "off " : "on ") + host_name();
  bool together = ranks.size() <= kMostPeers && !is_off();
  for (const std::vector<std::byte>& theirs : ranks.gather_to_all(std::as_bytes(std::span(mine))))
    together = together && theirs.size() == mine.size() &&
               std::memcmp(theirs.data(), mine.data(), mine.size()) == 0;
  if (ranks.any(!together)) return nullptr;
  std::unique_ptr<PeerExchange> exchange(new PeerExchange(ranks, std::move(check)));
  const bool failed = !exchange->prepare();
  cudaGetLastError();
  return ranks.any(failed) ? nullptr : std::move(exchange);
}

bool PeerExchange::prepare() {
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

PeerExchange::~PeerExchange() {
  // After an error the others may still write here; the end of the process frees it.
  if (given_up_ && *given_up_ != 0) return;
  for (const Shared& room : rooms_) release(room);
  release(small_);
  release(flags_);
  if (given_up_) cudaFreeHost(given_up_);
}

// Zeros, before any rank can reach them.
std::optional<PeerExchange::Shared> PeerExchange::share(std::int64_t bytes) {
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

void PeerExchange::release(const Shared& shared) const {
  for (int r = 0; r < ranks_.size(); ++r) {
    std::byte* const place = shared.of[std::size_t(r)];
    if (place == nullptr) continue;
    if (r == ranks_.rank())
      cudaFree(place);
    else
      cudaIpcCloseMemHandle(place);
  }
}

// The half for a send in which ranks get at most `bytes`. Smaller rooms stay: steps that were
// captured use them.
const PeerExchange::Places* PeerExchange::room(std::int64_t bytes) {
  if (rooms_.empty() || rooms_.back().bytes < 2 * bytes) {
    if (full_) return nullptr;
    const std::optional<Shared> shared = share(2 * bytes);
    full_ = !shared;
    if (full_) return nullptr;
    rooms_.push_back(*shared);
  }
  const Shared& room = rooms_.back();
  const std::int64_t half = room.bytes / 2 / 16 * 16;
  for (int r = 0; r < board_.ranks; ++r)
    at_[std::size_t(r)] = room.of[std::size_t(r)] + (sends_ % 2 == 0 ? 0 : half);
  ++sends_;
  return &at_;
}

PeerBoard PeerExchange::next_turn() {
  ++board_.turn;
  return board_;
}

bool PeerExchange::gather_columns(std::byte* whole, std::int64_t stride, std::int64_t rows,
                                  std::span<const Range> shares, cudaStream_t stream) {
  PeerGather gather;
  gather.whole = whole;
  gather.stride = stride;
  gather.columns.rows = rows;
  std::array<std::int64_t, std::size_t(kMostPeers)> at{};
  std::int64_t all = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    gather.columns.begin[r] = shares[r].begin;
    gather.columns.bytes[r] = shares[r].count();
    at[r] = all;
    all += aligned(rows * shares[r].count());
  }
  require(reinterpret_cast<std::uintptr_t>(whole) % 16 == 0,
          "collectives: a matrix that is gathered must begin at a multiple of 16 bytes");
  if (all / 2 > kMostWords) return false;
  const Places* const places = room(all);
  if (!places) return false;
  const auto me = std::size_t(board_.rank);
  for (std::size_t r = 0; r < shares.size(); ++r) {
    gather.to[r] = (*places)[r] + at[me];
    gather.from[r] = (*places)[me] + at[r];
  }
  gather.blocks = blocks_for(all);
  check_(peer_gather(next_turn(), gather, stream));
  return true;
}

// What every rank sends to the owners of its matrices' columns, and where this one finds what it
// gets: of what the ranks send one after the other, without its own.
template <typename T>
std::optional<PeerReduce> PeerExchange::places(std::span<const MatrixView<T>> mine,
                                               std::int64_t rows, std::span<const Index> counts,
                                               std::span<const Range> shares) {
  for (const Index count : counts)
    if (count > kMostPeerMatrices) return std::nullopt;
  const auto me = std::size_t(board_.rank);
  // Where what rank `from` sends to rank `to` stands in that one's room.
  const auto place = [&](std::size_t from, std::size_t to) {
    std::int64_t at = 0;
    for (std::size_t r = 0; r < from; ++r)
      if (r != to) at += aligned(counts[r] * rows * shares[to].count());
    return at;
  };
  std::int64_t most = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) most = std::max(most, place(shares.size(), r));
  if (most / 4 > kMostWords) return std::nullopt;
  const Places* const rooms = room(most);
  if (!rooms) return std::nullopt;
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
    send.to[r] = (*rooms)[r] + place(me, r);
    if (r != me) reduce.from[r] = (*rooms)[me] + place(r, me);
  }
  send.blocks = blocks_for(most);
  return reduce;
}

std::optional<std::vector<const std::byte*>> PeerExchange::exchange_columns(
    std::span<const MatrixView<const float>> mine, std::int64_t rows, std::span<const Index> counts,
    std::span<const Range> shares, cudaStream_t stream) {
  const std::optional<PeerReduce> at = places(mine, rows, counts, shares);
  if (!at) return std::nullopt;
  check_(peer_send(next_turn(), at->sent, stream));
  return std::vector<const std::byte*>(at->from, at->from + shares.size());
}

bool PeerExchange::reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                          std::span<const Range> shares, cudaStream_t stream) {
  const std::vector<Index> counts(shares.size(), Index(wholes.size()));
  const std::optional<PeerReduce> at = places(wholes, wholes[0].rows, counts, shares);
  if (at) check_(peer_reduce(next_turn(), *at, stream));
  return at.has_value();
}

template <typename T, typename Launch>
bool PeerExchange::join(std::span<T> values, const Launch& launch) {
  const auto bytes = std::int64_t(values.size_bytes());
  if (bytes > kSmallBytes) return false;
  if (bytes == 0) return true;
  const std::int64_t half = board_.ranks * kSmallBytes;
  std::byte* room[kMostPeers] = {};
  for (int r = 0; r < board_.ranks; ++r)
    room[r] = small_.of[std::size_t(r)] + (sums_ % 2 == 0 ? 0 : half);
  ++sums_;
  check_(launch(room, blocks_for(bytes * 8)));
  return true;
}

bool PeerExchange::all_reduce_sum(std::span<std::int64_t> values, cudaStream_t stream) {
  return join(values, [&](const auto& room, int blocks) {
    return peer_sum(next_turn(), values.data(), std::int64_t(values.size()), room, blocks, stream);
  });
}

bool PeerExchange::all_reduce_max(std::span<float> values, cudaStream_t stream) {
  return join(values, [&](const auto& room, int blocks) {
    return peer_max(next_turn(), reinterpret_cast<std::int32_t*>(values.data()),
                    std::int64_t(values.size()), room, blocks, stream);
  });
}

}  // namespace norn
