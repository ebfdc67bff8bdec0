// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

/// Files that are complete or absent: written beside their place, synced, then renamed.
namespace norn {

/// Owns the temporary name of one output file. Write to temporary(), then call commit(); without
/// commit the temporary file is removed and whatever stood at the final place stays as it was.
class AtomicFile {
 public:
  /// Checks at once that the folder exists and can be written. Throws DataError naming the folder.
  /// A final path that is a link stays one: the file that it names is replaced.
  explicit AtomicFile(std::filesystem::path final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }
  const std::filesystem::path& final_path() const { return final_; }

  /// Syncs the temporary file and its folder and renames it into place. Throws DataError (disk
  /// full, permissions).
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

/// Removes what a process of this machine that was killed left of `path`, or of files that are
/// named after it ("model.epoch3.nc" after "model.nc"). What a living process writes stays.
void remove_abandoned(const std::filesystem::path& path) noexcept;

}  // namespace norn
