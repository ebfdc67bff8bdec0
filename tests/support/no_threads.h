// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <string>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace norn::test {

/// The message of the exception that `work` throws in a process that may start no thread.
inline std::string message_without_threads(const std::function<void()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string message = "no error";
    // The limit counts a user's threads, and does not hold for the superuser.
    const rlimit one{1, 1};
    if (::setrlimit(RLIMIT_NPROC, &one) != 0) message = "no limit";
    if (::geteuid() == 0 && ::setuid(65534) != 0) message = "no other user";
    try {
      work();
    } catch (const std::exception& error) {
      message = error.what();
    }
    const auto written = ::write(ends[1], message.data(), message.size());
    ::_exit(written < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string message(4096, '\0');
  const auto got = ::read(ends[0], message.data(), message.size());
  message.resize(got < 0 ? 0 : std::size_t(got));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return message;
}

}  // namespace norn::test
