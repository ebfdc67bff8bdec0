// SPDX-License-Identifier: Apache-2.0
// Begins and ends MPI for a program.

#include "norn/parallel/mpi_session.h"

#include "mpi_c_api.h"
#include "mpi_communicator.h"
#include "norn/base/error.h"
#include "norn/parallel/mpi_session.h"
#include "src/parallel/communicator.h"
#include "src/parallel/launcher.h"
#include "src/parallel/rank_facts.h"

#include <cstdlib>
#include <exception>
#include <string>

#include <fmt/format.h>

namespace norn {

namespace {

bool is_initialised() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) : world_(std::make_shared<WorldState>()) {
  if (is_initialised()) throw CommunicationError("MPI is begun already; make one MpiSession");
  // Without a launcher MPI would only cost time to start, and it may fail where there is no
  // network.
  if (!is_launched()) return;
  int provided = 0;
  if (MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
    throw CommunicationError("MPI_Init_thread failed; check the launcher and its host list");
  }
  begun_ = true;
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    throw CommunicationError(
        "this MPI cannot be used by a program with threads; use another build");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  const int launched = launched_together();
  if (size_ == launched || size_ > 1) return;
  MPI_Finalize();
  begun_ = false;
  throw CommunicationError(fmt::format(
      "the launcher started {} processes, but MPI tells this one that it is alone, and each of "
      "them would write the same files: launch with the mpirun of the MPI that this program is "
      "linked with ({}), or with srun --mpi=pmix",
      launched, mpi_facts().implementation));
}

MpiSession::~MpiSession() {
  // MPI_Finalize waits for the others. After a failure they may never come; a process that ends
  // without it makes the launcher end them.
  if (begun_ && !world_->broken && std::uncaught_exceptions() == 0) MPI_Finalize();
}

void MpiSession::finish() {
  if (!begun_ || size_ == 1 || world_->broken) return;
  world_->place = {"ending"};
  world(timeout_)->barrier();
}

void MpiSession::abort(int exit_code) {
  if (begun_ && size_ > 1) send_farewell(exit_code);
  if (begun_) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

std::optional<int> MpiSession::ended_by_another(int exit_code) {
  if (!begun_ || size_ == 1) return std::nullopt;
  if (const auto farewell = wait_for_turn(exit_code, *world_)) return farewell->exit_code;
  return std::nullopt;
}

void MpiSession::wait_to_be_ended() {
  if (begun_ && size_ > 1) norn::wait_to_be_ended(*world_);
}

Place MpiSession::place() const {
  return world_->place;
}

std::shared_ptr<Communicator> MpiSession::world(double timeout_seconds) {
  timeout_ = timeout_seconds;
  if (size_ == 1) return make_single_process();
  return make_mpi_world(timeout_seconds, world_);
}

}  // namespace norn
