// SPDX-License-Identifier: Apache-2.0
// The file system's answers, as our errors.

#include "src/base/files.h"

#include "norn/base/error.h"
#include "src/base/text.h"

#include <algorithm>
#include <fstream>

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

void require_apart(const std::vector<fs::path>& read, const fs::path& written) {
  std::error_code ignored;
  if (written.empty() || !fs::is_regular_file(written, ignored)) return;
  for (const fs::path& one : read)
    if (!one.empty() && fs::equivalent(one, written, ignored))
      throw UsageError(
          fmt::format("{} is both read and written; choose another output", one.string()));
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

std::optional<std::string> read_text_file(const std::filesystem::path& file, std::size_t limit) {
  constexpr std::size_t kPiece = std::size_t(1) << 20;
  std::ifstream stream(file, std::ios::binary);
  if (is_folder(file) || !stream) return std::nullopt;
  std::string text;
  while (stream) {
    const std::size_t before = text.size();
    const std::size_t wanted = std::min(kPiece, limit + 1 - before);
    text.resize(before + wanted);
    stream.read(text.data() + before, std::streamsize(wanted));
    text.resize(before + std::size_t(stream.gcount()));
    if (text.size() > limit)
      throw UsageError(fmt::format("{}: has more than {}; is it the right file?", file.string(),
                                   human_bytes(double(limit))));
  }
  if (stream.bad()) return std::nullopt;
  return text;
}

}  // namespace norn
