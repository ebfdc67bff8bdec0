// SPDX-License-Identifier: Apache-2.0
// A temporary file of rows.
#include "row_spill.h"

#include "norn/base/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace norn {

namespace {

constexpr std::size_t kBufferWords = std::size_t(1) << 18;
constexpr std::size_t kHeaderWords = 2;

[[noreturn]] void fail(const std::filesystem::path& folder, const char* verb) {
  throw DataError(
      fmt::format("{}: cannot {} a temporary file: {}; free some space or name another "
                  "folder with `scratch`",
                  folder.string(), verb, std::strerror(errno)));
}

}  // namespace

RowSpill::RowSpill(std::filesystem::path folder, bool valued)
    : folder_(folder.empty() ? "." : std::move(folder)), valued_(valued) {
  std::string name = (folder_ / ".norn-import-XXXXXX").string();
  descriptor_ = ::mkstemp(name.data());
  if (descriptor_ < 0) fail(folder_, "create");
  ::unlink(name.c_str());
  buffer_.reserve(kBufferWords);
}

RowSpill::~RowSpill() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RowSpill::RowSpill(RowSpill&& other) noexcept {
  *this = std::move(other);
}

RowSpill& RowSpill::operator=(RowSpill&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(valued_, other.valued_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(read_position_, other.read_position_);
  std::swap(buffer_, other.buffer_);
  std::swap(at_, other.at_);
  std::swap(values_, other.values_);
  return *this;
}

void RowSpill::append(Column example, std::span<const Column> features,
                      std::span<const float> values) {
  buffer_.push_back(example);
  buffer_.push_back(std::uint32_t(features.size()));
  buffer_.insert(buffer_.end(), features.begin(), features.end());
  if (valued_) {
    const std::size_t from = buffer_.size();
    buffer_.resize(from + values.size());
    if (!values.empty()) std::memcpy(buffer_.data() + from, values.data(), values.size_bytes());
  }
  if (buffer_.size() >= kBufferWords) flush();
}

void RowSpill::flush() {
  const char* at = reinterpret_cast<const char*>(buffer_.data());
  std::size_t left = buffer_.size() * sizeof(std::uint32_t);
  while (left > 0) {
    const ssize_t written = ::write(descriptor_, at, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(folder_, "write");
    at += written;
    left -= std::size_t(written);
  }
  buffer_.clear();
}

void RowSpill::rewind() {
  if (read_position_ == 0 && at_ == 0) flush();  // nothing was read: the buffer waits to be written
  read_position_ = 0;
  at_ = 0;
  buffer_.clear();
}

/// Makes the next `words` words stand in the buffer; false when the file ends before the first.
bool RowSpill::ensure(std::size_t words) {
  if (buffer_.size() - at_ >= words) return true;
  buffer_.erase(buffer_.begin(), buffer_.begin() + std::ptrdiff_t(at_));
  at_ = 0;
  std::size_t have = buffer_.size() * sizeof(std::uint32_t);
  buffer_.resize(std::max(words, kBufferWords));
  const std::size_t capacity = buffer_.size() * sizeof(std::uint32_t);
  char* const bytes = reinterpret_cast<char*>(buffer_.data());
  while (have < capacity) {
    const ssize_t got = ::pread(descriptor_, bytes + have, capacity - have, read_position_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(folder_, "read");
    if (got == 0) break;
    have += std::size_t(got);
    read_position_ += got;
  }
  buffer_.resize(have / sizeof(std::uint32_t));
  return buffer_.size() >= words;
}

bool RowSpill::next(SpilledRow& row) {
  if (!ensure(kHeaderWords)) return false;
  const std::size_t count = buffer_[at_ + 1];
  if (!ensure(kHeaderWords + count * (valued_ ? 2 : 1))) {
    errno = EIO;
    fail(folder_, "read");
  }
  row.example = buffer_[at_];
  row.features = {buffer_.data() + at_ + kHeaderWords, count};
  row.values = {};
  if (valued_) {
    values_.resize(count);
    if (count > 0) {
      std::memcpy(values_.data(), buffer_.data() + at_ + kHeaderWords + count,
                  count * sizeof(float));
    }
    row.values = values_;
  }
  at_ += kHeaderWords + count * (valued_ ? 2 : 1);
  return true;
}

}  // namespace norn
