// SPDX-License-Identifier: Apache-2.0
// A build without MPI: every process is alone.
#include "norn/parallel/mpi_session.h"

#include "norn/base/error.h"
#include "src/parallel/communicator.h"
#include "src/parallel/launcher.h"
#include "src/parallel/rank_facts.h"

#include <cstdlib>

#include <fmt/format.h>

namespace norn {

MpiFacts mpi_facts() {
  return {"none", {}};
}

struct WorldState {};

MpiSession::MpiSession(int*, char***) {
  if (const int launched = launched_together(); launched > 1)
    throw CommunicationError(fmt::format(
        "the launcher started {} processes, but this build has no MPI and each of them would write "
        "the same files: start one process, or build with MPI (cmake -D NORN_MPI=ON)",
        launched));
}

MpiSession::~MpiSession() = default;

void MpiSession::finish() {}

void MpiSession::abort(int exit_code) {
  std::_Exit(exit_code);
}

std::optional<int> MpiSession::ended_by_another(int) {
  return std::nullopt;
}

void MpiSession::wait_to_be_ended() {}

Place MpiSession::place() const {
  return {};
}

std::shared_ptr<Communicator> MpiSession::world(double) {
  return make_single_process();
}

}  // namespace norn
