// SPDX-License-Identifier: Apache-2.0
// Short messages of MPI's world, beside all collectives.

#include "ending.h"

#include "mpi_c_api.h"
#include "norn/base/error.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace norn {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFarewellTag = 5;
constexpr int kAskTag = 6;
constexpr int kLetTag = 7;
/// More than ranks need to come to where they wait for one another, unless they compute for long.
constexpr double kAnswerSeconds = 5;
constexpr double kEndSeconds = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void wait_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

struct World {
  int rank = 0;
  int size = 1;
  World() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
};

MPI_Request send(int number, int to, int tag) {
  // Never freed: a message may be on its way when the process ends.
  auto* const kept = new int(number);  // NOLINT(cppcoreguidelines-owning-memory)
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Isend(kept, 1, MPI_INT, to, tag, MPI_COMM_WORLD, &request) != MPI_SUCCESS)
    return MPI_REQUEST_NULL;
  return request;
}

/// A message with that tag, if one has arrived.
std::optional<Farewell> receive(int tag) {
  int arrived = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &arrived, &status) != MPI_SUCCESS ||
      arrived == 0)
    return std::nullopt;
  Farewell farewell;
  farewell.rank = status.MPI_SOURCE;
  if (MPI_Recv(&farewell.exit_code, 1, MPI_INT, farewell.rank, tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE) != MPI_SUCCESS)
    return std::nullopt;
  return farewell;
}

}  // namespace

void send_farewell(int exit_code) {
  const World world;
  std::vector<MPI_Request> requests;
  for (int r = 0; r < world.size; ++r)
    if (r != world.rank) requests.push_back(send(exit_code, r, kFarewellTag));
  const Clock::time_point start = Clock::now();
  int done = 0;
  while (done == 0 && seconds_since(start) < 0.3) {
    if (MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE) !=
        MPI_SUCCESS)
      return;
    wait_a_little();
  }
  // Those who wait in a collective look around now and then: they have to see it before the end.
  std::this_thread::sleep_for(std::chrono::duration<double>(3 * kLookSeconds));
}

std::optional<Farewell> receive_farewell(WorldState& world) {
  const std::optional<Farewell> farewell = receive(kFarewellTag);
  if (farewell) world.is_told = true;
  return farewell;
}

std::optional<Farewell> wait_for_turn(int exit_code, WorldState& world) {
  const int rank = World().rank;
  for (int r = 0; r < rank; ++r) send(exit_code, r, kAskTag);
  std::vector<bool> lets(std::size_t(rank), false);
  // A collective that fails is often the consequence of what another rank has said.
  double least = exit_code == int(ExitCode::communication) ? kGoneSeconds : 0.0;
  // Where nobody answers they still take turns.
  const double patience = rank == 0 ? 0.0 : kAnswerSeconds + std::min(rank, 10);
  for (const Clock::time_point start = Clock::now();;) {
    const double waited = seconds_since(start);
    if (const auto farewell = receive_farewell(world)) return farewell;
    while (const auto answer = receive(kLetTag)) lets[std::size_t(answer->rank)] = true;
    bool all = true;
    for (int r = 0; r < rank; ++r) {
      if (lets[std::size_t(r)]) continue;
      const bool is_silent = world.peers.is_silent(r);
      if (is_silent) least = kGoneSeconds;
      all = all && is_silent;
    }
    if ((all || waited > patience) && waited >= least) return std::nullopt;
    wait_a_little();
  }
}

std::optional<Farewell> let_another_speak() {
  const std::optional<Farewell> asks = receive(kAskTag);
  if (asks) send(0, asks->rank, kLetTag);
  return asks;
}

void wait_to_be_ended(WorldState& world) {
  double limit = 2 * kAnswerSeconds + 10 + kEndSeconds;
  for (const Clock::time_point start = Clock::now(); seconds_since(start) < limit;
       wait_a_little()) {
    let_another_speak();
    if (receive_farewell(world) || world.is_told)
      limit = std::min(limit, seconds_since(start) + kEndSeconds);
  }
}

}  // namespace norn
