// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

/// The file that stood at a path when it was opened: all who read it read the same one, whatever
/// takes its name meanwhile. It is noticed when it is cut off or written over in place: the HDF5
/// library reads zeros beyond the end of a file.
namespace norn {

class OpenedFile {
 public:
  /// Does not wait for a pipe. A file that cannot be opened is not watched.
  explicit OpenedFile(const std::filesystem::path& file);
  ~OpenedFile();
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  /// path_of_descriptor(), or its own name.
  std::filesystem::path path() const;
  int descriptor() const { return descriptor_; }  ///< -1: it cannot be opened
  int error() const { return error_; }            ///< why (errno)

  /// To be called after a read. Throws DataError naming `shown` when the file is no longer as long
  /// as it was.
  void require_unchanged(const std::filesystem::path& shown) const;
  /// Whether another file has its name now.
  bool is_replaced() const;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  int error_ = 0;
  std::int64_t size_ = 0;  // bytes
};

}  // namespace norn
