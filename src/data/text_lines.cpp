// SPDX-License-Identifier: Apache-2.0
// Reads text files block by block ahead of the thread that cuts them into lines.

#include "text_lines.h"

#include "norn/base/error.h"
#include "packed_file.h"
#include "src/base/files.h"
#include "src/data/prefetched.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlockBytes = std::size_t(1) << 22;
constexpr int kBlocks = 3;
constexpr std::size_t kLongestLine = std::size_t(1) << 28;

}  // namespace

std::vector<fs::path> text_files(const fs::path& path) {
  if (!path_exists(path)) {
    throw DataError(fmt::format("{}: no such file or folder; check the path", path.string()));
  }
  if (!is_folder(path)) return {path};
  std::error_code problem;
  std::vector<fs::path> files = entries_of(path, problem);
  if (problem) {
    throw DataError(fmt::format("{}: cannot list the folder: {}; check its permissions",
                                path.string(), problem.message()));
  }
  std::erase_if(files, [](const fs::path& entry) { return !is_file(entry); });
  if (files.empty()) {
    throw DataError(fmt::format("{}: the folder has no files; name one with text", path.string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct TextLines::Block {
  std::vector<char> bytes = std::vector<char>(kBlockBytes);
  std::size_t used = 0;
  std::size_t file = 0;
  bool first = false;  // of its file
  bool last = false;
};

/// Reads one file after the other, on a thread.
struct TextLines::Reader {
  std::vector<fs::path> files;
  Index total = 0;
  std::atomic<Index> done{0};
  std::size_t number = 0;  // of the file that is being read
  std::optional<PackedFile> file;
  Index before = 0;          // bytes of the files before it
  Prefetched<Block> blocks;  // last: its thread uses all of this

  explicit Reader(std::vector<fs::path> all)
      : files(std::move(all)), blocks(kBlocks, [this](Block& block) { return read(block); }) {
    for (const fs::path& one : files) {
      std::error_code ignored;
      const auto size = fs::file_size(one, ignored);
      if (!ignored) total += Index(size);
    }
  }

  bool read(Block& block) {
    block.first = !file;
    if (!file) {
      if (number == files.size()) return false;
      file.emplace(files[number]);
      before = done;
    }
    block.used = file->read(block.bytes.data(), kBlockBytes);
    block.file = number;
    block.last = block.used < kBlockBytes;
    done = before + file->position();
    if (std::memchr(block.bytes.data(), 0, block.used))
      throw DataError(fmt::format(
          "{}: holds a zero byte, so it is not text; convert it first (from UTF-16, for example)",
          files[number].string()));
    if (block.last) {
      file.reset();
      ++number;
    }
    return true;
  }
};

namespace {

/// Without the byte order mark that some editors put before UTF-8.
std::string_view without_mark(std::string_view text) {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

std::string_view without_return(std::string_view line) {
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

}  // namespace

TextLines::TextLines(std::vector<fs::path> files)
    : reader_(std::make_unique<Reader>(std::move(files))) {}

TextLines::TextLines(std::string name, std::string_view text)
    : rest_(without_mark(text)), file_ends_(true), file_(std::move(name)) {
  if (text.find('\0') != std::string_view::npos) {
    throw DataError(fmt::format("{}: holds a zero byte, so it is not text", file_));
  }
}

TextLines::~TextLines() = default;

Index TextLines::bytes_read() const {
  return reader_ ? reader_->done.load() : 0;
}

Index TextLines::bytes_total() const {
  return reader_ ? reader_->total : 0;
}

bool TextLines::next_block() {
  if (!reader_) return false;
  block_ = reader_->blocks.next();
  if (!block_) return false;
  rest_ = {block_->bytes.data(), block_->used};
  file_ends_ = block_->last;
  if (block_->first) {
    file_ = reader_->files[block_->file].string();
    line_number_ = 0;
    rest_ = without_mark(rest_);
  }
  return true;
}

bool TextLines::next(std::string_view& line) {
  if (carry_given_) {
    carry_.clear();
    carry_given_ = false;
  }
  while (true) {
    const std::size_t end = rest_.find('\n');
    if (end != std::string_view::npos || (file_ends_ && !(rest_.empty() && carry_.empty()))) {
      const std::string_view piece = rest_.substr(0, end);
      rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
      ++line_number_;
      if (carry_.empty()) {
        line = without_return(piece);
        return true;
      }
      carry_ += piece;
      carry_given_ = true;
      line = without_return(carry_);
      return true;
    }
    carry_ += rest_;
    rest_ = {};
    if (carry_.size() > kLongestLine) {
      throw DataError(fmt::format("{}:{}: the line is longer than {} bytes; is this a text file?",
                                  file_, line_number_ + 1, kLongestLine));
    }
    if (!next_block()) return false;
  }
}

}  // namespace norn
