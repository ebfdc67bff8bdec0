// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/check.h"

#include <array>
#include <cstddef>

namespace norn::cuda {

/// Page-locked pieces that copies of main memory pass through in turn: while the GPU is at one the
/// program is at another. From page-locked memory the GPU copies at the rate of its link, and every
/// program has but little of it.
class StagingRing {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t(4) << 20;

  StagingRing();
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  /// For each i in [0, count): `enqueue(i, piece)` lets the stream fill a piece, and when that is
  /// done `take(i, piece)` reads it. All are taken when it returns.
  template <typename Enqueue, typename Take>
  void read(cudaStream_t stream, std::size_t count, const Enqueue& enqueue, const Take& take) {
    std::size_t begun = 0;
    for (std::size_t i = 0; i < count; ++i) {
      for (; begun < count && begun < i + pieces_.size(); ++begun) {
        const Piece& piece = pieces_[begun % pieces_.size()];
        enqueue(begun, piece.host);
        check(cudaEventRecord(piece.reached, stream), "cudaEventRecord");
      }
      const Piece& piece = pieces_[i % pieces_.size()];
      check(cudaEventSynchronize(piece.reached), "cudaEventSynchronize");
      take(i, piece.host);
    }
  }

  /// For each i in [0, count): `fill(i, piece)` writes a piece, and `enqueue(i, piece)` lets the
  /// stream read it. All are read when it returns.
  template <typename Fill, typename Enqueue>
  void write(cudaStream_t stream, std::size_t count, const Fill& fill, const Enqueue& enqueue) {
    for (std::size_t i = 0; i < count; ++i) {
      const Piece& piece = pieces_[i % pieces_.size()];
      check(cudaEventSynchronize(piece.reached), "cudaEventSynchronize");
      fill(i, piece.host);
      enqueue(i, piece.host);
      check(cudaEventRecord(piece.reached, stream), "cudaEventRecord");
    }
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

 private:
  struct Piece {
    char* host = nullptr;
    cudaEvent_t reached = nullptr;  // by the stream; at first there is nothing to wait for
  };
  void free() noexcept;
  std::array<Piece, 3> pieces_;
};

}  // namespace norn::cuda
