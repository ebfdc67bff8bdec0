// SPDX-License-Identifier: Apache-2.0
// Ranks as MPI processes, on host memory. Only non-blocking collectives, so that each has a limit.

#include "mpi_communicator.h"

#include "mpi_c_api.h"
#include "norn/base/error.h"
#include "shares.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <thread>

#include <fmt/format.h>

namespace norn {

namespace {

using Clock = std::chrono::steady_clock;

/// A rectangle of a matrix, its elements numbered row by row.
template <typename T>
struct Region {
  MatrixView<T> part;

  Index size() const { return part.rows * part.cols; }

  /// Calls visit(first element, number in the region, count) for each run that lies in one row.
  template <typename Visit>
  void for_runs(Index from, Index count, const Visit& visit) const {
    for (Index done = 0; done < count;) {
      const Index row = (from + done) / part.cols;
      const Index col = (from + done) % part.cols;
      const Index run = std::min(count - done, part.cols - col);
      visit(&part(row, col), done, run);
      done += run;
    }
  }
  void pack(Index from, Index count, T* packed) const {
    for_runs(from, count, [packed](const T* element, Index at, Index run) {
      std::copy_n(element, run, packed + at);
    });
  }
  void unpack(Index from, Index count, const T* packed) const {
    for_runs(from, count,
             [packed](T* element, Index at, Index run) { std::copy_n(packed + at, run, element); });
  }
};

/// Elements [from, from + count) of these columns of several matrices, one matrix after the other.
void pack_columns(std::span<const MatrixView<const float>> matrices, const Range& columns,
                  Index from, Index count, float* packed) {
  for (const MatrixView<const float>& matrix : matrices) {
    const MatrixView<const float> part = matrix.columns(columns.begin, columns.count());
    const Index first = std::min(from, part.size());
    const Index taken = std::min(count, part.size() - first);
    Region<const float>{part}.for_runs(first, taken, [packed](const float* run, Index at, Index n) {
      std::copy_n(run, n, packed + at);
    });
    packed += taken;
    count -= taken;
    from -= first;
  }
}

/// What each rank contributes to one message, in bytes: never more than MPI's int can hold.
struct Layout {
  std::vector<int> counts;
  std::vector<int> begins;

  explicit Layout(int ranks) : counts(std::size_t(ranks)), begins(std::size_t(ranks)) {}
  void place() { std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0); }
  std::size_t bytes() const { return std::size_t(counts.back()) + std::size_t(begins.back()); }
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(double timeout_seconds, std::shared_ptr<WorldState> world,
                  std::size_t message_bytes);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string describe() const override { return fmt::format("MPI, {} ranks", size_); }

  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    gather_columns(whole, shares);
  }
  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override;
  void do_reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                 std::span<const Range> shares) override;
  void do_exchange_columns(std::span<const MatrixView<const float>> mine, Index rows,
                           std::span<const Index> counts, std::span<const Range> shares,
                           std::span<float> received) override;
  void do_all_reduce_sum(std::span<std::int64_t> values) override;
  void do_all_reduce_max(std::span<float> values) override;
  std::vector<std::vector<std::byte>> gather_to_all(std::span<const std::byte> mine) override;
  void broadcast(std::span<std::byte> data, int root) override;
  void barrier() override;
  void wait_for(const std::function<bool()>& done, const char* operation) override;

 private:
  template <typename T>
  void gather_columns(MatrixView<T> whole, std::span<const Range> shares);
  template <typename T>
  void all_gather(const char* operation, const std::vector<Region<T>>& regions);
  template <typename T>
  void all_reduce(const char* operation, std::span<T> values, MPI_Datatype type, MPI_Op op);

  /// Elements of T in the largest message of one rank.
  template <typename T>
  Index elements_a_rank() const {
    return std::max<Index>(Index(message_bytes_ / (sizeof(T) * std::size_t(size_))), 1);
  }
  template <typename T>
  static T* stage(std::vector<std::byte>& buffer, std::size_t bytes) {
    if (buffer.size() < bytes) buffer.resize(bytes);
    return reinterpret_cast<T*>(buffer.data());
  }

  void begin(const char* operation) const;
  void check(int result, const char* operation);
  void finish(const char* operation);
  void look_around(const char* operation, double waited, std::optional<double>& gone_since);
  std::string late_ranks() const;
  [[noreturn]] void fail(const std::string& message);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  const double timeout_seconds_;
  const std::size_t message_bytes_;
  std::shared_ptr<WorldState> world_;
  // One operation at a time. What MPI reads and writes is ours, never the caller's, so that memory
  // of an operation that never ended is not used again.
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::unique_ptr<std::vector<std::byte>> send_ = std::make_unique<std::vector<std::byte>>();
  std::unique_ptr<std::vector<std::byte>> receive_ = std::make_unique<std::vector<std::byte>>();
};

MpiCommunicator::MpiCommunicator(double timeout_seconds, std::shared_ptr<WorldState> world,
                                 std::size_t message_bytes)
    : timeout_seconds_(timeout_seconds),
      message_bytes_(std::min(message_bytes, std::size_t(1) << 30)),
      world_(std::move(world)) {
  require(timeout_seconds > 0, "MpiSession: the time limit must be positive");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  set_place(world_->place);
  check(MPI_Comm_idup(MPI_COMM_WORLD, &comm_, &request_), "MPI_Comm_idup");
  finish("MPI_Comm_idup");
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  world_->peers = Peers(rank_, MpiCommunicator::gather_to_all(Peers::record()));
  MpiCommunicator::barrier();  // nobody is gone before all have looked
}

MpiCommunicator::~MpiCommunicator() {
  world_->place = place();
  if (world_->broken) {
    // MPI may still use them.
    static_cast<void>(send_.release());
    static_cast<void>(receive_.release());
  } else if (int ended = 0; std::uncaught_exceptions() == 0) {
    // With MPI its communicators have ended, too.
    if (MPI_Finalized(&ended) == MPI_SUCCESS && ended == 0) MPI_Comm_free(&comm_);
  }
}

void MpiCommunicator::fail(const std::string& message) {
  world_->broken = true;
  throw CommunicationError(fmt::format("{}: {}", where(), message));
}

void MpiCommunicator::begin(const char* operation) const {
  if (world_->broken) {
    throw CommunicationError(
        fmt::format("{}: {} is not possible after a collective that failed; end the program",
                    where(), operation));
  }
}

void MpiCommunicator::check(int result, const char* operation) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(fmt::format("{} failed: {}; see what the other ranks say", operation, text));
}

// What the time limit need not wait for.
void MpiCommunicator::look_around(const char* operation, double waited,
                                  std::optional<double>& gone_since) {
  std::optional<Farewell> ended = receive_farewell(*world_);
  if (!ended) ended = let_another_speak();
  if (ended) {
    world_->broken = true;
    throw RunEnded(fmt::format("{}: {} cannot complete: {} has failed and says why", where(),
                               operation, world_->peers.name(ended->rank)),
                   ExitCode(ended->exit_code));
  }
  const std::optional<int> gone = world_->peers.gone();
  if (!gone) return;
  if (!gone_since) gone_since = waited;
  if (waited - *gone_since < kGoneSeconds) return;
  fail(
      fmt::format("{} cannot complete: {} is gone; see what the launcher and the system's log say, "
                  "and resume from the last checkpoint, if there is one",
                  operation, world_->peers.name(*gone)));
}

std::string MpiCommunicator::late_ranks() const {
  std::string text;
  for (int rank : world_->peers.stopped())
    text += fmt::format("{}{} is stopped", text.empty() ? "" : ", ", world_->peers.name(rank));
  return text.empty() ? "another rank is stuck, far behind or gone" : text;
}

void MpiCommunicator::finish(const char* operation) {
  wait_for(
      [&] {
        int done = 0;
        check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), operation);
        return done != 0;
      },
      operation);
}

void MpiCommunicator::wait_for(const std::function<bool()>& done, const char* operation) {
  const Clock::time_point start = Clock::now();
  double looked = 0.0;
  std::optional<double> gone_since;
  while (!done()) {
    const std::chrono::duration<double> waited = Clock::now() - start;
    if (waited.count() > timeout_seconds_) {
      fail(
          fmt::format("{} did not complete in {:g} s: {}; end it and resume from the last "
                      "checkpoint, if there is one, or allow more time",
                      operation, timeout_seconds_, late_ranks()));
    }
    if (waited.count() - looked > kLookSeconds) {
      looked = waited.count();
      look_around(operation, looked, gone_since);
    }
    // Data moves only while MPI is polled, so sleep only when the others are plainly late.
    if (waited.count() < 0.01) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(waited.count() < 1 ? 50 : 500));
    }
  }
}

template <typename T>
void MpiCommunicator::all_gather(const char* operation, const std::vector<Region<T>>& regions) {
  begin(operation);
  Index largest = 0;
  for (const Region<T>& region : regions) largest = std::max(largest, region.size());
  const Index step = elements_a_rank<T>();
  Layout layout(size_);
  for (Index from = 0; from < largest; from += step) {
    const auto count = [&](int r) {
      return std::clamp<Index>(regions[std::size_t(r)].size() - from, 0, step);
    };
    for (int r = 0; r < size_; ++r)
      layout.counts[std::size_t(r)] = int(count(r) * Index(sizeof(T)));
    layout.place();
    const int mine = layout.counts[std::size_t(rank_)];
    T* const sent = stage<T>(*send_, std::size_t(mine));
    regions[std::size_t(rank_)].pack(from, count(rank_), sent);
    T* const received = stage<T>(*receive_, layout.bytes());
    check(MPI_Iallgatherv(sent, mine, MPI_BYTE, received, layout.counts.data(),
                          layout.begins.data(), MPI_BYTE, comm_, &request_),
          operation);
    finish(operation);
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      regions[std::size_t(r)].unpack(
          from, count(r), received + std::size_t(layout.begins[std::size_t(r)]) / sizeof(T));
    }
  }
}

template <typename T>
void MpiCommunicator::gather_columns(MatrixView<T> whole, std::span<const Range> shares) {
  std::vector<Region<T>> regions;
  for (const Range& share : shares) regions.push_back({whole.columns(share.begin, share.count())});
  all_gather("all_gather_columns", regions);
}

void MpiCommunicator::do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) {
  std::vector<Region<float>> regions;
  for (const Range& share : shares)
    regions.push_back({whole.row_range(share.begin, share.count())});
  all_gather("all_gather_rows", regions);
}

void MpiCommunicator::do_reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                                std::span<const Range> shares) {
  constexpr const char* kOperation = "reduce_scatter_columns";
  using T = std::int64_t;
  begin(kOperation);
  std::vector<Region<T>> regions;
  for (const Range& share : shares) regions.push_back({whole.columns(share.begin, share.count())});
  Index largest = 0;
  for (const Region<T>& region : regions) largest = std::max(largest, region.size());
  const Region<T>& mine = regions[std::size_t(rank_)];
  const Index step = elements_a_rank<T>();
  Layout to(size_);
  Layout from_each(size_);
  for (Index from = 0; from < largest; from += step) {
    // Every rank's region goes to its owner, who adds: each element travels once.
    const auto count = [&](int r) {
      return r == rank_ ? 0 : std::clamp<Index>(regions[std::size_t(r)].size() - from, 0, step);
    };
    const Index own = std::clamp<Index>(mine.size() - from, 0, step);
    for (int r = 0; r < size_; ++r) {
      to.counts[std::size_t(r)] = int(count(r) * Index(sizeof(T)));
      from_each.counts[std::size_t(r)] = r == rank_ ? 0 : int(own * Index(sizeof(T)));
    }
    to.place();
    from_each.place();
    T* const sent = stage<T>(*send_, to.bytes());
    for (int r = 0; r < size_; ++r) {
      regions[std::size_t(r)].pack(from, count(r),
                                   sent + std::size_t(to.begins[std::size_t(r)]) / sizeof(T));
    }
    const T* const received = stage<T>(*receive_, from_each.bytes());
    check(MPI_Ialltoallv(sent, to.counts.data(), to.begins.data(), MPI_BYTE, receive_->data(),
                         from_each.counts.data(), from_each.begins.data(), MPI_BYTE, comm_,
                         &request_),
          kOperation);
    finish(kOperation);
    for (int r = 0; r < size_ - 1; ++r) {  // the ranks but this one, packed one after the other
      const T* const terms = received + r * own;
      mine.for_runs(from, own, [terms](T* sum, Index at, Index run) {
        for (Index i = 0; i < run; ++i) sum[i] = wrapping_sum(sum[i], terms[at + i]);
      });
    }
  }
}

void MpiCommunicator::do_exchange_columns(std::span<const MatrixView<const float>> mine, Index rows,
                                          std::span<const Index> counts,
                                          std::span<const Range> shares,
                                          std::span<float> received) {
  constexpr const char* kOperation = "exchange_columns";
  begin(kOperation);
  const auto me = std::size_t(rank_);
  // What rank `from` sends to rank `to`, matrix by matrix.
  const auto elements = [&](std::size_t from, std::size_t to) {
    return from == to ? Index(0) : counts[from] * rows * shares[to].count();
  };
  Index largest = 0;
  for (std::size_t from = 0; from < counts.size(); ++from)
    for (std::size_t to = 0; to < counts.size(); ++to)
      largest = std::max(largest, elements(from, to));
  const Index step = elements_a_rank<float>();
  Layout to(size_);
  Layout from_each(size_);
  for (Index from = 0; from < largest; from += step) {
    const auto part = [&](Index all) { return std::clamp<Index>(all - from, 0, step); };
    for (std::size_t r = 0; r < counts.size(); ++r) {
      to.counts[r] = int(part(elements(me, r)) * Index(sizeof(float)));
      from_each.counts[r] = int(part(elements(r, me)) * Index(sizeof(float)));
    }
    to.place();
    from_each.place();
    float* const sent = stage<float>(*send_, to.bytes());
    for (std::size_t r = 0; r < counts.size(); ++r)
      pack_columns(mine, shares[r], from, part(elements(me, r)),
                   sent + std::size_t(to.begins[r]) / sizeof(float));
    const float* const staged = stage<float>(*receive_, from_each.bytes());
    check(MPI_Ialltoallv(sent, to.counts.data(), to.begins.data(), MPI_BYTE, receive_->data(),
                         from_each.counts.data(), from_each.begins.data(), MPI_BYTE, comm_,
                         &request_),
          kOperation);
    finish(kOperation);
    float* place = received.data();
    for (std::size_t r = 0; r < counts.size(); ++r) {
      std::copy_n(staged + std::size_t(from_each.begins[r]) / sizeof(float), part(elements(r, me)),
                  place + std::min(from, elements(r, me)));
      place += elements(r, me);
    }
  }
}

template <typename T>
void MpiCommunicator::all_reduce(const char* operation, std::span<T> values, MPI_Datatype type,
                                 MPI_Op op) {
  begin(operation);
  const std::size_t step = std::max<std::size_t>(message_bytes_ / sizeof(T), 1);
  for (std::size_t from = 0; from < values.size(); from += step) {
    const std::span<T> part = values.subspan(from, std::min(step, values.size() - from));
    T* const sent = stage<T>(*send_, part.size_bytes());
    T* const received = stage<T>(*receive_, part.size_bytes());
    std::ranges::copy(part, sent);
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): finish() waits
    check(MPI_Iallreduce(sent, received, int(part.size()), type, op, comm_, &request_), operation);
    finish(operation);
    std::copy_n(received, part.size(), part.begin());
  }
}

void MpiCommunicator::do_all_reduce_sum(std::span<std::int64_t> values) {
  all_reduce("all_reduce_sum", values, MPI_INT64_T, MPI_SUM);
}

void MpiCommunicator::do_all_reduce_max(std::span<float> values) {
  std::vector<std::int32_t> ordered(values.size());
  std::ranges::transform(values, ordered.begin(), ordered_bits);
  all_reduce("all_reduce_max", std::span(ordered), MPI_INT32_T, MPI_MAX);
  std::ranges::transform(ordered, values.begin(), from_ordered_bits);
}

std::vector<std::vector<std::byte>> MpiCommunicator::gather_to_all(
    std::span<const std::byte> mine) {
  std::vector<std::int64_t> sizes(std::size_t(size_), 0);
  sizes[std::size_t(rank_)] = std::int64_t(mine.size());
  all_reduce("gather_to_all", std::span(sizes), MPI_INT64_T, MPI_SUM);
  std::vector<std::vector<std::byte>> all;
  std::vector<Region<std::byte>> regions;
  for (const std::int64_t size : sizes) {
    std::vector<std::byte>& data = all.emplace_back(std::size_t(size));
    regions.push_back({{data.data(), 1, size, size}});
  }
  std::ranges::copy(mine, all[std::size_t(rank_)].begin());
  all_gather("gather_to_all", regions);
  return all;
}

void MpiCommunicator::broadcast(std::span<std::byte> data, int root) {
  require(root >= 0 && root < size_, "communicator: the root of a broadcast must be a rank");
  begin("broadcast");
  for (std::size_t from = 0; from < data.size(); from += message_bytes_) {
    const std::span<std::byte> part =
        data.subspan(from, std::min(message_bytes_, data.size() - from));
    std::byte* const staged = stage<std::byte>(*send_, part.size());
    if (rank_ == root) std::ranges::copy(part, staged);
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): finish() waits
    check(MPI_Ibcast(staged, int(part.size()), MPI_BYTE, root, comm_, &request_), "broadcast");
    finish("broadcast");
    if (rank_ != root) std::copy_n(staged, part.size(), part.begin());
  }
}

void MpiCommunicator::barrier() {
  begin("barrier");
  check(MPI_Ibarrier(comm_, &request_), "barrier");
  finish("barrier");
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_world(double timeout_seconds,
                                             std::shared_ptr<WorldState> world,
                                             std::size_t message_bytes) {
  return std::make_unique<MpiCommunicator>(timeout_seconds, std::move(world), message_bytes);
}

}  // namespace norn
