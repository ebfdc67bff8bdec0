// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: collectives read each other's memory between two meetings.
#include "tests/support/thread_group.h"

#include "norn/base/error.h"
#include "src/parallel/shares.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include <fmt/format.h>

namespace norn {

namespace {

/// What one rank brings to a collective. The shape must be the same on all ranks.
struct Call {
  const char* operation = "";
  Index rows = 0;
  Index cols = 0;
  std::span<const Range> shares;
  const void* data = nullptr;
  Index size = 0;  ///< bytes of gather_to_all, which may differ
};

bool same_shape(const Call& a, const Call& b) {
  return std::string_view(a.operation) == b.operation && a.rows == b.rows && a.cols == b.cols &&
         std::ranges::equal(a.shares, b.shares);
}

/// The barrier of all ranks. It breaks when a rank ends, because then no barrier can be
/// complete any more.
class Group {
 public:
  explicit Group(int ranks) : calls(std::size_t(ranks)), ranks_(ranks) {}

  int size() const { return ranks_; }

  /// Returns when all ranks are here. Throws CommunicationError when one of them has ended.
  void barrier(const Communicator& rank, const char* operation) {
    std::unique_lock lock(mutex_);
    const long generation = generation_;
    if (ended_.empty() && ++present_ == ranks_) {
      present_ = 0;
      ++generation_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return generation_ != generation || !ended_.empty(); });
    if (generation_ == generation) fail(rank, operation);
  }

  /// Throws CommunicationError when a rank has ended with an error.
  void require_all(const Communicator& rank, const char* operation) {
    const std::unique_lock lock(mutex_);
    if (error_) fail(rank, operation);
  }

  /// Rank `rank` leaves for good, with an exception or without one.
  void end(int rank, const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    if (error && !error_) error_ = error;
    if (ended_.empty()) {
      ended_ = fmt::format("rank {} {}", rank, error ? "failed" : "has ended its work already");
    }
    all_here_.notify_all();
  }

  std::exception_ptr error() const { return error_; }

  std::vector<Call> calls;  ///< by rank; written before a barrier, read after it

 private:
  [[noreturn]] void fail(const Communicator& rank, const char* operation) const {
    throw CommunicationError(fmt::format("rank {} of {} ({}): {} cannot complete: {}", rank.rank(),
                                         ranks_, rank.place().text(), operation, ended_));
  }

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int present_ = 0;
  long generation_ = 0;
  std::string ended_;  // why no barrier can be complete; empty while it can
  std::exception_ptr error_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(Group& group, int rank) : group_(group), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  std::string describe() const override { return fmt::format("threads, {} ranks", size()); }

  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    gather_columns(whole, shares);
  }

  void do_all_gather_rows(MatrixView<float> whole, std::span<const Range> shares) override {
    const Call call{"all_gather_rows", whole.rows, whole.cols, shares, &whole};
    collective(call, [&](int other) {
      const Range share = shares[std::size_t(other)];
      copy(view_of<float>(other).row_range(share.begin, share.count()),
           whole.row_range(share.begin, share.count()));
    });
  }

  void do_reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                 std::span<const Range> shares) override {
    const Call call{"reduce_scatter_columns", whole.rows, whole.cols, shares, &whole};
    const Range mine = shares[std::size_t(rank_)];
    // The others read their own columns only, so mine may change at once.
    collective(call, [&](int other) {
      const MatrixView<std::int64_t> term = view_of<std::int64_t>(other);
      for (Index r = 0; r < whole.rows; ++r) {
        for (Index c = mine.begin; c < mine.end; ++c) {
          whole(r, c) = wrapping_sum(whole(r, c), term(r, c));
        }
      }
    });
  }

  void do_exchange_columns(std::span<const MatrixView<const float>> mine, Index rows,
                           std::span<const Index> counts, std::span<const Range> shares,
                           std::span<float> received) override {
    const Range own = shares[std::size_t(rank_)];
    const Index each = rows * own.count();
    float* to = received.data();
    collective({"exchange_columns", rows, 0, shares, mine.data()}, [&](int other) {
      const auto* matrices = static_cast<const MatrixView<const float>*>(call_of(other).data);
      for (Index m = 0; m < counts[std::size_t(other)]; ++m, to += each)
        for (Index r = 0; r < rows; ++r)
          std::copy_n(matrices[m].row(r) + own.begin, own.count(), to + r * own.count());
    });
  }

  void do_all_reduce_sum(std::span<std::int64_t> values) override {
    std::vector<std::int64_t> sum(values.begin(), values.end());
    collective({"all_reduce_sum", Index(values.size()), 1, {}, values.data()}, [&](int other) {
      const auto* term = static_cast<const std::int64_t*>(call_of(other).data);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = wrapping_sum(sum[i], term[i]);
    });
    std::ranges::copy(sum, values.begin());
  }

  void do_all_reduce_max(std::span<float> values) override {
    std::vector<std::int32_t> maximum(values.size());
    std::ranges::transform(values, maximum.begin(), ordered_bits);
    collective({"all_reduce_max", Index(values.size()), 1, {}, values.data()}, [&](int other) {
      const auto* term = static_cast<const float*>(call_of(other).data);
      for (std::size_t i = 0; i < maximum.size(); ++i) {
        maximum[i] = std::max(maximum[i], ordered_bits(term[i]));
      }
    });
    std::ranges::transform(maximum, values.begin(), from_ordered_bits);
  }

  std::vector<std::vector<std::byte>> gather_to_all(std::span<const std::byte> mine) override {
    std::vector<std::vector<std::byte>> all;
    all.resize(std::size_t(size()));
    all[std::size_t(rank_)].assign(mine.begin(), mine.end());
    collective({"gather_to_all", 0, 0, {}, mine.data(), Index(mine.size())}, [&](int other) {
      const auto* begin = static_cast<const std::byte*>(call_of(other).data);
      all[std::size_t(other)].assign(begin, begin + call_of(other).size);
    });
    return all;
  }

  void broadcast(std::span<std::byte> data, int root) override {
    require(root >= 0 && root < size(), "communicator: the root of a broadcast must be a rank");
    collective({"broadcast", Index(data.size()), root, {}, data.data()}, [&](int other) {
      if (other != root) return;
      const auto* begin = static_cast<const std::byte*>(call_of(other).data);
      std::copy(begin, begin + data.size(), data.begin());
    });
  }

  void barrier() override {
    collective({"barrier", 0, 0, {}, nullptr}, [](int) {});
  }

  void wait_for(const std::function<bool()>& done, const char* operation) override {
    while (!done()) {
      group_.require_all(*this, operation);
      std::this_thread::yield();
    }
  }

 private:
  const Call& call_of(int rank) const { return group_.calls[std::size_t(rank)]; }

  template <typename T>
  const MatrixView<T>& view_of(int rank) const {
    return *static_cast<const MatrixView<T>*>(call_of(rank).data);
  }

  template <typename T>
  void gather_columns(MatrixView<T> whole, std::span<const Range> shares) {
    const Call call{"all_gather_columns", whole.rows, whole.cols, shares, &whole};
    collective(call, [&](int other) {
      const Range share = shares[std::size_t(other)];
      copy(view_of<T>(other).columns(share.begin, share.count()),
           whole.columns(share.begin, share.count()));
    });
  }

  template <typename T>
  static void copy(MatrixView<T> from, MatrixView<T> to) {
    for (Index r = 0; r < from.rows; ++r) std::copy_n(from.row(r), from.cols, to.row(r));
  }

  void check_same(const Call& mine, int other) const {
    const Call& theirs = call_of(other);
    if (same_shape(mine, theirs)) return;
    throw CommunicationError(fmt::format(
        "rank {} of {}: {} [{} x {}] met {} [{} x {}] on rank {}; every rank must make the same "
        "calls in the same order",
        rank_, size(), mine.operation, mine.rows, mine.cols, theirs.operation, theirs.rows,
        theirs.cols, other));
  }

  /// Calls read(other) for every other rank, while all ranks leave what the others read as it is.
  template <typename Read>
  void collective(const Call& call, const Read& read) {
    group_.calls[std::size_t(rank_)] = call;
    group_.barrier(*this, call.operation);
    for (int other = 0; other < size(); ++other) check_same(call, other);
    for (int other = 0; other < size(); ++other) {
      if (other != rank_) read(other);
    }
    group_.barrier(*this, call.operation);
  }

  Group& group_;
  const int rank_;
};

void run_rank(Group& group, int rank, const std::function<void(Communicator&)>& body) {
  std::exception_ptr error;
  try {
    ThreadRank communicator(group, rank);
    body(communicator);
  } catch (...) {
    error = std::current_exception();
  }
  group.end(rank, error);
}

}  // namespace

void run_thread_group(int ranks, const std::function<void(Communicator&)>& body) {
  require(ranks >= 1, "run_thread_group: at least one rank is needed");
  Group group(ranks);
  std::vector<std::thread> threads;
  threads.reserve(std::size_t(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back([&group, &body, rank] { run_rank(group, rank, body); });
    } catch (const std::system_error& problem) {
      group.end(rank, std::make_exception_ptr(DeviceError(fmt::format(
                          "thread {} of {} could not be started ({}); ask for fewer ranks",
                          rank + 1, ranks, problem.what()))));
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (group.error()) std::rethrow_exception(group.error());
}

}  // namespace norn
