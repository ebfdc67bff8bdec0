// SPDX-License-Identifier: Apache-2.0
// Messages taken apart, and put together again.
#include "norn/base/problem.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

namespace norn {
namespace {

void expect_parts(const std::string& text, const Problem& expected) {
  SCOPED_TRACE(text);
  const Problem problem = problem_of(text);
  EXPECT_EQ(problem.file, expected.file);
  EXPECT_EQ(problem.line, expected.line);
  EXPECT_EQ(problem.column, expected.column);
  EXPECT_EQ(problem.key, expected.key);
  EXPECT_EQ(problem.message, expected.message);
}

TEST(Problem, IsTakenFromMessages) {
  expect_parts("net.json:3: wrong", {"net.json", 3, 0, "", "wrong"});
  expect_parts("a/b:3:14: not JSON: x: y", {"a/b", 3, 14, "", "not JSON: x: y"});
  expect_parts("none.nc: is missing", {"none.nc", 0, 0, "", "is missing"});
  expect_parts("layer \"x.y\": diverges", {"", 0, 0, "", "layer \"x.y\": diverges"});
  expect_parts("unforeseen: what", {"", 0, 0, "", "unforeseen: what"});
  expect_parts("--batch 0 is out of range: it must be at least 1",
               {"", 0, 0, "--batch", "--batch 0 is out of range: it must be at least 1"});
  expect_parts("--seed: \"x\" is wrong", {"", 0, 0, "--seed", "--seed: \"x\" is wrong"});
  expect_parts("`last_epoch` 0: is wrong", {"", 0, 0, "last_epoch", "`last_epoch` 0: is wrong"});
  expect_parts("`", {"", 0, 0, "", "`"});
  expect_parts("no colon", {"", 0, 0, "", "no colon"});
}

TEST(Problem, FilesThatExistAreKnownByAnyName) {
  const std::string name = testing::TempDir() + "a file:7";
  std::ofstream(name) << "x";
  expect_parts(name + ": is empty", {name, 0, 0, "", "is empty"});
  std::filesystem::remove(name);
}

TEST(Problem, NamesWhatWasMeant) {
  EXPECT_EQ(problem_of("key \"a\"; did you mean \"b c\"? Known: d").suggestion(), "b c");
  EXPECT_EQ(problem_of("key \"a\"; did you mean \"b").suggestion(), "");
  EXPECT_EQ(problem_of("key \"a\"").suggestion(), "");
}

TEST(ProblemsError, ListsThemByLineAndCountsWhatIsNotShown) {
  EXPECT_STREQ(
      ProblemsError({{"f", 9, 1, "", "late"}, {"f", 2, 1, "", "early"}, {"f", 0, 0, "", "all"}})
          .what(),
      "f: all\nf:2: early\nf:9: late");
  std::vector<Problem> many(ProblemsError::kMostShown + 3, Problem{"f", 1, 1, "", "x"});
  EXPECT_THAT(ProblemsError(many).what(),
              testing::EndsWith("f:1: x\n3 more errors are not shown; mend these first"));
  EXPECT_EQ(ProblemsError(many).problems().size(), many.size());
}

}  // namespace
}  // namespace norn
