// SPDX-License-Identifier: Apache-2.0
// The size of a file by a descriptor of its own.
#include "opened_size.h"

#include "norn/base/error.h"

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

OpenedSize::OpenedSize(const std::filesystem::path& file)
    : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)),
      size_(size_of(descriptor_).value_or(0)) {}

OpenedSize::~OpenedSize() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OpenedSize::require_unchanged(const std::filesystem::path& shown) const {
  const std::optional<std::int64_t> size = size_of(descriptor_);
  if (!size || *size == size_) return;
  throw DataError(
      fmt::format("{}: is {} bytes long, expected {} as when it was opened: another program cut it "
                  "off or writes into it; put the whole file back and run again",
                  shown.string(), *size, size_));
}

}  // namespace norn
