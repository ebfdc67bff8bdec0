// SPDX-License-Identifier: Apache-2.0
// The file system's answers, as our errors.

#include "src/base/files.h"

#include "norn/base/error.h"

#include <fmt/format.h>

namespace norn {

namespace {

namespace fs = std::filesystem;

fs::file_type type_of(const fs::path& path) {
  std::error_code problem;
  const fs::file_type type = fs::status(path, problem).type();
  if (problem && type != fs::file_type::not_found)
    throw DataError(fmt::format("{}: cannot be looked at: {}; check the path and its permissions",
                                path.string(), problem.message()));
  return type;
}

}  // namespace

bool path_exists(const fs::path& path) {
  return type_of(path) != fs::file_type::not_found;
}

bool is_folder(const fs::path& path) {
  return type_of(path) == fs::file_type::directory;
}

bool is_file(const fs::path& path) {
  return type_of(path) == fs::file_type::regular;
}

std::vector<fs::path> entries_of(const fs::path& folder, std::error_code& problem) {
  std::vector<fs::path> entries;
  fs::directory_iterator entry(folder, problem);
  while (!problem && entry != fs::directory_iterator()) {
    entries.push_back(entry->path());
    entry.increment(problem);
  }
  return entries;
}

}  // namespace norn
