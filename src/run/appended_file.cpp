// SPDX-License-Identifier: Apache-2.0
// Appending to files by the system's calls, without a buffer of our own.
#include "src/run/appended_file.h"

#include "norn/base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace norn::run {
namespace {

constexpr mode_t kMode = 0666;  // less what the process's mask takes away

std::string reason() {
  return std::strerror(errno);
}

[[noreturn]] void fail(const std::filesystem::path& file) {
  throw DataError(fmt::format("{}: cannot be written: {}; give another `run_dir`, or leave it out",
                              file.string(), reason()));
}

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path file,
                           std::function<void(const std::string&)> trouble)
    : path_(std::move(file)), trouble_(std::move(trouble)) {
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode);
  if (file_ < 0) fail(path_);
}

AppendedFile::~AppendedFile() {
  close(file_);
}

void AppendedFile::append(std::string_view record) {
  struct stat before {};
  if (fstat(file_, &before) != 0) return left_out(reason());
  std::size_t written = 0;
  while (written < record.size()) {
    const ssize_t count = write(file_, record.data() + written, record.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const std::string why = reason();
      // What is there of it would spoil the record after it.
      if (written > 0 && ftruncate(file_, before.st_size) != 0) return left_out(reason());
      return left_out(why);
    }
    written += std::size_t(count);
  }
}

void AppendedFile::left_out(const std::string& reason) {
  if (told_) return;
  told_ = true;
  trouble_(fmt::format("{}: cannot be written: {}; the run goes on without what should stand there",
                       path_.string(), reason));
}

void remove_unfinished_line(const std::filesystem::path& file) {
  const int opened = open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) {
    if (errno == ENOENT) return;
    fail(file);
  }
  struct stat facts {};
  bool good = fstat(opened, &facts) == 0;
  off_t end = facts.st_size;
  char block[4096];
  // Backward, a block at a time, to the last line end.
  for (off_t at = end; good && at > 0;) {
    const off_t from = std::max<off_t>(0, at - off_t(sizeof(block)));
    const ssize_t count = pread(opened, block, std::size_t(at - from), from);
    good = count == at - from;
    const void* found = good ? memrchr(block, '\n', std::size_t(count)) : nullptr;
    end = found ? from + (static_cast<const char*>(found) - block) + 1 : from;
    if (found) break;
    at = from;
  }
  good = good && (end == facts.st_size || ftruncate(opened, end) == 0);
  const int error = errno;
  close(opened);
  errno = error;
  if (!good) fail(file);
}

}  // namespace norn::run
