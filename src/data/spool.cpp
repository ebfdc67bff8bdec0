// SPDX-License-Identifier: Apache-2.0
// A file without a name.
#include "spool.h"

#include "norn/base/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace norn {

Spool::Spool(const std::filesystem::path& folder, std::string elsewhere)
    : folder_(folder.empty() ? "." : folder), elsewhere_(std::move(elsewhere)) {
  std::string name = (folder_ / ".norn-spool-XXXXXX").string();
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) fail("no file can be made");
  ::unlink(name.c_str());
  file_.reset(::fdopen(descriptor, "w+b"));
  if (!file_) {
    ::close(descriptor);
    fail("no file can be made");
  }
}

void Spool::write_bytes(const void* data, std::size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, file_.get()) != bytes) fail("cannot be written");
}

void Spool::rewind() {
  if (std::fflush(file_.get()) != 0 || std::fseek(file_.get(), 0, SEEK_SET) != 0) {
    fail("cannot be written");
  }
}

void Spool::read_bytes(void* data, std::size_t bytes) {
  if (bytes > 0 && std::fread(data, 1, bytes, file_.get()) != bytes) fail("cannot be read back");
}

void Spool::fail(const char* what) const {
  const char* reason =
      file_ && std::feof(file_.get()) ? "it ends before what was written" : std::strerror(errno);
  throw DataError(fmt::format("{}: temporary file: {}: {}; free some space or {}", folder_.string(),
                              what, reason, elsewhere_));
}

}  // namespace norn
