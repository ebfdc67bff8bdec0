// SPDX-License-Identifier: Apache-2.0
// How the MPI session makes its communicator.
#pragma once

#include "ending.h"
#include "src/parallel/communicator.h"

#include <cstddef>
#include <memory>

namespace norn {

/// Bytes that one MPI message stages on each side; larger collectives are cut.
constexpr std::size_t kMpiMessageBytes = std::size_t(32) << 20;

/// MPI's world.
std::unique_ptr<Communicator> make_mpi_world(double timeout_seconds,
                                             std::shared_ptr<WorldState> world,
                                             std::size_t message_bytes = kMpiMessageBytes);

}  // namespace norn
