// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace norn {

/// More than any descriptor or list of settings has, and little enough to be held in memory.
constexpr std::size_t kLargestTextFile = std::size_t(64) << 20;

/// The whole of a small text file; nothing where it cannot be read. Throws UsageError for more than
/// `limit` bytes: devices and pipes may have no end; DataError for a path that leads nowhere.
std::optional<std::string> read_text_file(const std::filesystem::path& file,
                                          std::size_t limit = kLargestTextFile);

}  // namespace norn
