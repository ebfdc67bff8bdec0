// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

/// Files that grow while a run goes on, and that the run does not depend on.
namespace norn::run {

/// A file that records are appended to: each goes to the system at once and whole, so that a
/// process that is killed leaves no half of one. When one cannot be written, because the disk is
/// full, it is left out and the run goes on; later ones are written when there is room again.
class AppendedFile {
 public:
  /// Opens or makes the file. `trouble` is told once what could not be written. Throws DataError
  /// when the file cannot be opened.
  AppendedFile(std::filesystem::path file, std::function<void(const std::string&)> trouble);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void append(std::string_view record);

 private:
  void left_out(const std::string& reason);
  std::filesystem::path path_;
  std::function<void(const std::string&)> trouble_;
  int file_ = -1;
  bool told_ = false;
};

/// Removes a last line that has no line end: what a machine that went down, or a full disk, left of
/// it. A file that is not there is none. Throws DataError when the file cannot be changed.
void remove_unfinished_line(const std::filesystem::path& file);

}  // namespace norn::run
