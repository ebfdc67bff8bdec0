// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/parallel/communicator.h"
#include "src/parallel/gpu/peer_kernels.h"
#include "src/parallel/gpu/transport.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace norn {

/// For GPUs of one machine that reach each other's memory: what a library sends in several steps,
/// one kernel writes where it is wanted. It leaves to others what is too large for the workspace
/// that they have. docs/developer/decisions/0013-peer-memory.md.
class PeerTransport final : public Transport {
 public:
  /// Null where ranks stand on several machines, are more than kMostPeers, one of them is not
  /// `allowed`, or a GPU cannot reach another. All ranks call it together.
  static std::unique_ptr<PeerTransport> make(Communicator& ranks, bool allowed);
  ~PeerTransport() override;
  std::string describe() const override { return "peer memory"; }

  std::optional<Transfer> gather_columns(const ByteMatrix& whole,
                                         std::span<const Range> shares) override;
  std::optional<Transfer> reduce_scatter_columns(std::span<const MatrixView<std::int64_t>> wholes,
                                                 std::span<const Range> shares) override;
  /// What is received stands packed in this rank's workspace: for work before the next call but
  /// one.
  std::optional<Transfer> exchange_columns(std::span<const MatrixView<const float>> mine,
                                           std::int64_t rows, std::span<const Index> counts,
                                           std::span<const Range> shares,
                                           std::vector<MatrixView<const float>>& received) override;
  std::optional<Transfer> all_reduce_sum(std::span<std::int64_t> values) override;
  std::optional<Transfer> all_reduce_max(std::span<float> values) override;
  void give_up() override { *given_up_ = 1; }

 private:
  using Places = PeerWorkspaces;
  /// Memory of which every rank has as much, and reaches that of the others.
  struct Shared {
    Places of = {};
    std::int64_t bytes = 0;
  };

  explicit PeerTransport(Communicator& ranks) : ranks_(ranks) {}
  bool prepare();
  std::optional<Shared> share(std::int64_t bytes);
  void release(const Shared& shared) const;
  const Places* workspace(std::int64_t bytes);
  PeerBoard next_sequence();
  template <typename Launch>
  Transfer launched(const Launch& launch);
  template <typename T>
  std::optional<PeerReduce> places(std::span<const MatrixView<T>> mine, std::int64_t rows,
                                   std::span<const Index> counts, std::span<const Range> shares);
  template <typename T, typename Launch>
  std::optional<Transfer> reduce_all(std::span<T> values, const Launch& launch);

  Communicator& ranks_;
  int* given_up_ = nullptr;
  PeerBoard board_;
  Shared flags_;
  Shared small_;                    // of all_reduce: two workspaces
  std::vector<Shared> workspaces_;  // the last one is used, the others may be in graphs
  Places at_ = {};
  bool full_ = false;  // a rank had no more memory
  std::uint32_t sums_ = 0;
  std::uint32_t sends_ = 0;
};

}  // namespace norn
