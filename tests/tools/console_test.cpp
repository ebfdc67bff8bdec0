// SPDX-License-Identifier: Apache-2.0
// Who says what on stderr.
#include "tools/common/console.h"

#include "tools/common/progress.h"

#include <cstdio>

#include <gtest/gtest.h>

namespace norn::tools {
namespace {

template <typename Work>
std::string said(int rank, LogLevel level, const Work& work) {
  testing::internal::CaptureStderr();
  {
    Console console("trainer", rank, level);
    work(console);
  }
  return testing::internal::GetCapturedStderr();
}

void say_everything(Console& console) {
  console.log().debug("a detail");
  console.log().info("a remark");
  console.log().warning("a worry");
  console.info("the program's remark");
  console.warning("the program's worry");
}

TEST(Console, OfRank0SaysEverythingFromItsLevelOn) {
  EXPECT_EQ(said(0, LogLevel::info, say_everything),
            "trainer: a remark\ntrainer: warning: a worry\ntrainer: the program's remark\n"
            "trainer: warning: the program's worry\n");
  EXPECT_EQ(said(0, LogLevel::warning, say_everything),
            "trainer: warning: a worry\ntrainer: warning: the program's worry\n");
  EXPECT_NE(said(0, LogLevel::debug, say_everything).find("trainer: a detail\n"),
            std::string::npos);
}

TEST(Console, OfOtherRanksSaysTheLibrarysWarningsAlone) {
  EXPECT_EQ(said(3, LogLevel::debug, say_everything), "trainer: [rank 3]: warning: a worry\n");
}

TEST(Console, SaysOneLineWhateverNamesHold) {
  EXPECT_EQ(said(0, LogLevel::info,
                 [](Console& console) { console.log().warning("a\nb\x1b[31m.nc: damaged"); }),
            "trainer: warning: a\\x0ab\\x1b[31m.nc: damaged\n");
  testing::internal::CaptureStdout();
  print_results("a\tb\x1b[2J\n\nc\r");
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\tb\\x1b[2J\n\nc\\x0d");
}

TEST(Console, ShowsProgressOnRank0UnlessQuiet) {
  said(0, LogLevel::info, [](Console& console) { EXPECT_TRUE(console.shows_progress()); });
  said(0, LogLevel::warning, [](Console& console) { EXPECT_FALSE(console.shows_progress()); });
  said(1, LogLevel::info, [](Console& console) { EXPECT_FALSE(console.shows_progress()); });
}

TEST(Progress, SaysNothingOfWorkThatIsDoneInAnInstant) {
  EXPECT_EQ(said(0, LogLevel::info,
                 [](Console& console) {
                   Progress progress(console, 100, "examples");
                   for (Index i = 0; i <= 100; ++i) progress.update(i, "epoch 1");
                   EXPECT_GT(progress.rate(), 0.0);
                 }),
            "");
}

TEST(Progress, KnowsWhatIsLeftOfWorkWhoseSizeIsKnown) {
  said(0, LogLevel::info, [](Console& console) {
    Progress known(console, 100, "examples");
    EXPECT_EQ(known.left(), "");
    known.reached(100);
    EXPECT_EQ(known.left(), "0.0 s");
    known.reached(1);
    EXPECT_NE(known.left(), "");
    Progress unknown(console, 0, "bytes");
    unknown.reached(7);
    EXPECT_EQ(unknown.left(), "");
  });
}

}  // namespace
}  // namespace norn::tools
