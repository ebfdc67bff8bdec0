// SPDX-License-Identifier: Apache-2.0
// What launchers and schedulers tell a program: how many ranks share a host, and to stop.
#include "tools/common/ranks.h"
#include "tools/common/stop_signals.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>

namespace norn::tools {
namespace {

TEST(RanksOnThisHost, IsReadFromSlurmsListOfHosts) {
  unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  unsetenv("MPI_LOCALNRANKS");
  for (const auto& [text, ranks] : {std::pair{"4", 4}, {"4(x2)", 4}, {"3(x2),1", 3}, {"", 1}}) {
    setenv("SLURM_STEP_TASKS_PER_NODE", text, 1);
    EXPECT_EQ(ranks_on_this_host(), ranks) << text;
  }
  unsetenv("SLURM_STEP_TASKS_PER_NODE");
  EXPECT_EQ(ranks_on_this_host(), 1);
}

TEST(StopSignals, ARequestThatComesWhenAllIsDoneEndsNothing) {
  {
    const StopSignals signals;
    std::raise(SIGUSR1);
    EXPECT_TRUE(signals.requested().load());
  }
  std::raise(SIGUSR1);
  const StopSignals again;
  EXPECT_FALSE(again.requested().load());
}

}  // namespace
}  // namespace norn::tools
