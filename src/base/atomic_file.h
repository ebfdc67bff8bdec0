// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Files that are complete or absent: written beside their place, synced, then renamed.
namespace norn {

/// Owns the temporary file of one output file, NAME.tmp-<host>-<process>-<number>, which is there
/// and empty from the beginning, so that nothing else can come to stand under that name. Write by
/// write() or open(), or let a library open temporary() again; then call commit(). Without commit
/// the temporary file is removed and whatever stood at the final place stays as it was.
class AtomicFile {
 public:
  static constexpr std::string_view kTemporaryMark = ".tmp-";
  /// Checks at once that the folder exists and can be written. Throws DataError naming the folder.
  /// A final path that is a link stays one: the file that it names is replaced.
  explicit AtomicFile(std::filesystem::path final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }
  const std::filesystem::path& final_path() const { return final_; }

  /// Writes a piece of the temporary file. Throws DataError (disk full).
  void write(std::string_view text);
  /// A stream that writes the temporary file. The caller closes it before commit().
  std::FILE* open() const;

  /// Syncs the temporary file and its folder and renames it into place. Throws DataError (disk
  /// full, permissions).
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;  // of the temporary file, whatever stands under its name
  bool committed_ = false;
};

/// The whole of a file that is complete or absent. Throws DataError.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Temporary files that nobody will finish, of the files in a folder whose names `ours` accepts:
/// the process that made one has ended (on this host), or it was not written to for a day. A name
/// without a host is taken to be of this one.
std::vector<std::filesystem::path> abandoned_temporaries(
    const std::filesystem::path& folder, const std::function<bool(const std::string& name)>& ours);

/// Removes those of `path` and of files that are named after it ("model.epoch3.nc" after
/// "model.nc"). What a living process writes stays.
void remove_abandoned(const std::filesystem::path& path) noexcept;

}  // namespace norn
