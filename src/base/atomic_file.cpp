// SPDX-License-Identifier: Apache-2.0
// Output files that are complete or absent.

#include "src/base/atomic_file.h"

#include "norn/base/error.h"
#include "src/base/host.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace norn {

namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& file) {
  const fs::path parent = file.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

std::string advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "the disk is full; free some space or write elsewhere";
    case EACCES:
    case EPERM:
      return "permission denied; change the permissions or write elsewhere";
    case EROFS:
      return "the file system is read-only; write elsewhere";
    default:
      return fmt::format("{}; write elsewhere", std::strerror(error_number));
  }
}

[[noreturn]] void fail(const fs::path& file, const char* what, int error_number) {
  throw DataError(fmt::format("{}: {}: {}", file.string(), what, advice(error_number)));
}

/// Syncs a folder to its device; 0 or the error number.
int sync_folder(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error_number = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  return error_number;
}

/// Two files of one process never share a temporary name; nor do processes of several hosts on a
/// shared file system.
fs::path temporary_name(const fs::path& file) {
  static std::atomic<unsigned> counter{0};
  return fs::path(file.string() + fmt::format("{}{}-{}-{}", AtomicFile::kTemporaryMark, host_name(),
                                              ::getpid(), counter++));
}

}  // namespace

AtomicFile::AtomicFile(fs::path final_path) : final_(std::move(final_path)) {
  std::error_code ignored;
  if (!final_.has_filename()) {
    throw DataError(fmt::format("\"{}\": no file name; name a file to write", final_.string()));
  }
  // A link stays a link: what it names is replaced.
  if (fs::is_symlink(final_, ignored) && fs::exists(final_, ignored)) {
    const fs::path named = fs::canonical(final_, ignored);
    if (!ignored) final_ = named;
  }
  // Renaming over a device such as /dev/null would destroy it.
  if (fs::exists(final_, ignored) && !fs::is_regular_file(final_, ignored)) {
    throw DataError(
        fmt::format("{}: {}; name a file to write", final_.string(),
                    fs::is_directory(final_, ignored) ? "is a folder" : "is not a regular file"));
  }
  const fs::path folder = folder_of(final_);
  if (!fs::is_directory(folder, ignored)) {
    throw DataError(fmt::format("{}: the folder {} does not exist; make it first", final_.string(),
                                folder.string()));
  }
  temporary_ = temporary_name(final_);
  // Only making a file tells whether one can be made: permission bits do not know read-only file
  // systems, quotas or the superuser.
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const int error_number = errno;
    const std::string what = fmt::format("no file can be made in {}", folder.string());
    fail(final_, what.c_str(), error_number);
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
  ::close(descriptor_);
}

void AtomicFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(final_, "cannot be written", errno);
    text.remove_prefix(std::size_t(count));
  }
}

std::FILE* AtomicFile::open() const {
  const int copy = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  std::FILE* const stream = copy < 0 ? nullptr : ::fdopen(copy, "wb");
  if (!stream) fail(final_, "cannot be written", errno);
  return stream;
}

void AtomicFile::commit() {
  require(!committed_, "AtomicFile: commit was called twice");
  struct stat facts {};
  if (::lstat(temporary_.c_str(), &facts) != 0 || ::fsync(descriptor_) != 0) {
    fail(final_, "what was written could not be stored", errno);
  }
  if (!S_ISREG(facts.st_mode)) {
    throw DataError(
        fmt::format("{}: another program has put something else in the place of its temporary file "
                    "{}; write into a folder that only you can write",
                    final_.string(), temporary_.filename().string()));
  }
  if (std::rename(temporary_.c_str(), final_.c_str()) != 0) {
    fail(final_, "the finished file could not be renamed into place", errno);
  }
  committed_ = true;
  const int problem = sync_folder(folder_of(final_));
  // Some file systems cannot sync a folder.
  if (problem != 0 && problem != EINVAL && problem != EACCES) {
    fail(final_, "its folder could not be synced", problem);
  }
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace norn
