// SPDX-License-Identifier: Apache-2.0
// Page-locked memory for copies.
#include "kernels/cuda/device/staging_ring.h"

namespace norn::cuda {

StagingRing::StagingRing() {
  try {
    for (Piece& piece : pieces_) {
      check(cudaEventCreateWithFlags(&piece.reached, cudaEventDisableTiming), "cudaEventCreate");
      check(cudaHostAlloc(reinterpret_cast<void**>(&piece.host), kPieceBytes, cudaHostAllocDefault),
            "cudaHostAlloc");
    }
  } catch (...) {
    free();
    throw;
  }
}

StagingRing::~StagingRing() {
  free();
}

void StagingRing::free() noexcept {
  for (const Piece& piece : pieces_) {
    if (piece.reached) cudaEventDestroy(piece.reached);
    if (piece.host) cudaFreeHost(piece.host);
  }
}

}  // namespace norn::cuda
