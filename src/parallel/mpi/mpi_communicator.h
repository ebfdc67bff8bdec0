// SPDX-License-Identifier: Apache-2.0
// How the MPI session makes its communicator.
#pragma once

#include "src/parallel/communicator.h"

#include <cstddef>
#include <memory>
#include <optional>

namespace norn {

/// Bytes that one MPI message stages on each side; larger collectives are cut.
constexpr std::size_t kMpiMessageBytes = std::size_t(32) << 20;

/// What a rank tells the others before it ends them, as messages of MPI's world.
struct Farewell {
  int rank = 0;
  int exit_code = 0;
};
/// To every other rank; returns when it is on its way, or after a fraction of a second.
void send_farewell(int exit_code);
/// One that has arrived.
std::optional<Farewell> receive_farewell();

/// What outlives a communicator.
struct WorldState {
  /// A collective failed: MPI may still write to what it used, and must not be finalised.
  bool broken = false;
  Place place;  ///< where the communicator stood when it ended
};

/// MPI's world.
std::unique_ptr<Communicator> make_mpi_world(double timeout_seconds,
                                             std::shared_ptr<WorldState> world,
                                             std::size_t message_bytes = kMpiMessageBytes);

}  // namespace norn
