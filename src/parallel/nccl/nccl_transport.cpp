// SPDX-License-Identifier: Apache-2.0
// Columns of several ranks through NCCL.
#include "src/parallel/nccl/nccl_transport.h"

#include "src/parallel/gpu/copy_rows.h"
#include "src/parallel/gpu/gpu_collectives.h"
#include "src/parallel/gpu/gpu_error.h"
#include "src/parallel/gpu/peer_transport.h"
#include "src/parallel/nccl/nccl_settings.h"
#include "src/parallel/rank_facts.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace norn {
namespace {

Index largest(std::span<const Range> shares) {
  Index most = 0;
  for (const Range& share : shares) most = std::max(most, share.count());
  return most;
}

/// The rank that has all units; -1 when there are several with some.
int only_owner(std::span<const Range> shares) {
  int owner = -1;
  for (int r = 0; r < int(shares.size()); ++r) {
    if (shares[std::size_t(r)].count() == 0) continue;
    if (owner >= 0) return -1;
    owner = r;
  }
  return std::max(owner, 0);
}

/// The bytes `share` of every row.
ByteMatrix columns(const ByteMatrix& whole, const Range& share) {
  return {whole.data + share.begin, whole.rows, share.count(), whole.stride};
}
/// Without gaps between its rows.
ByteMatrix packed_at(std::byte* data, Index rows, const Range& share) {
  return {data, rows, share.count(), share.count()};
}
template <typename T>
ByteMatrix bytes_of(const MatrixView<T>& matrix) {
  const auto size = Index(sizeof(T));
  return {reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(matrix.data)),
          matrix.rows, matrix.cols * size, matrix.stride * size};
}

/// Begun on a thread of its own, since it waits for the other ranks without a limit.
struct Beginning {
  std::atomic<bool> done = false;
  ncclResult_t result = ncclSuccess;
  ncclComm_t comm = nullptr;
};

/// To and from one other rank, in bytes.
struct Message {
  int peer = 0;
  const std::byte* sent = nullptr;
  Index send = 0;
  std::byte* received = nullptr;
  Index receive = 0;
};

}  // namespace

NcclTransport::NcclTransport(Communicator& ranks, int device, WorkQueue& queue, Memory& memory)
    : ranks_(ranks),
      queue_(queue),
      stream_(static_cast<cudaStream_t>(queue.native_stream())),
      memory_(memory) {
  set_nccl_up();
  ncclUniqueId id{};
  if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  const auto beginning = std::make_shared<Beginning>();
  std::thread([beginning, id, device, rank = ranks.rank(), size = ranks.size()] {
    cudaSetDevice(device);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    beginning->result = ncclCommInitRankConfig(&beginning->comm, size, id, rank, &config);
    beginning->done.store(true, std::memory_order_release);
  }).detach();
  ranks.wait_for([&] { return beginning->done.load(std::memory_order_acquire); },
                 "joining the GPUs");
  check(beginning->result, "ncclCommInitRankConfig");
  comm_ = beginning->comm;
}

NcclTransport::~NcclTransport() {
  if (comm_ == nullptr) return;
  queue_.drop_graphs();  // NCCL waits for the end of every graph with its work
  ncclCommDestroy(comm_);
}

std::string NcclTransport::describe() const {
  return "NCCL " + nccl_version();
}

void NcclTransport::check(ncclResult_t result, const char* call) const {
  if (result == ncclSuccess) return;
  const char* detail = ncclGetLastError(comm_);
  fail_gpu(ranks_, call, fmt::format("{} ({})", ncclGetErrorString(result), detail ? detail : ""));
}

std::byte* NcclTransport::workspace(Index bytes) {
  if (packed_.size() < bytes) packed_ = Buffer<std::byte>(bytes, memory_);
  return packed_.data();
}

void NcclTransport::copy(const ByteMatrix& from, const ByteMatrix& to) const {
  if (from.rows == 0 || from.row_bytes == 0) return;
  check_gpu(
      ranks_,
      copy_rows({to.data, to.stride}, {from.data, from.stride}, from.row_bytes, from.rows, stream_),
      "copy_rows");
}

std::optional<Transfer> NcclTransport::gather_columns(const ByteMatrix& whole,
                                                      std::span<const Range> shares) {
  if (const int owner = only_owner(shares); owner >= 0 && whole.stride == whole.row_bytes) {
    const auto bytes = std::size_t(whole.rows * whole.row_bytes);
    return Transfer{[=, this, data = whole.data](cudaStream_t stream) {
                      check(ncclBroadcast(data, data, bytes, ncclInt8, owner, comm_, stream),
                            "ncclBroadcast");
                    },
                    {}};
  }
  const Index bytes = whole.rows * largest(shares);  // of a rank
  std::byte* const all = workspace(bytes * Index(shares.size()));
  const auto packed = [&](std::size_t r) {
    return packed_at(all + Index(r) * bytes, whole.rows, shares[r]);
  };
  const ByteMatrix mine = packed(rank());
  copy(columns(whole, shares[rank()]), mine);
  Transfer transfer;
  transfer.send = [=, this](cudaStream_t stream) {
    check(ncclAllGather(mine.data, all, std::size_t(bytes), ncclInt8, comm_, stream),
          "ncclAllGather");
  };
  for (std::size_t r = 0; r < shares.size(); ++r)
    if (r != rank())
      transfer.unpack.push_back(
          [this, from = packed(r), to = columns(whole, shares[r])] { copy(from, to); });
  return transfer;
}

// Every rank's are broadcast where they are, in one go.
std::optional<Transfer> NcclTransport::gather_rows(std::byte* whole,
                                                   std::span<const Range> shares) {
  const std::vector<Range> runs(shares.begin(), shares.end());
  return Transfer{[=, this](cudaStream_t stream) {
                    check(ncclGroupStart(), "ncclGroupStart");
                    for (std::size_t r = 0; r < runs.size(); ++r) {
                      if (runs[r].count() == 0) continue;
                      std::byte* const rows = whole + runs[r].begin;
                      check(ncclBroadcast(rows, rows, std::size_t(runs[r].count()), ncclInt8,
                                          int(r), comm_, stream),
                            "ncclBroadcast");
                    }
                    check(ncclGroupEnd(), "ncclGroupEnd");
                  },
                  {}};
}

std::optional<Transfer> NcclTransport::reduce_scatter_columns(
    std::span<const MatrixView<std::int64_t>> wholes, std::span<const Range> shares) {
  const Index rows = wholes[0].rows;
  const Index matrix_bytes = rows * largest(shares);
  const Index bytes = Index(wholes.size()) * matrix_bytes;  // of a rank
  std::byte* const all = workspace(bytes * Index(shares.size()));
  const auto packed = [&](std::size_t r, std::size_t m) {
    return packed_at(all + Index(r) * bytes + Index(m) * matrix_bytes, rows, shares[r]);
  };
  const auto part = [&](std::size_t r, std::size_t m) {
    return columns(bytes_of(wholes[m]), shares[r]);
  };
  for (std::size_t r = 0; r < shares.size(); ++r)
    for (std::size_t m = 0; m < wholes.size(); ++m) copy(part(r, m), packed(r, m));
  Transfer transfer;
  transfer.send = [=, this, sum = packed(rank(), 0).data](cudaStream_t stream) {
    check(ncclReduceScatter(all, sum, std::size_t(bytes) / sizeof(std::int64_t), ncclInt64, ncclSum,
                            comm_, stream),
          "ncclReduceScatter");
  };
  for (std::size_t m = 0; m < wholes.size(); ++m)
    transfer.unpack.push_back(
        [this, from = packed(rank(), m), to = part(rank(), m)] { copy(from, to); });
  return transfer;
}

std::optional<Transfer> NcclTransport::exchange_columns(
    std::span<const MatrixView<const float>> mine, std::int64_t rows, std::span<const Index> counts,
    std::span<const Range> shares, std::vector<MatrixView<const float>>& received) {
  const std::size_t me = rank();
  const auto bytes = [&](std::size_t from, std::size_t to) {
    return counts[from] * rows * shares[to].count();
  };
  Index all = 0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    if (r != me) all += bytes(me, r) + bytes(r, me);
  std::byte* at = workspace(all);
  const Index width = shares[me].count() / Index(sizeof(float));
  std::vector<Message> messages;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    if (r == me) continue;
    Message message{int(r), at, bytes(me, r), nullptr, bytes(r, me)};
    for (const MatrixView<const float>& matrix : mine) {
      copy(columns(bytes_of(matrix), shares[r]), packed_at(at, rows, shares[r]));
      at += rows * shares[r].count();
    }
    message.received = at;
    messages.push_back(message);
    for (Index m = 0; m < counts[r]; ++m, at += rows * shares[me].count())
      received.push_back({reinterpret_cast<const float*>(at), rows, width, width});
  }
  return Transfer{
      [this, messages](cudaStream_t stream) {
        check(ncclGroupStart(), "ncclGroupStart");
        for (const Message& m : messages) {
          if (m.send > 0)
            check(ncclSend(m.sent, std::size_t(m.send), ncclInt8, m.peer, comm_, stream),
                  "ncclSend");
          if (m.receive > 0)
            check(ncclRecv(m.received, std::size_t(m.receive), ncclInt8, m.peer, comm_, stream),
                  "ncclRecv");
        }
        check(ncclGroupEnd(), "ncclGroupEnd");
      },
      {}};
}

std::optional<Transfer> NcclTransport::all_reduce_sum(std::span<std::int64_t> values) {
  return Transfer{[=, this](cudaStream_t stream) {
                    check(ncclAllReduce(values.data(), values.data(), values.size(), ncclInt64,
                                        ncclSum, comm_, stream),
                          "ncclAllReduce");
                  },
                  {}};
}

// The bits of floats that are not negative grow with them, and those of a NaN are beyond all.
std::optional<Transfer> NcclTransport::all_reduce_max(std::span<float> values) {
  return Transfer{[=, this](cudaStream_t stream) {
                    check(ncclAllReduce(values.data(), values.data(), values.size(), ncclInt32,
                                        ncclMax, comm_, stream),
                          "ncclAllReduce");
                  },
                  {}};
}

void NcclTransport::check_state() {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  if (state != ncclInProgress) check(state, "a collective");
}

/// Ends what the device waits for.
void NcclTransport::give_up() {
  if (comm_ == nullptr) return;
  queue_.drop_graphs();
  ncclCommAbort(std::exchange(comm_, nullptr));
}

bool has_nccl() {
  return true;
}

std::unique_ptr<Collectives> make_gpu_collectives(Communicator& ranks, int device, WorkQueue& queue,
                                                  Memory& memory, bool peer_memory) {
  auto nccl = std::make_unique<NcclTransport>(ranks, device, queue, memory);
  std::vector<std::unique_ptr<Transport>> transports;
  if (auto peers = PeerTransport::make(ranks, peer_memory)) transports.push_back(std::move(peers));
  transports.push_back(std::move(nccl));
  return std::make_unique<GpuCollectives>(ranks, queue, memory, std::move(transports));
}

}  // namespace norn
