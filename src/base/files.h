// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

/// What stands at a path. Where that cannot be told (links in a loop, a name that is too long, a
/// folder that may not be entered) these throw DataError naming the path and the reason.
namespace norn {

/// Of any kind; links are followed.
bool path_exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
/// A regular file.
bool is_file(const std::filesystem::path& path);

/// Throws UsageError where `written` is one of the files that are `read`, under whatever name:
/// links and other ways to the same file count. Empty paths, pipes and devices are no file.
void require_apart(const std::vector<std::filesystem::path>& read,
                   const std::filesystem::path& written);

/// Paths of all that a folder holds, in no order. Does not throw: `problem` says why the list ends
/// early, if it does; what was found until then is returned.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder,
                                              std::error_code& problem);

/// More than any descriptor or list of settings has, and little enough to be held in memory.
constexpr std::size_t kLargestTextFile = std::size_t(64) << 20;

/// The whole of a small text file; nothing where it cannot be read. Throws UsageError for more than
/// `limit` bytes: devices and pipes may have no end; DataError for a path that leads nowhere.
std::optional<std::string> read_text_file(const std::filesystem::path& file,
                                          std::size_t limit = kLargestTextFile);

}  // namespace norn
