// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Reading what Linux says of a machine, below any root.
namespace norn::tools {

/// The whole file, without the white space at its end; nothing when it cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& file);

/// The value after `key` and a colon in the first such line: "flags", "CheckPCIConfigSpace".
std::optional<std::string> value_after(const std::string& text, const std::string& key);

/// "0-3,8" -> 0, 1, 2, 3, 8.
std::vector<int> parse_cores(const std::string& list);
/// 0, 1, 2, 3, 8 -> "0-3,8".
std::string cores_text(const std::vector<int>& cores);

}  // namespace norn::tools
