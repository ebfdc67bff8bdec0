// SPDX-License-Identifier: Apache-2.0
// Output files are complete or absent, and trouble is told before the work.

#include "src/base/atomic_file.h"

#include "norn/base/error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// What fsync() says of folders, where it is not 0: a disk that fails cannot be had.
int folder_sync_error = 0;

}  // namespace

// In place of the C library's.
extern "C" int fsync(int descriptor) {
  struct stat about {};
  if (folder_sync_error != 0 && ::fstat(descriptor, &about) == 0 && S_ISDIR(about.st_mode)) {
    errno = folder_sync_error;
    return -1;
  }
  return int(::syscall(SYS_fsync, descriptor));
}

namespace norn {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "norn_atomic_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  long files() const { return std::distance(fs::directory_iterator(folder_), {}); }
  static std::string message_for(const fs::path& path) {
    try {
      const AtomicFile file(path);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }

  static std::string commit_message(AtomicFile& file) {
    try {
      file.commit();
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

TEST_F(AtomicFileTest, AppearsWhenCommitted) {
  const fs::path path = folder_ / "model.nc";
  AtomicFile file(path);
  write(file.temporary(), "whole");
  EXPECT_EQ(file.temporary().parent_path(), folder_);
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(read(path), "whole");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, ItsPlaceIsTakenFromTheBeginning) {
  const AtomicFile file(folder_ / "model.nc");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file.temporary())));
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, PiecesAndStreamsWriteIt) {
  AtomicFile file(folder_ / "a");
  file.write("in ");
  file.write("pieces");
  file.commit();
  EXPECT_EQ(read(folder_ / "a"), "in pieces");
  AtomicFile other(folder_ / "b");
  std::FILE* const stream = other.open();
  EXPECT_EQ(std::fputs("a stream", stream), 1);
  EXPECT_EQ(std::fclose(stream), 0);
  other.commit();
  EXPECT_EQ(read(folder_ / "b"), "a stream");
}

TEST_F(AtomicFileTest, AnOldErrorIsNotThatOfAWrite) {
  AtomicFile file(folder_ / "a");
  errno = EINTR;
  file.write("once");
  file.commit();
  EXPECT_EQ(read(folder_ / "a"), "once");
}

TEST_F(AtomicFileTest, NoDescriptorIsLeftOpen) {
  const auto open_ones = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_ones();
  for (int round = 0; round < 3; ++round) {
    AtomicFile file(folder_ / "a");
    EXPECT_EQ(std::fclose(file.open()), 0);
    if (round > 0) file.commit();
  }
  message_for(folder_ / "none" / "a");
  EXPECT_EQ(open_ones(), before);
}

TEST_F(AtomicFileTest, LinkPutInItsPlaceIsNotFollowed) {
  const fs::path path = folder_ / "model.nc";
  write(folder_ / "outside", "untouched");
  AtomicFile file(path);
  fs::remove(file.temporary());
  fs::create_symlink("outside", file.temporary());
  file.write("piece");
  std::FILE* const stream = file.open();
  std::fputs("stream", stream);
  std::fclose(stream);
  EXPECT_THAT(
      commit_message(file),
      testing::MatchesRegex(
          ".*model.nc: another program has put something else in the place of its temporary "
          "file model.nc.tmp-.*; write into a folder that only you can write"));
  EXPECT_EQ(read(folder_ / "outside"), "untouched");
  EXPECT_FALSE(fs::exists(fs::symlink_status(path)));
}

TEST_F(AtomicFileTest, InterruptedWriteLeavesTheOldFileAndNothingElse) {
  const fs::path path = folder_ / "model.nc";
  write(path, "old");
  {
    const AtomicFile file(path);
    write(file.temporary(), "half");
    EXPECT_EQ(read(path), "old");
  }
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, ReplacesTheOldFile) {
  const fs::path path = folder_ / "model.nc";
  write(path, "old");
  AtomicFile file(path);
  write(file.temporary(), "new");
  file.commit();
  EXPECT_EQ(read(path), "new");
}

TEST_F(AtomicFileTest, FailedCommitLeavesTheOldFile) {
  const fs::path path = folder_ / "model.nc";
  write(path, "old");
  {
    AtomicFile file(path);
    fs::remove(file.temporary());  // somebody did
    EXPECT_EQ(commit_message(file), path.string() +
                                        ": what was written could not be stored: No such file or "
                                        "directory; write elsewhere");
  }
  EXPECT_EQ(read(path), "old");
}

TEST_F(AtomicFileTest, FileWhosePlaceWasTakenIsNamed) {
  const fs::path path = folder_ / "model.nc";
  AtomicFile file(path);
  write(file.temporary(), "new");
  fs::create_directory(path);
  EXPECT_EQ(commit_message(file), path.string() +
                                      ": the finished file could not be renamed into place: Is a "
                                      "directory; write elsewhere");
}

TEST_F(AtomicFileTest, FolderThatCannotBeStoredIsNamed) {
  const fs::path path = folder_ / "model.nc";
  AtomicFile file(path);
  write(file.temporary(), "new");
  folder_sync_error = EIO;
  const std::string message = commit_message(file);
  EXPECT_EQ(message, path.string() +
                         ": its folder could not be synced: Input/output error; write elsewhere");
  // What some file systems say of every folder.
  folder_sync_error = EINVAL;
  AtomicFile again(path);
  write(again.temporary(), "newer");
  EXPECT_EQ(commit_message(again), "no error");
  folder_sync_error = 0;
  EXPECT_EQ(read(path), "newer");
}

TEST_F(AtomicFileTest, WhatAKilledProcessLeftIsRemoved) {
  const fs::path path = folder_ / "model.nc";
  write(path, "old");
  const pid_t child = ::fork();
  if (child == 0) {
    const AtomicFile file(folder_ / "model.epoch3.nc");
    const AtomicFile other(folder_ / "another.nc");
    write(file.temporary(), "half");
    write(other.temporary(), "half");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const AtomicFile living(path);
  write(living.temporary(), "being written");
  write(folder_ / ("model.nc.tmp-another-host-" + std::to_string(child) + "-0"), "");
  write(folder_ / "model.tmp-notes", "");
  EXPECT_EQ(files(), 6);
  remove_abandoned(path);
  EXPECT_EQ(files(), 5);  // another.nc's is not ours
  remove_abandoned(folder_ / "another.nc");
  EXPECT_EQ(files(), 4);
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(read(living.temporary()), "being written");
  remove_abandoned(folder_ / "no folder" / "model.nc");
}

TEST_F(AtomicFileTest, TwoFilesOfOneNameDoNotMeet) {
  AtomicFile first(folder_ / "a");
  AtomicFile second(folder_ / "a");
  EXPECT_NE(first.temporary(), second.temporary());
}

TEST_F(AtomicFileTest, MissingFolderIsNamed) {
  const fs::path path = folder_ / "missing" / "model.nc";
  EXPECT_THAT(message_for(path), AllOf(HasSubstr(path.string()), HasSubstr("does not exist")));
}

TEST_F(AtomicFileTest, FileInPlaceOfTheFolderIsNamed) {
  write(folder_ / "file", "");
  EXPECT_THAT(message_for(folder_ / "file" / "model.nc"), HasSubstr("does not exist"));
}

TEST_F(AtomicFileTest, UnwritableFolderIsNamed) {
  const fs::path path = folder_ / "model.nc";
  // The superuser may write anywhere: become somebody who owns nothing, for the constructor alone.
  const uid_t user = ::geteuid();
  ASSERT_EQ(::chmod(folder_.c_str(), 0555), 0);
  if (user == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const std::string message = message_for(path);
  if (user == 0) {
    ASSERT_EQ(::seteuid(user), 0);
  }
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_THAT(message, AllOf(HasSubstr(path.string()), HasSubstr(folder_.string()),
                             HasSubstr("permission denied")));
  EXPECT_EQ(files(), 0);
}

TEST_F(AtomicFileTest, NameThatIsTooLongIsToldBeforeTheWork) {
  EXPECT_THAT(message_for(folder_ / std::string(300, 'x')), HasSubstr("no file can be made in"));
}

TEST_F(AtomicFileTest, FolderAndDeviceAreRefused) {
  EXPECT_THAT(message_for(folder_), HasSubstr("is a folder"));
  EXPECT_THAT(message_for("/dev/null"), HasSubstr("is not a regular file"));
  EXPECT_EQ(message_for(""), "\"\": no file name; name a file to write");
}

TEST_F(AtomicFileTest, LinkStaysALink) {
  write(folder_ / "target", "old");
  fs::create_symlink("target", folder_ / "link");
  AtomicFile file(folder_ / "link");
  write(file.temporary(), "new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read(folder_ / "target"), "new");
}

TEST_F(AtomicFileTest, FullFileSystemIsToldAsSuch) {
  // A file system of 64 KiB; only the superuser can mount one.
  const fs::path disk = folder_ / "disk";
  fs::create_directory(disk);
  const std::string mount =
      "mount -t tmpfs -o size=64k,nr_inodes=2 norn " + disk.string() + " 2>/dev/null";
  if (::geteuid() != 0 || std::system(mount.c_str()) != 0) {
    GTEST_SKIP() << "this user cannot mount a small file system";
  }
  write(disk / "last", "x");  // the only other inode
  const std::string message = message_for(disk / "model.nc");
  EXPECT_EQ(std::system(("umount " + disk.string()).c_str()), 0);
  EXPECT_THAT(message, AllOf(HasSubstr("model.nc"), HasSubstr("disk is full")));
}

TEST_F(AtomicFileTest, TemporariesOfProcessesThatHaveEndedAreAbandoned) {
  const auto abandoned = [&] {
    std::vector<std::string> names;
    for (const fs::path& path :
         abandoned_temporaries(folder_, [](const std::string& name) { return name == "m.nc"; }))
      names.push_back(path.filename().string());
    std::sort(names.begin(), names.end());
    return names;
  };
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ASSERT_GT(ended, 0);
  std::string host(256, '\0');
  ASSERT_EQ(::gethostname(host.data(), host.size()), 0);
  host.resize(host.find('\0'));
  const AtomicFile alive(folder_ / "m.nc");
  write(alive.temporary(), "being written");
  const std::string mine = fmt::format("m.nc.tmp-{}-{}-0", host, ended);
  const std::string plain = fmt::format("m.nc.tmp-{}-3", ended);
  const std::string other = fmt::format("m.nc.tmp-elsewhere-{}-0", ended);
  for (const std::string& name :
       {mine, plain, other, std::string("m.nc.tmp-x"), std::string("m.nc.tmp-1-x"),
        fmt::format("else.nc.tmp-{}-0", ended), std::string("m.nc")})
    write(folder_ / name, "");
  // A child that nobody asked about is gone, too.
  while (abandoned().empty()) ::usleep(1000);
  EXPECT_THAT(abandoned(), UnorderedElementsAre(mine, plain));
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  EXPECT_THAT(abandoned(), UnorderedElementsAre(mine, plain));

  // On another host: after a day. And a number that a later process has again.
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(25);
  fs::last_write_time(folder_ / other, old);
  EXPECT_THAT(abandoned(), UnorderedElementsAre(mine, plain, other));
  const std::string again = fmt::format("m.nc.tmp-{}-{}-77", host, ::getpid());
  write(folder_ / again, "");
  EXPECT_THAT(abandoned(), UnorderedElementsAre(mine, plain, other));
  fs::last_write_time(folder_ / again, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_THAT(abandoned(), UnorderedElementsAre(mine, plain, other, again));
  EXPECT_TRUE(abandoned_temporaries(folder_ / "none", [](const auto&) { return true; }).empty());
}

}  // namespace
}  // namespace norn
