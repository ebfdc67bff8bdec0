// SPDX-License-Identifier: Apache-2.0
// Collectives of GPUs by NCCL. Shares of columns are packed, sent whole, and unpacked.

#include "norn/base/error.h"
#include "norn/parallel/collectives.h"
#include "src/parallel/nccl/copy_rows.h"
#include "src/parallel/nccl/nccl_settings.h"
#include "src/parallel/nccl/peer_exchange.h"
#include "src/parallel/nccl_version.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

namespace norn {
namespace {

template <typename T>
constexpr ncclDataType_t kType = ncclFloat32;
template <>
constexpr ncclDataType_t kType<Bfloat16> = ncclBfloat16;
template <>
constexpr ncclDataType_t kType<std::int64_t> = ncclInt64;

/// What kernels beside it leave to a collective: 0 and 8 are alike, 16 and more slower.
constexpr int kMultiprocessorsBeside = 8;

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

/// Begun on a thread of its own, since it waits for the other ranks without a limit.
struct Beginning {
  std::atomic<bool> done = false;
  ncclResult_t result = ncclSuccess;
  ncclComm_t comm = nullptr;
};

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(Communicator& ranks, int device, WorkQueue& queue, Memory& memory)
      : Collectives(ranks),
        queue_(queue),
        stream_(static_cast<cudaStream_t>(queue.native_stream())),
        memory_(memory) {
    set_nccl_up();
    ncclUniqueId id{};
    if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    const auto beginning = std::make_shared<Beginning>();
    std::thread([beginning, id, device, rank = rank(), size = size()] {
      cudaSetDevice(device);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      beginning->result = ncclCommInitRankConfig(&beginning->comm, size, id, rank, &config);
      beginning->done.store(true, std::memory_order_release);
    }).detach();
    ranks.wait_for([&] { return beginning->done.load(std::memory_order_acquire); },
                   "joining the GPUs");
    check(beginning->result, "ncclCommInitRankConfig");
    comm_ = beginning->comm;
    open_beside();
    peers_ = PeerExchange::make(ranks, [this](cudaError_t e) { check(e, "peer memory"); });
  }
  ~NcclCollectives() override {
    close();
    for (cudaEvent_t event : {forked_, done_, traced_})
      if (event) cudaEventDestroy(event);
    if (beside_) cudaStreamDestroy(beside_);
  }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  std::string describe() const override {
    return "NCCL " + nccl_version() + (peers_ ? " and peer memory" : "");
  }

 private:
  [[noreturn]] void fail(const char* call, const std::string& what) const {
    throw CommunicationError(
        fmt::format("rank {} of {} ({}): {} failed: {}; NCCL_DEBUG=INFO tells more", rank(), size(),
                    ranks().place().text(), call, what));
  }
  void check(ncclResult_t result, const char* call) const {
    if (result == ncclSuccess) return;
    const char* detail = ncclGetLastError(comm_);
    fail(call, fmt::format("{} ({})", ncclGetErrorString(result), detail ? detail : ""));
  }
  void check(cudaError_t result, const char* call) const {
    if (result != cudaSuccess) fail(call, cudaGetErrorString(result));
  }
  // One that goes on beside has the room for packed columns, and all ranks take them in one order.
  void begin() {
    if (comm_ == nullptr) fail("a collective", "an earlier one did; end the program");
    if (!forks_ || goes_on_) do_join();
  }
  void close() {
    if (comm_ == nullptr) return;
    // After an error the others may never come to what the stream waits for.
    if (std::uncaught_exceptions() > 0) {
      leave();
      return;
    }
    cudaStreamSynchronize(stream_);
    if (beside_) cudaStreamSynchronize(beside_);
    queue_.drop_graphs();  // NCCL waits for the end of every graph with its work
    ncclCommDestroy(comm_);
  }

  // Where both could begin, what goes beside comes first: other ranks wait for it.
  void open_beside() {
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&beside_, cudaStreamNonBlocking, greatest),
          "cudaStreamCreateWithPriority");
    for (cudaEvent_t* event : {&forked_, &done_, &traced_})
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  }
  bool can_go_beside() const override { return true; }
  void do_beside(const std::function<void()>& enqueue) override {
    do_join();
    forks_ = true;
    try {
      enqueue();
    } catch (...) {
      forks_ = false;
      throw;
    }
    forks_ = false;
  }
  void do_join() override {
    if (goes_on_) {
      check(cudaStreamWaitEvent(stream_, done_), "cudaStreamWaitEvent");
      queue_.leave_free(0);
    }
    goes_on_ = false;
    for (const std::function<void()>& unpack : std::exchange(unpacks_, {})) unpack();
  }
  /// send(stream), with the stream of a collective whose columns are packed by now.
  template <typename Send>
  auto on_the_way(const Send& send) {
    if (!forks_) return send(stream_);
    check(cudaEventRecord(forked_, stream_), "cudaEventRecord");
    check(cudaStreamWaitEvent(beside_, forked_), "cudaStreamWaitEvent");
    const auto sent = send(beside_);
    check(cudaEventRecord(done_, beside_), "cudaEventRecord");
    goes_on_ = true;
    queue_.leave_free(kMultiprocessorsBeside);
    return sent;
  }
  /// unpack(), once a collective is done.
  void afterwards(const std::function<void()>& unpack) {
    if (forks_)
      unpacks_.push_back(unpack);
    else
      unpack();
  }

  template <typename T>
  T* room(Index elements) {
    const Index bytes = elements * Index(sizeof(T));
    if (packed_.size() < bytes) packed_ = Buffer<std::byte>(bytes, memory_);
    return reinterpret_cast<T*>(packed_.data());
  }
  template <typename T>
  static Index bytes(Index elements) {
    return elements * Index(sizeof(T));
  }
  template <typename T>
  static std::vector<Range> in_bytes(std::span<const Range> shares) {
    std::vector<Range> runs;
    for (const Range& share : shares) runs.push_back({bytes<T>(share.begin), bytes<T>(share.end)});
    return runs;
  }
  template <typename T>
  void copy(MatrixView<const T> from, MatrixView<T> to) const {
    if (from.empty()) return;
    check(copy_rows({to.data, bytes<T>(to.stride)},
                    {const_cast<T*>(from.data), bytes<T>(from.stride)}, bytes<T>(from.cols),
                    from.rows, stream_),
          "copy_rows");
  }
  /// What stands at places[r] of rank r, one matrix of `width` columns after the other.
  static std::vector<MatrixView<const float>> unpacked(const std::vector<const std::byte*>& places,
                                                       Index rows, std::span<const Index> counts,
                                                       Index width) {
    std::vector<MatrixView<const float>> received;
    for (std::size_t r = 0; r < places.size(); ++r) {
      const float* at = reinterpret_cast<const float*>(places[r]);
      if (at == nullptr) continue;
      for (Index m = 0; m < counts[r]; ++m, at += rows * width)
        received.push_back({at, rows, width, width});
    }
    return received;
  }
  /// Within a step, whose earlier collectives may wait for a rank that is gone or late.
  void wait_for_stream() {
    check(cudaEventRecord(traced_, stream_), "cudaEventRecord");
    const auto is_reached = [this] {
      const cudaError_t state = cudaEventQuery(traced_);
      if (state != cudaErrorNotReady) check(state, "cudaEventQuery");
      return state == cudaSuccess;
    };
    try {
      ranks().wait_for(is_reached, "the device's part of a step");
    } catch (...) {
      give_up();
      throw;
    }
  }
  /// What this rank brings, for runs whose steps are verified; not while a graph is captured.
  template <typename T>
  void trace(MatrixView<T> part) {
    if (!ranks().is_traced()) return;
    wait_for_stream();
    std::vector<std::remove_const_t<T>> host(std::size_t(part.size()));
    const MatrixView<std::remove_const_t<T>> to{host.data(), part.rows, part.cols, part.cols};
    memory_.read_rows(part.data, std::size_t(part.stride) * sizeof(T), to.data,
                      std::size_t(to.stride) * sizeof(T), std::size_t(part.cols) * sizeof(T),
                      std::size_t(part.rows));
    ranks().trace(to);
  }

  template <typename T>
  void gather_columns(MatrixView<T> whole, std::span<const Range> shares) {
    begin();
    const Range mine = shares[std::size_t(rank())];
    trace(whole.columns(mine.begin, mine.count()));
    if (whole.empty()) return;
    if (peers_ && on_the_way([&](cudaStream_t stream) {
          return peers_->gather_columns(reinterpret_cast<std::byte*>(whole.data),
                                        bytes<T>(whole.stride), whole.rows, in_bytes<T>(shares),
                                        stream);
        }))
      return;
    if (const int owner = only_owner(shares); owner >= 0 && whole.stride == whole.cols) {
      check(on_the_way([&](cudaStream_t stream) {
              return ncclBroadcast(whole.data, whole.data, std::size_t(whole.size()), kType<T>,
                                   owner, comm_, stream);
            }),
            "ncclBroadcast");
      return;
    }
    const Index count = whole.rows * largest(shares);
    T* const all = room<T>(count * size());
    const auto packed = [&](int r) {
      const Index width = shares[std::size_t(r)].count();
      return MatrixView<T>{all + r * count, whole.rows, width, width};
    };
    copy<T>(whole.columns(mine.begin, mine.count()), packed(rank()));
    check(on_the_way([&](cudaStream_t stream) {
            return ncclAllGather(all + rank() * count, all, std::size_t(count), kType<T>, comm_,
                                 stream);
          }),
          "ncclAllGather");
    for (int r = 0; r < size(); ++r) {
      const Range share = shares[std::size_t(r)];
      const MatrixView<T> place = whole.columns(share.begin, share.count());
      if (r != rank()) afterwards([=, this, from = packed(r)] { copy<T>(from, place); });
    }
  }

  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    gather_columns(whole, shares);
  }

  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override {
    begin();
    const Range mine = shares[std::size_t(rank())];
    trace(whole.row_range(mine.begin, mine.count()));
    // Rows lie one after the other: every rank's are broadcast where they are, in one go.
    check(on_the_way([&](cudaStream_t stream) {
            check(ncclGroupStart(), "ncclGroupStart");
            for (int r = 0; r < size(); ++r) {
              const Range share = shares[std::size_t(r)];
              float* const rows = whole.row(share.begin);
              if (share.count() == 0 || whole.cols == 0) continue;
              const Index elements = (share.count() - 1) * whole.stride + whole.cols;
              check(ncclBroadcast(rows, rows, std::size_t(elements), ncclFloat32, r, comm_, stream),
                    "ncclBroadcast");
            }
            return ncclGroupEnd();
          }),
          "ncclGroupEnd");
  }

  void do_reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                 std::span<const Range> shares) override {
    begin();
    for (const MatrixView<std::int64_t>& whole : wholes) trace(whole);
    if (wholes[0].empty()) return;
    if (peers_ && on_the_way([&](cudaStream_t stream) {
          return peers_->reduce_scatter_columns(wholes, in_bytes<std::int64_t>(shares), stream);
        }))
      return;
    const Index rows = wholes[0].rows;
    const Index matrices = Index(wholes.size());
    const Index most = largest(shares);
    const Index count = matrices * rows * most;
    std::int64_t* const all = room<std::int64_t>(count * size());
    const auto packed = [&](int r, Index m) {
      const Index width = shares[std::size_t(r)].count();
      return MatrixView<std::int64_t>{all + r * count + m * rows * most, rows, width, width};
    };
    const auto part = [&](int r, Index m) {
      const Range share = shares[std::size_t(r)];
      return wholes[std::size_t(m)].columns(share.begin, share.count());
    };
    for (int r = 0; r < size(); ++r)
      for (Index m = 0; m < matrices; ++m) copy<std::int64_t>(part(r, m), packed(r, m));
    check(on_the_way([&](cudaStream_t stream) {
            return ncclReduceScatter(all, all + rank() * count, std::size_t(count), ncclInt64,
                                     ncclSum, comm_, stream);
          }),
          "ncclReduceScatter");
    for (Index m = 0; m < matrices; ++m)
      afterwards(
          [this, from = packed(rank(), m), to = part(rank(), m)] { copy<std::int64_t>(from, to); });
  }

  bool exchanges() const override { return true; }
  std::vector<MatrixView<const float>> do_exchange_columns(
      std::span<const MatrixView<const float>> mine, Index rows, std::span<const Index> counts,
      std::span<const Range> shares) override {
    begin();
    for (const MatrixView<const float>& matrix : mine) trace(matrix);
    if (peers_)
      if (const auto places = on_the_way([&](cudaStream_t stream) {
            return peers_->exchange_columns(mine, rows, counts, in_bytes<float>(shares), stream);
          }))
        return unpacked(*places, rows, counts, shares[std::size_t(rank())].count());
    const auto me = std::size_t(rank());
    const auto elements = [&](std::size_t from, std::size_t to) {
      return counts[from] * rows * shares[to].count();
    };
    Index all = 0;
    for (std::size_t r = 0; r < shares.size(); ++r)
      if (r != me) all += elements(me, r) + elements(r, me);
    float* at = room<float>(all);
    std::vector<MatrixView<const float>> received;
    std::vector<Message> messages;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      if (r == me) continue;
      const Range theirs = shares[r];
      Message message{int(r), at, elements(me, r), nullptr, elements(r, me)};
      for (const MatrixView<const float>& matrix : mine) {
        copy<float>(matrix.columns(theirs.begin, theirs.count()),
                    MatrixView<float>{at, rows, theirs.count(), theirs.count()});
        at += rows * theirs.count();
      }
      message.received = at;
      messages.push_back(message);
      const Index width = shares[me].count();
      for (Index m = 0; m < counts[r]; ++m, at += rows * width)
        received.push_back({at, rows, width, width});
    }
    check(on_the_way([&](cudaStream_t stream) { return send(messages, stream); }), "ncclGroupEnd");
    return received;
  }
  /// To and from one other rank, in elements.
  struct Message {
    int peer = 0;
    const float* sent = nullptr;
    Index send = 0;
    float* received = nullptr;
    Index receive = 0;
  };
  ncclResult_t send(const std::vector<Message>& messages, cudaStream_t stream) const {
    check(ncclGroupStart(), "ncclGroupStart");
    for (const Message& m : messages) {
      if (m.send > 0)
        check(ncclSend(m.sent, std::size_t(m.send), ncclFloat32, m.peer, comm_, stream),
              "ncclSend");
      if (m.receive > 0)
        check(ncclRecv(m.received, std::size_t(m.receive), ncclFloat32, m.peer, comm_, stream),
              "ncclRecv");
    }
    return ncclGroupEnd();
  }

  void do_all_reduce_sum(std::span<std::int64_t> values) override {
    begin();
    const Index count = Index(values.size());
    trace(MatrixView<std::int64_t>{values.data(), 1, count, count});
    if (peers_ &&
        on_the_way([&](cudaStream_t stream) { return peers_->all_reduce_sum(values, stream); }))
      return;
    check(on_the_way([&](cudaStream_t stream) {
            return ncclAllReduce(values.data(), values.data(), values.size(), ncclInt64, ncclSum,
                                 comm_, stream);
          }),
          "ncclAllReduce");
  }
  // The bits of floats that are not negative grow with them, and those of a NaN are beyond all.
  void do_all_reduce_max(std::span<float> values) override {
    begin();
    const Index count = Index(values.size());
    trace(MatrixView<float>{values.data(), 1, count, count});
    if (peers_ &&
        on_the_way([&](cudaStream_t stream) { return peers_->all_reduce_max(values, stream); }))
      return;
    check(on_the_way([&](cudaStream_t stream) {
            return ncclAllReduce(values.data(), values.data(), values.size(), ncclInt32, ncclMax,
                                 comm_, stream);
          }),
          "ncclAllReduce");
  }

  bool reached(WorkQueue& queue, WorkQueue::Mark mark) override {
    if (queue.reached(mark)) return true;
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) check(state, "a collective");
    return false;
  }
  void give_up() override {
    if (comm_ != nullptr) leave();
  }
  /// Ends what the device waits for.
  void leave() {
    if (peers_) peers_->give_up();
    queue_.drop_graphs();
    ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  ncclComm_t comm_ = nullptr;
  std::unique_ptr<PeerExchange> peers_;  // of one machine
  WorkQueue& queue_;
  cudaStream_t stream_;
  cudaStream_t beside_ = nullptr;
  cudaEvent_t forked_ = nullptr;                // where beside_ left stream_
  cudaEvent_t done_ = nullptr;                  // what goes on beside
  cudaEvent_t traced_ = nullptr;                // what comes before a collective that is traced
  bool forks_ = false;                          // within beside()
  bool goes_on_ = false;                        // since the last join()
  std::vector<std::function<void()>> unpacks_;  // at the next one
  Memory& memory_;
  Buffer<std::byte> packed_;
};

}  // namespace

bool has_nccl() {
  return true;
}

std::unique_ptr<Collectives> make_nccl_collectives(Communicator& ranks, int device,
                                                   WorkQueue& queue, Memory& memory) {
  return std::make_unique<NcclCollectives>(ranks, device, queue, memory);
}

}  // namespace norn
