// SPDX-License-Identifier: Apache-2.0
// Reads text files block by block ahead of the thread that cuts them into lines.

#include "text_lines.h"

#include "norn/base/error.h"
#include "packed_file.h"
#include "src/base/files.h"
#include "src/base/thread.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
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

/// Blocks go from the reading thread to the cutting one and back.
struct TextLines::Reader {
  std::vector<fs::path> files;
  Index total = 0;
  std::atomic<Index> done{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<Block>> free;
  std::deque<std::unique_ptr<Block>> ready;
  std::exception_ptr error;
  bool finished = false;
  bool stopping = false;
  std::thread thread;

  explicit Reader(std::vector<fs::path> all) : files(std::move(all)) {
    for (const fs::path& file : files) {
      std::error_code ignored;
      const auto size = fs::file_size(file, ignored);
      if (!ignored) total += Index(size);
    }
    for (int i = 0; i < kBlocks; ++i) free.push_back(std::make_unique<Block>());
    thread = start_thread([this] { run(); });
  }

  ~Reader() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      changed.notify_all();
    }
    thread.join();
  }

  void run() {
    std::exception_ptr problem;
    try {
      for (std::size_t file = 0; file < files.size() && read_file(file); ++file) {
      }
    } catch (...) {
      problem = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    error = problem;
    finished = true;
    changed.notify_all();
  }

  std::unique_ptr<Block> take_free() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stopping || !free.empty(); });
    if (stopping) return nullptr;
    std::unique_ptr<Block> block = std::move(free.front());
    free.pop_front();
    return block;
  }

  /// False when the reader is to stop.
  bool read_file(std::size_t number) {
    const std::string name = files[number].string();
    PackedFile file(files[number]);
    const Index before = done;
    for (bool first = true, last = false; !last; first = false) {
      std::unique_ptr<Block> block = take_free();
      if (!block) return false;
      block->used = file.read(block->bytes.data(), kBlockBytes);
      block->file = number;
      block->first = first;
      block->last = last = block->used < kBlockBytes;
      done = before + file.position();
      if (std::memchr(block->bytes.data(), 0, block->used)) {
        throw DataError(
            fmt::format("{}: holds a zero byte, so it is not text; convert it first (from "
                        "UTF-16, for example)",
                        name));
      }
      const std::lock_guard lock(mutex);
      ready.push_back(std::move(block));
      changed.notify_all();
    }
    return true;
  }

  std::unique_ptr<Block> exchange(std::unique_ptr<Block> used) {
    std::unique_lock lock(mutex);
    if (used) {
      free.push_back(std::move(used));
      changed.notify_all();
    }
    changed.wait(lock, [this] { return !ready.empty() || finished; });
    if (ready.empty()) {
      if (error) std::rethrow_exception(error);
      return nullptr;
    }
    std::unique_ptr<Block> block = std::move(ready.front());
    ready.pop_front();
    return block;
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
  block_ = reader_->exchange(std::move(block_));
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
