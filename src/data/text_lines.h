// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// Lines of text files, plain or compressed by gzip, read and unpacked on a thread of their own.
namespace norn {

/// The files of a path: itself, or the files in a folder sorted by name (not those in folders in
/// it). Throws DataError when there are none.
std::vector<std::filesystem::path> text_files(const std::filesystem::path& path);

class TextLines {
 public:
  explicit TextLines(std::vector<std::filesystem::path> files);
  /// Text in memory under a name for messages. The text must outlive this.
  TextLines(std::string name, std::string_view text);
  ~TextLines();
  TextLines(const TextLines&) = delete;
  TextLines& operator=(const TextLines&) = delete;

  /// The next line without its end (LF or CRLF) and without a byte order mark at the beginning of a
  /// file; false after the last. The view is valid until the next call. Throws DataError for files
  /// that cannot be read or hold a zero byte, as text never does.
  bool next(std::string_view& line);
  /// What was read beyond the line that next() gave last: perhaps nothing, perhaps millions of
  /// bytes; the last line of it may be cut.
  std::string_view ahead() const { return rest_; }
  /// Of the line that next() gave last.
  const std::string& file() const { return file_; }
  Index line_number() const { return line_number_; }
  /// Bytes of the files, as they are stored, that were read so far.
  Index bytes_read() const;
  Index bytes_total() const;

 private:
  struct Reader;
  struct Block;
  bool next_block();
  std::unique_ptr<Reader> reader_;  // null for text in memory
  const Block* block_ = nullptr;    // the reader's
  std::string_view rest_;           // of the block that is being cut into lines
  bool file_ends_ = false;
  std::string carry_;  // a line that began in the block before
  bool carry_given_ = false;
  std::string file_;
  Index line_number_ = 0;
};

}  // namespace norn
