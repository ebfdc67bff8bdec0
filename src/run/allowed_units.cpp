// SPDX-License-Identifier: Apache-2.0
// Lists of units that may be chosen.
#include "src/run/allowed_units.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/text.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace norn::run {

std::vector<std::uint8_t> read_allowed_units(const std::filesystem::path& file,
                                             const LabelIndex& index, Index units, const Log& log) {
  constexpr std::size_t kLongestList = std::size_t(256) << 20;  // bytes: some 20 million labels
  const std::optional<std::string> text = read_text_file(file, kLongestList);
  if (!text)
    throw DataError(fmt::format(
        "{}: cannot be opened; `allow` names a file of feature labels, one a line", file.string()));
  std::vector<std::uint8_t> allowed(std::size_t(units), 0);
  Index known = 0;
  Index unknown = 0;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto unit = index.find(line);
    if (unit && *unit < units) {
      allowed[std::size_t(*unit)] = 1;
      ++known;
    } else {
      ++unknown;
    }
  }
  if (known == 0)
    throw DataError(fmt::format(
        "{}: none of its {} lines is a feature of the output index; write one label a line",
        file.string(), unknown));
  if (unknown > 0)
    log.warning(fmt::format("{}: {} of {} lines are unknown features: left out", file.string(),
                            with_thousands(unknown), with_thousands(known + unknown)));
  return allowed;
}

}  // namespace norn::run
