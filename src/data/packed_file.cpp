// SPDX-License-Identifier: Apache-2.0
// Gzip by zlib's inflate, member by member.

#include "packed_file.h"

#include "norn/base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr std::size_t kInputBytes = std::size_t(1) << 17;
constexpr unsigned char kMagic[] = {0x1f, 0x8b};
constexpr int kGzipAlone =
    15 + 16;  // the largest window; zlib's way to say that headers are gzip's

}  // namespace

PackedFile::PackedFile(const std::filesystem::path& path)
    : name_(path.string()), file_(std::fopen(name_.c_str(), "rbe")), input_(kInputBytes) {
  if (!file_) {
    throw DataError(fmt::format("{}: cannot open: {}; check the path and its permissions", name_,
                                std::strerror(errno)));
  }
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  fill();
  packed_ = stream_.avail_in >= std::size(kMagic) &&
            std::equal(std::begin(kMagic), std::end(kMagic), stream_.next_in);
  if (!packed_) return;
  if (inflateInit2(&stream_, kGzipAlone) != Z_OK) throw std::bad_alloc();
  within_ = true;
}

PackedFile::~PackedFile() {
  if (packed_) inflateEnd(&stream_);
}

void PackedFile::fail(const std::string& what) const {
  throw DataError(
      fmt::format("{}: cannot read: {}; the file may be truncated or damaged", name_, what));
}

/// Reads more of the file once all was used; false at its end.
bool PackedFile::fill() {
  if (stream_.avail_in > 0) return true;
  const std::size_t got = std::fread(input_.data(), 1, input_.size(), file_.get());
  if (got == 0 && std::ferror(file_.get())) fail(std::strerror(errno));
  stream_.next_in = input_.data();
  stream_.avail_in = unsigned(got);
  taken_ += Index(got);
  return got > 0;
}

std::size_t PackedFile::copy(char* bytes, std::size_t count) {
  if (!fill()) return 0;
  const std::size_t some = std::min(count, std::size_t(stream_.avail_in));
  std::memcpy(bytes, stream_.next_in, some);
  stream_.next_in += some;
  stream_.avail_in -= unsigned(some);
  return some;
}

/// Behind a member: goes to the next one, or to the end of the file, which is false.
bool PackedFile::next_member() {
  const Index end = position();
  bool zeros = false;
  while (fill()) {
    if (*stream_.next_in == 0) {
      zeros = true;
      ++stream_.next_in;
      --stream_.avail_in;
      continue;
    }
    if (zeros) fail(fmt::format("what follows byte {} is not gzip", end));
    inflateReset(&stream_);
    return within_ = true;
  }
  return false;
}

void PackedFile::inflate_some() {
  if (!fill()) fail("unexpected end of file");
  const Index begin = position();
  const int code = inflate(&stream_, Z_NO_FLUSH);
  if (code == Z_STREAM_END) within_ = false;
  if (code == Z_OK || code == Z_STREAM_END) return;
  if (code == Z_MEM_ERROR) throw std::bad_alloc();
  fail(fmt::format("{} after byte {}", stream_.msg ? stream_.msg : "no gzip", begin));
}

std::size_t PackedFile::read(char* bytes, std::size_t count) {
  std::size_t done = 0;
  if (!packed_) {
    while (done < count) {
      const std::size_t some = copy(bytes + done, count - done);
      if (some == 0) break;
      done += some;
    }
    return done;
  }
  stream_.next_out = reinterpret_cast<unsigned char*>(bytes);
  stream_.avail_out = unsigned(count);
  while (stream_.avail_out > 0 && (within_ || next_member())) inflate_some();
  return count - stream_.avail_out;
}

}  // namespace norn
