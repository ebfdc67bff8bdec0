// SPDX-License-Identifier: Apache-2.0
// How ranks agree on the one of them that says why a run ends.
#pragma once

#include "src/parallel/communicator.h"
#include "src/parallel/peers.h"

#include <optional>

namespace norn {

/// A waiting rank looks around so often, and believes that a rank is gone after so long: what it
/// sent before may still arrive.
constexpr double kLookSeconds = 0.05;
constexpr double kGoneSeconds = 0.2;

/// What outlives a communicator.
struct WorldState {
  /// A collective failed: MPI may still write to what it used, and must not be finalised.
  bool broken = false;
  /// A rank has said why it ends all.
  bool is_told = false;
  Place place;  ///< where the communicator stood when it ended
  Peers peers;  ///< empty until there has been a communicator
};

/// A rank that has failed, and the code that it ends all with.
struct Farewell {
  int rank = 0;
  int exit_code = 0;
};

/// From the rank that has spoken to every other; returns when it is on its way, or after a fraction
/// of a second.
void send_farewell(int exit_code);
/// One that has arrived.
std::optional<Farewell> receive_farewell(WorldState& world);

/// Of the ranks that fail the lowest speaks. Each asks all that are lower, and they let it if they
/// work, whenever they wait for the others, but not if they fail themselves. So who speaks does not
/// depend on who is first. A rank that has let another speak does not speak any more.
///
/// For a rank that fails: returns nothing when it is the one, and what the other ends all with when
/// that has spoken. Ranks that are gone or stopped are not waited for, nor, after several seconds,
/// those that do not answer.
std::optional<Farewell> wait_for_turn(int exit_code, WorldState& world);
/// For one that does not: the rank that asked it last.
std::optional<Farewell> let_another_speak();
/// Lets others speak until the launcher ends this rank, or for some seconds more than they need.
void wait_to_be_ended(WorldState& world);

}  // namespace norn
