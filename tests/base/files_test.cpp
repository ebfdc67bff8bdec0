// SPDX-License-Identifier: Apache-2.0
#include "src/base/files.h"

#include "norn/base/error.h"
#include "tests/data/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace norn {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST(Files, SayWhatStandsAtAPath) {
  const TempDir folder;
  write_text(folder / "file", "");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("nothing", folder / "dangling");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"file", "link"}) {
    EXPECT_TRUE(path_exists(folder / name)) << name;
    EXPECT_TRUE(is_file(folder / name)) << name;
    EXPECT_FALSE(is_folder(folder / name)) << name;
  }
  for (const char* name : {"nothing", "dangling", "file/below"}) {
    EXPECT_FALSE(path_exists(folder / name)) << name;
    EXPECT_FALSE(is_file(folder / name)) << name;
  }
  EXPECT_TRUE(path_exists(folder / "pipe"));
  EXPECT_FALSE(is_file(folder / "pipe"));
  EXPECT_TRUE(is_folder(folder.path()));
  EXPECT_FALSE(path_exists(""));
}

TEST(Files, NameThePathThatCannotBeLookedAt) {
  const TempDir folder;
  fs::create_symlink("loop", folder / "loop");
  for (const auto& look : {path_exists, is_file, is_folder}) {
    EXPECT_THAT(message_of<DataError>([&] { look(folder / "loop"); }),
                HasSubstr("loop: cannot be looked at: Too many levels of symbolic links; check"));
    EXPECT_THAT(message_of<DataError>([&] { look(folder / std::string(300, 'x')); }),
                HasSubstr("x: cannot be looked at: File name too long; check"));
  }
}

TEST(Files, WhatIsWrittenMayNotBeReadByAnyName) {
  const TempDir folder;
  for (const char* name : {"read", "other"}) write_text(folder / name, "x");
  fs::create_symlink("read", folder / "link");
  fs::create_hard_link(folder / "read", folder / "hard");
  for (const char* name : {"read", "link", "hard", "./read"})
    EXPECT_THAT(message_of<UsageError>([&] {
                  require_apart({"", folder / "other", folder / "read"}, folder / name);
                }),
                HasSubstr("read is both read and written; choose another output"))
        << name;
  EXPECT_NO_THROW(require_apart({folder / "read"}, folder / "other"));
  EXPECT_NO_THROW(require_apart({folder / "read"}, folder / "new"));
  EXPECT_NO_THROW(require_apart({folder / "read", folder / "none"}, ""));
  EXPECT_NO_THROW(require_apart({"/dev/null"}, "/dev/null")) << "nothing is lost there";
}

TEST(Files, ListFoldersAndSayWhyTheyCannot) {
  const TempDir folder;
  std::error_code problem;
  EXPECT_THAT(entries_of(folder.path(), problem), UnorderedElementsAre());
  EXPECT_FALSE(problem);
  write_text(folder / "a", "");
  fs::create_symlink("b", folder / "b");
  EXPECT_THAT(entries_of(folder.path(), problem), UnorderedElementsAre(folder / "a", folder / "b"));
  EXPECT_FALSE(problem);
  EXPECT_THAT(entries_of(folder / "none", problem), UnorderedElementsAre());
  EXPECT_EQ(problem, std::errc::no_such_file_or_directory);
  entries_of(folder / "a", problem);
  EXPECT_EQ(problem, std::errc::not_a_directory);
}

}  // namespace
}  // namespace norn
