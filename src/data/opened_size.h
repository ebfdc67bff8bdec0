// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

/// Notices that a file that is being read has been cut off or written over in place: the HDF5
/// library reads zeros beyond the end of a file.
namespace norn {

/// Watches the file that stands at a path now, also when another one takes its place there.
class OpenedSize {
 public:
  /// A file that cannot be opened is not watched.
  explicit OpenedSize(const std::filesystem::path& file);
  ~OpenedSize();
  OpenedSize(const OpenedSize&) = delete;
  OpenedSize& operator=(const OpenedSize&) = delete;

  /// To be called after a read. Throws DataError naming `shown` when the file is no longer as long
  /// as it was.
  void require_unchanged(const std::filesystem::path& shown) const;

 private:
  int descriptor_ = -1;
  std::int64_t size_ = 0;  // bytes
};

}  // namespace norn
