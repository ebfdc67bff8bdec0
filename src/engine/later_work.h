// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

/// Work of a step that nothing waits for, kept back for the time that ranks take to exchange
/// deltas.
namespace norn {

class LaterWork {
 public:
  using Piece = std::function<void()>;

  /// To be done while meeting `meeting` of the step goes on; meetings count from 0.
  void keep(std::size_t meeting, Piece piece) { pieces_.emplace_back(meeting, std::move(piece)); }
  /// Does what was kept for this meeting or an earlier one, in the order in which it was kept.
  void run(std::size_t meeting) {
    std::vector<std::pair<std::size_t, Piece>> later;
    for (auto& [when, piece] : std::exchange(pieces_, {}))
      if (when <= meeting)
        piece();
      else
        later.emplace_back(when, std::move(piece));
    pieces_ = std::move(later);
  }
  void run_all() {
    for (auto& [when, piece] : std::exchange(pieces_, {})) piece();
  }
  /// Forgets what a step that failed has left.
  void clear() { pieces_.clear(); }

 private:
  std::vector<std::pair<std::size_t, Piece>> pieces_;
};

}  // namespace norn
