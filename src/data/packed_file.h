// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <zlib.h>

/// Files that are read from front to back, plain or compressed by gzip.
namespace norn {

/// Unpacks what begins as gzip does; everything else is read as it is. Several members after one
/// another are one text, zeros after the last one (of a tape) are nothing. Unlike zlib's own reader
/// it takes anything else that follows a member for damage: what was lost there is not passed over.
class PackedFile {
 public:
  /// Throws DataError when the file cannot be opened.
  explicit PackedFile(const std::filesystem::path& path);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  /// The next bytes, `count` of them unless the file ends before. Throws DataError for a file that
  /// cannot be read, is cut off or damaged.
  std::size_t read(char* bytes, std::size_t count);
  /// Bytes of the file, as it is stored, that were used so far.
  Index position() const { return taken_ - Index(stream_.avail_in); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void fail(const std::string& what) const;
  bool fill();
  bool next_member();
  std::size_t copy(char* bytes, std::size_t count);
  void inflate_some();

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<unsigned char> input_;
  z_stream stream_ = {};
  Index taken_ = 0;  // bytes that were read from the file
  bool packed_ = false;
  bool within_ = false;  // a member
};

}  // namespace norn
