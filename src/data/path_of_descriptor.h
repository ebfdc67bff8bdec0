// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace norn {

/// A name for libraries that open files by name, which leads to the file that a descriptor of this
/// process has open; `otherwise` where the system has none, or nothing is open.
inline std::filesystem::path path_of_descriptor(int descriptor,
                                                const std::filesystem::path& otherwise) {
  std::error_code none;
  const std::filesystem::path path = "/proc/self/fd/" + std::to_string(descriptor);
  return std::filesystem::exists(path, none) ? path : otherwise;
}

}  // namespace norn
