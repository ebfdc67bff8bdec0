// SPDX-License-Identifier: Apache-2.0
// Small text files.

#include "src/base/text_file.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/text.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

namespace norn {

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
