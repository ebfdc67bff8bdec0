// SPDX-License-Identifier: Apache-2.0
// What a process gives up it does not get back. Each test gives it up in a child of its own.
#include "src/data/reader/confinement.h"

#include "src/data/reader_process.h"
#include "support.h"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <initializer_list>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace norn {
namespace {

constexpr int kDone = 0;
constexpr int kKernelCannot = 99;

int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Runs `body` in a child, which ends with the number of the line that failed, or kDone.
template <typename Body>
void in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  const int status = end_of(child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kKernelCannot) GTEST_SKIP() << confinement_of_kernel().text();
  EXPECT_EQ(WEXITSTATUS(status), kDone);
}

bool opens(const std::string& path, int how = O_RDONLY) {
  const int descriptor = ::open(path.c_str(), how | O_CLOEXEC, 0600);
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}

struct TwoFiles {
  TempDir folder;
  std::string mine = (folder / "mine").string();
  std::string other = (folder / "other").string();
  int descriptor = -1;
  TwoFiles() {
    for (const std::string& file : {mine, other}) std::ofstream(file) << "text";
    descriptor = ::open(mine.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~TwoFiles() { ::close(descriptor); }
};

/// kDone, or the number of the first that does not hold, from 1.
int first_untrue(std::initializer_list<bool> all) {
  int number = 0;
  for (const bool holds : all) {
    ++number;
    if (!holds) return number;
  }
  return kDone;
}

TEST(Confinement, OneFileMayBeOpenedAndNoOther) {
  const TwoFiles files;
  in_child([&] {
    if (!open_nothing_but(files.descriptor)) return kKernelCannot;
    return first_untrue(
        {opens(files.mine), opens("/proc/self/fd/" + std::to_string(files.descriptor)),
         !opens(files.mine, O_RDWR), !opens(files.other), !opens("/etc/passwd"),
         !opens("/proc/self/maps"), !opens((files.folder / "made").string(), O_CREAT | O_WRONLY),
         ::unlink(files.other.c_str()) != 0});
  });
}

TEST(Confinement, AnOpenFileIsReadAndNothingElseIsDone) {
  const TwoFiles files;
  in_child([&] {
    if (!open_nothing()) return kKernelCannot;
    std::string text(4, ' ');
    const bool reads = ::pread(files.descriptor, text.data(), text.size(), 0) == 4;
    const std::string memory(std::size_t(1) << 24, 'x');
    char program[] = "/bin/true";
    char* const arguments[] = {program, nullptr};
    const bool serves = ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM;
    return first_untrue({reads && text == "text", memory.back() == 'x', !opens(files.mine),
                         !opens(files.other), !serves, ::fork() == -1,
                         ::execv(program, arguments) == -1, ::kill(::getppid(), SIGTERM) != 0,
                         ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                                -1, 0) == MAP_FAILED});
  });
}

TEST(Confinement, ItEndsWithTheOtherSideEvenWhereItIsStopped) {
  int told[2] = {-1, -1};
  ASSERT_EQ(::pipe(told), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) ::_exit(1);
    const pid_t child = ::fork();
    if (child == 0) {
      end_with_the_other_side(ends[1]);
      const pid_t self = ::getpid();
      if (::write(told[1], &self, sizeof(self)) != sizeof(self)) ::_exit(1);
      ::raise(SIGSTOP);
      ::_exit(0);
    }
    ::pause();
    ::_exit(0);
  }
  pid_t child = -1;
  ::close(told[1]);
  ASSERT_EQ(::read(told[0], &child, sizeof(child)), ssize_t(sizeof(child)));
  ::kill(parent, SIGKILL);
  end_of(parent);
  // The end of the last process that has the pipe open.
  char byte = 0;
  EXPECT_EQ(::read(told[0], &byte, 1), 0);
  ::close(told[0]);
}

TEST(Confinement, TheKernelIsAsked) {
  const Confinement has = confinement_of_kernel();
  EXPECT_EQ((Confinement{0, false}.text()), "landlock no, seccomp no");
  EXPECT_EQ((Confinement{7, true}.text()), "landlock 7, seccomp yes");
  const TwoFiles files;
  in_child([&] { return open_nothing_but(files.descriptor) == (has.landlock > 0) ? kDone : 1; });
  in_child([&] { return open_nothing() == has.filters ? kDone : 1; });
}

TEST(Patience, LastsWhileAProcessComputesAndEndsWhereItSleeps) {
  const pid_t busy = ::fork();
  if (busy == 0)
    for (;;) ::getppid();
  const pid_t asleep = ::fork();
  if (asleep == 0)
    for (;;) ::pause();
  const auto computed = [](pid_t process) {
    clockid_t clock{};
    timespec used{};
    ::clock_getcpuclockid(process, &clock);
    ::clock_gettime(clock, &used);
    return used.tv_sec * 1'000'000'000L + used.tv_nsec;
  };
  Patience with_busy(busy, 1), with_sleeper(asleep, 3);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(with_busy.lasts());
    for (const auto before = computed(busy); computed(busy) == before;) ::usleep(1000);
  }
  // It may have to come to its sleep.
  for (auto before = computed(asleep) - 1; before != computed(asleep); ::usleep(20'000))
    before = computed(asleep);
  EXPECT_TRUE(with_sleeper.lasts());
  EXPECT_TRUE(with_sleeper.lasts());
  EXPECT_TRUE(with_sleeper.lasts());
  EXPECT_FALSE(with_sleeper.lasts());
  EXPECT_TRUE(with_sleeper.is_over());
  for (const pid_t child : {busy, asleep}) {
    ::kill(child, SIGKILL);
    end_of(child);
  }
}

}  // namespace
}  // namespace norn
