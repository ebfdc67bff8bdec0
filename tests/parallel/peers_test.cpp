// SPDX-License-Identifier: Apache-2.0
// Ranks of this machine that have died or were stopped, by the records of their processes.
#include "src/parallel/peers.h"

#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace norn {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Record = std::vector<std::byte>;

// A process that does nothing until it is killed.
class Sleeper {
 public:
  Sleeper() : process_(::fork()) {
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nor beyond the test
    while (true) ::pause();
  }
  ~Sleeper() { end(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  pid_t process() const { return process_; }
  void stop() const {
    ::kill(process_, SIGSTOP);
    int status = 0;
    ::waitpid(process_, &status, WUNTRACED);
  }
  void end() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_;
};

// This process's record with another number.
Record record_of(pid_t process) {
  const Record own = Peers::record();
  std::string text(reinterpret_cast<const char*>(own.data()), own.size());
  const std::size_t first = text.find('\n') + 1;
  text.replace(first, text.find('\n', first) - first, std::to_string(process));
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

TEST(Peers, SeesWhichProcessesOfTheMachineAreGoneOrStopped) {
  const Record own = Peers::record();
  if (own.back() == std::byte('\n')) GTEST_SKIP() << "nobody may look at processes here";
  Sleeper first, second;
  const std::vector<Record> records = {record_of(first.process()), Peers::record(),
                                       record_of(second.process())};
  const Peers peers(1, records);
  EXPECT_EQ(peers.gone(), std::nullopt);
  EXPECT_THAT(peers.stopped(), IsEmpty());
  EXPECT_THAT(peers.name(2),
              testing::EndsWith("(process " + std::to_string(second.process()) + ")"));
  second.stop();
  EXPECT_THAT(peers.stopped(), ElementsAre(2));
  EXPECT_TRUE(peers.is_silent(2));
  EXPECT_FALSE(peers.is_silent(0));
  EXPECT_EQ(peers.gone(), std::nullopt);
  first.end();
  EXPECT_EQ(peers.gone(), 0);
  EXPECT_TRUE(peers.is_silent(0));
  EXPECT_FALSE(peers.is_silent(1)) << "itself";
}

}  // namespace
}  // namespace norn
