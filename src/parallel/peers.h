// SPDX-License-Identifier: Apache-2.0
// What a rank knows of the others' processes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace norn {

/// The processes of all ranks. Those of this machine can be looked at, so that one that has died is
/// noticed at once and one that was stopped is named.
class Peers {
 public:
  Peers() = default;
  /// `records`: record() of every rank, gathered while all of them are there.
  Peers(int rank, std::span<const std::vector<std::byte>> records);
  /// This process, for the others.
  static std::vector<std::byte> record();

  /// The first rank of this machine whose process is gone.
  std::optional<int> gone() const;
  /// Whether it is a rank of this machine whose process is gone or stopped.
  bool is_silent(int rank) const;
  /// "rank 1 on node7 (process 4711)".
  std::string name(int rank) const;
  /// The ranks of this machine whose processes are stopped, as by SIGSTOP or a debugger.
  std::vector<int> stopped() const;

 private:
  struct Peer {
    std::string host;
    long process = 0;
    bool visible = false;  // another process, which this one can look at
  };
  std::vector<Peer> peers_;
};

}  // namespace norn
