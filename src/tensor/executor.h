// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <functional>
#include <memory>

/// Threads over independent pieces of work.
namespace norn {

/// Runs numbered tasks on a fixed number of lanes. What a task computes must depend on its number
/// only; the lane only tells which workspace it may use. A call from inside a task runs inline, on
/// the caller's lane. A forked child starts threads of its own.
class Executor {
 public:
  /// `threads` lanes, the calling thread being one of them. 0 takes one a core that this process
  /// may use.
  explicit Executor(int threads = 0);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  int lanes() const;
  /// Runs task(index, lane) for every index in [0, count) and returns when all are done. When tasks
  /// throw, the rest is dropped and the exception of the lowest index that threw is thrown again
  /// here. Calls from several threads wait for each other.
  void for_each(Index count, const std::function<void(Index index, int lane)>& task);
  /// Cuts [0, count) into runs of `chunk` and runs task(begin, end, lane) for each.
  void for_ranges(Index count, Index chunk,
                  const std::function<void(Index begin, Index end, int lane)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Cores that this process may run on.
int available_cores();

}  // namespace norn
