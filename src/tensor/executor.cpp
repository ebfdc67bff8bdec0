// SPDX-License-Identifier: Apache-2.0
// A pool of persistent threads that take numbered tasks from one counter.

#include "src/tensor/executor.h"

#include "norn/base/error.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

namespace norn {

namespace {

// A sleeping thread takes tens of microseconds to wake; the kernels of one step follow each other
// faster.
constexpr std::chrono::microseconds kSpin{20};

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Polls for a short while; true when the condition came to hold.
template <typename Condition>
bool spin_until(const Condition& condition, std::chrono::microseconds limit) {
  if (condition()) return true;
  if (limit.count() == 0) return false;
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 16; ++i) {
      if (condition()) return true;
      pause_core();
    }
  } while (std::chrono::steady_clock::now() < end);
  return condition();
}

// How often this process was forked from another: an executor's threads are of the process that
// made them. A child leaves its parent's and starts its own.
std::atomic<int> forks{0};

int count_forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  (void)registered;
  return forks;
}

/// The executor whose task this thread is in, and the lane it has there.
struct InsideTask {
  const void* executor = nullptr;
  int lane = 0;
};
thread_local InsideTask inside_task;

class EnterLane {
 public:
  EnterLane(const void* executor, int lane) : before_(inside_task) {
    inside_task = {executor, lane};
  }
  ~EnterLane() { inside_task = before_; }
  EnterLane(const EnterLane&) = delete;
  EnterLane& operator=(const EnterLane&) = delete;

 private:
  InsideTask before_;
};

}  // namespace

/// A job is announced by `gate`: its number, whether threads may still join it, and how many have.
/// A thread that wakes late finds the gate closed, so a short job never waits for a sleeper.
struct Executor::State {
  using Task = std::function<void(Index, int)>;
  static constexpr std::uint64_t kMember = 1;  // bits 0-15: threads inside the job
  static constexpr std::uint64_t kMembers = 0xffff;
  static constexpr std::uint64_t kOpen = 1 << 16;  // bit 16: threads may join
  static constexpr std::uint64_t kJob = 1 << 17;   // bits 17-63: number of the job

  explicit State(int threads);
  ~State() { stop_and_join(); }

  void run(Index count, const Task& task);
  void work(int lane);
  void take_tasks(int lane);
  bool has_job_after(std::uint64_t job) const {
    const std::uint64_t now = gate.load();
    return (now & kOpen) != 0 && now / kJob != job;
  }
  bool join_job(std::uint64_t& job);
  void leave_job();
  void stop_and_join();

  const int made_after = count_forks();
  std::chrono::microseconds spin{0};
  std::vector<std::thread> threads;
  std::mutex callers;  // one job at a time

  std::atomic<std::uint64_t> gate{0};
  std::atomic<Index> next{0};
  Index count = 0;             // written while the gate is closed and empty
  const Task* task = nullptr;  // likewise

  std::atomic<int> sleepers{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;  // guards what follows and orders going to sleep with waking
  std::condition_variable wake;
  std::condition_variable empty;
  std::exception_ptr error;
  Index error_index = 0;
};

Executor::State::State(int lanes) {
  // Spinning threads must not hold the cores that others of them need.
  if (lanes <= available_cores()) spin = kSpin;
  threads.reserve(std::size_t(lanes - 1));
  for (int lane = 1; lane < lanes; ++lane) {
    try {
      threads.emplace_back([this, lane] { work(lane); });
    } catch (const std::system_error& problem) {
      stop_and_join();
      throw DeviceError(
          fmt::format("thread {} of {} could not be started ({}); ask for fewer threads", lane + 1,
                      lanes, problem.what()));
    }
  }
}

void Executor::State::stop_and_join() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

void Executor::State::run(Index tasks, const Task& body) {
  const std::lock_guard one_caller(callers);
  if (tasks == 1 || threads.empty()) {
    const EnterLane entered(this, 0);
    for (Index index = 0; index < tasks; ++index) body(index, 0);
    return;
  }
  count = tasks;
  task = &body;
  next = 0;
  error = nullptr;
  gate.store((gate.load() / kJob + 1) * kJob | kOpen);
  if (const int asleep = sleepers.load(); asleep > 0) {
    { const std::lock_guard lock(mutex); }
    const Index wanted = std::min<Index>(asleep, tasks - 1);
    for (Index i = 0; i < wanted; ++i) wake.notify_one();
  }
  take_tasks(0);
  gate.fetch_and(~kOpen);
  const auto all_left = [this] { return (gate.load() & kMembers) == 0; };
  if (!spin_until(all_left, spin)) {
    std::unique_lock lock(mutex);
    empty.wait(lock, all_left);
  }
  if (error) std::rethrow_exception(std::exchange(error, nullptr));
}

void Executor::State::take_tasks(int lane) {
  const EnterLane entered(this, lane);
  for (Index index = next++; index < count; index = next++) {
    try {
      (*task)(index, lane);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error || index < error_index) {
        error = std::current_exception();
        error_index = index;
      }
      next = count;  // the tasks that nobody has begun are dropped
    }
  }
}

bool Executor::State::join_job(std::uint64_t& job) {
  std::uint64_t now = gate.load();
  while ((now & kOpen) != 0 && now / kJob != job) {
    if (gate.compare_exchange_weak(now, now + kMember)) {
      job = now / kJob;
      return true;
    }
  }
  return false;
}

void Executor::State::leave_job() {
  const std::uint64_t now = gate.fetch_sub(kMember) - kMember;
  if ((now & (kMembers | kOpen)) != 0) return;
  { const std::lock_guard lock(mutex); }  // the caller is either before its check or asleep
  empty.notify_one();
}

void Executor::State::work(int lane) {
  std::uint64_t job = 0;
  while (!stopping.load()) {
    const auto called = [this, &job] { return has_job_after(job) || stopping.load(); };
    if (!spin_until(called, spin)) {
      std::unique_lock lock(mutex);
      ++sleepers;
      wake.wait(lock, called);
      --sleepers;
    }
    if (!join_job(job)) continue;
    take_tasks(lane);
    leave_job();
  }
}

Executor::Executor(int threads) {
  require(threads >= 0 && threads < 65536, "Executor: threads must be in [0, 65535]");
  state_ = std::make_unique<State>(threads == 0 ? available_cores() : threads);
}

Executor::~Executor() {
  if (state_->made_after != forks) (void)state_.release();  // its threads cannot be joined here
}

int Executor::lanes() const {
  return int(state_->threads.size()) + 1;
}

void Executor::for_each(Index count, const std::function<void(Index, int)>& task) {
  if (count <= 0) return;
  if (state_->made_after != forks) {
    const int threads = lanes();
    (void)state_.release();
    state_ = std::make_unique<State>(threads);
  }
  if (inside_task.executor != state_.get()) {
    state_->run(count, task);
    return;
  }
  const int lane = inside_task.lane;
  for (Index index = 0; index < count; ++index) task(index, lane);
}

void Executor::for_ranges(Index count, Index chunk,
                          const std::function<void(Index, Index, int)>& task) {
  require(chunk >= 1, "Executor: the chunk of for_ranges must be at least 1");
  if (count <= 0) return;
  const Index chunks = count / chunk + (count % chunk != 0 ? 1 : 0);
  for_each(chunks, [&](Index index, int lane) {
    const Index begin = index * chunk;
    task(begin, std::min(begin + chunk, count), lane);
  });
}

int available_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(CPU_COUNT(&cores), 1);
  return std::max(int(std::thread::hardware_concurrency()), 1);
}

}  // namespace norn
