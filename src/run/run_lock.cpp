// SPDX-License-Identifier: Apache-2.0
// Locks of files that runs write.
#include "src/run/run_lock.h"

#include "norn/base/error.h"
#include "src/base/host.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// One of three: the lock, who holds it, or the error number.
struct Attempt {
  int descriptor = -1;
  std::string holder;
  int error_number = 0;
};

// "process 123 on node7", as it wrote itself.
std::string read_holder(int descriptor) {
  std::array<char, 256> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  return count > 0 ? std::string(text.data(), std::size_t(count)) : std::string("another process");
}

// Whether the file that is open still has that name: who held the lock before removes it.
bool is_at(const fs::path& path, int descriptor) {
  struct stat open {};
  struct stat named {};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

Attempt try_to_lock(const fs::path& path) {
  while (true) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor < 0) return {-1, {}, errno};
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      if (is_at(path, descriptor)) return {descriptor, {}, 0};
      ::close(descriptor);
      continue;
    }
    const int error_number = errno;
    Attempt attempt;
    if (error_number == EWOULDBLOCK)
      attempt.holder = read_holder(descriptor);
    else
      attempt.error_number = error_number;
    ::close(descriptor);
    if (error_number != EINTR) return attempt;
  }
}

fs::path lock_path(const fs::path& file) {
  std::error_code ignored;
  const bool is_link = fs::is_symlink(file, ignored) && fs::exists(file, ignored);
  return (is_link ? fs::canonical(file) : file).string() + ".lock";
}

}  // namespace

RunLock::RunLock(const fs::path& file, double patience, const Log& log) : path_(lock_path(file)) {
  constexpr auto kTurn = std::chrono::milliseconds(100);
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(patience));
  Attempt attempt = try_to_lock(path_);
  if (!attempt.holder.empty() && patience > 0.0)
    log.info(fmt::format("waiting up to {:g} s for {}, which trains {}", patience, attempt.holder,
                         file.string()));
  while (!attempt.holder.empty() && Clock::now() < end) {
    std::this_thread::sleep_for(kTurn);
    attempt = try_to_lock(path_);
  }
  if (!attempt.holder.empty())
    throw UsageError(
        fmt::format("{}: {} trains this model; wait for its end, stop it, or give another `model` "
                    "or `checkpoint_name`",
                    file.string(), attempt.holder));
  if (attempt.error_number != 0) {
    log.warning(
        fmt::format("{}: cannot be locked ({}): start no other run that writes the same model",
                    path_.string(), std::strerror(attempt.error_number)));
    return;
  }
  descriptor_ = attempt.descriptor;
  const std::string holder = fmt::format("process {} on {}", ::getpid(), host_name());
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, holder.data(), holder.size(), 0) != ssize_t(holder.size())) {
    // A full disk: the lock holds, it only does not say whose it is.
  }
}

RunLock::~RunLock() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

RunLock::RunLock(RunLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

}  // namespace norn::run
