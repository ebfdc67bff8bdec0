// SPDX-License-Identifier: Apache-2.0
// A file by a descriptor of its own.
#include "opened_file.h"

#include "norn/base/error.h"
#include "path_of_descriptor.h"

#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace norn {
namespace {

std::optional<std::int64_t> size_of(int descriptor) {
  struct stat facts {};
  if (descriptor < 0 || ::fstat(descriptor, &facts) != 0) return std::nullopt;
  return std::int64_t(facts.st_size);
}

}  // namespace

OpenedFile::OpenedFile(const std::filesystem::path& file)
    : file_(file),
      descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      error_(descriptor_ < 0 ? errno : 0),
      size_(size_of(descriptor_).value_or(0)) {}

OpenedFile::~OpenedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::filesystem::path OpenedFile::path() const {
  return path_of_descriptor(descriptor_, file_);
}

void OpenedFile::require_unchanged(const std::filesystem::path& shown) const {
  const std::optional<std::int64_t> size = size_of(descriptor_);
  if (!size || *size == size_) return;
  throw DataError(
      fmt::format("{}: is {} bytes long, expected {} as when it was opened: another program cut it "
                  "off or writes into it; put the whole file back and run again",
                  shown.string(), *size, size_));
}

bool OpenedFile::is_replaced() const {
  struct stat ours {
  }, named{};
  return descriptor_ >= 0 && ::fstat(descriptor_, &ours) == 0 &&
         ::stat(file_.c_str(), &named) == 0 &&
         (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev);
}

}  // namespace norn
