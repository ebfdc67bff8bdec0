// SPDX-License-Identifier: Apache-2.0
// What launchers, schedulers and other ranks tell a program: how many ranks share a host, what each
// of them is, and to stop.
#include "norn/base/error.h"
#include "src/run/ranks.h"
#include "tools/common/stop_signals.h"
#include "tools/doctor/run.h"

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
    EXPECT_EQ(run::ranks_on_this_host(), ranks) << text;
  }
  unsetenv("SLURM_STEP_TASKS_PER_NODE");
  EXPECT_EQ(run::ranks_on_this_host(), 1);
}

TEST(RankFacts, ComeToTheOtherRanksAsTheyAre) {
  RankFacts rank;
  rank.host = "node-7";
  rank.cores = {0, 1, 2, 9};
  rank.threads = 4;
  rank.version = "0.1.0";
  rank.visible_gpus = "";
  rank.gpus = 2;
  rank.gpu = "0000:18:00.0";
  const RankFacts read = rank_from(parse_json(json_of(rank).line(), "rank"));
  EXPECT_EQ(read.host, rank.host);
  EXPECT_EQ(read.cores, rank.cores);
  EXPECT_EQ(read.visible_gpus, rank.visible_gpus);
  EXPECT_EQ(read.gpus, rank.gpus);
  EXPECT_EQ(read.gpu, rank.gpu);
  try {
    rank_from(JsonValue::object().set("host", "node-7"));
    FAIL();
  } catch (const CommunicationError& error) {
    EXPECT_STREQ(
        error.what(),
        "a rank sends a record without \"cores\": it runs another version of Norn; start the same "
        "program on every host");
  }
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
