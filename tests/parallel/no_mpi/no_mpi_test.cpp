// SPDX-License-Identifier: Apache-2.0
// A build without MPI: one process, and no several that do not know of each other.
#include "norn/base/error.h"
#include "norn/parallel/mpi_session.h"
#include "src/parallel/communicator.h"
#include "src/parallel/rank_facts.h"

#include <cstdlib>

#include <gmock/gmock.h>

namespace norn {
namespace {

TEST(WithoutMpi, AProcessIsAlone) {
  MpiSession session(nullptr, nullptr);
  EXPECT_EQ(session.rank(), 0);
  EXPECT_EQ(session.size(), 1);
  EXPECT_EQ(session.world()->describe(), "one process");
  EXPECT_FALSE(session.ended_by_another(1));
  session.finish();
  EXPECT_EQ(mpi_facts().implementation, "none");
}

TEST(WithoutMpi, SeveralProcessesOfALauncherAreRefused) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  try {
    MpiSession session(nullptr, nullptr);
    ADD_FAILURE() << "three processes would train the same model";
  } catch (const CommunicationError& error) {
    EXPECT_STREQ(error.what(),
                 "the launcher started 3 processes, but this build has no MPI and each of them "
                 "would write the same files: start one process, or build with MPI (cmake -D "
                 "NORN_MPI=ON)");
  }
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_EQ(MpiSession(nullptr, nullptr).size(), 1);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace norn
