// SPDX-License-Identifier: Apache-2.0
// Fuzzes the text readers: whatever the bytes, rows come out or DataError is thrown, and what comes
// out keeps the promises of TextRow. The first byte of the input chooses the options.
#include "norn/base/error.h"
#include "norn/data/text_reader.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace norn;

TextOptions options_from(std::uint8_t choice) {
  TextOptions options;
  const auto formats = text_formats();
  if (const std::size_t format = choice % 6; format > 0)
    options.format = TextFormat(*formats[(format - 1) % formats.size()]);
  options.values = TextValues(choice / 6 % 3);
  options.header = HeaderLine(choice / 18 % 3);
  options.skip_malformed = choice / 54 % 2 == 0 ? 0 : 1000;
  if (choice >= 162) options.feature_column = "item";
  return options;
}

void check(bool condition) {
  if (!condition) std::abort();
}

void check_row(const TextRow& row, const TextOptions& options, const TextFormat& format) {
  // Columns hold any names; elsewhere colons and commas stand between them.
  const char* const never = format->entry_a_line ? "\t\n" : "\t:,\n";
  check(!row.example.empty());
  check(row.example.find('\t') == std::string_view::npos);
  for (const std::string_view feature : row.features) {
    check(!feature.empty());
    check(feature.find_first_of(never) == std::string_view::npos);
  }
  for (const float value : row.values) check(std::isfinite(value));
  const std::size_t entries = row.features.size() + row.numbers.size();
  check(row.values.size() == (options.values == TextValues::ignore ? 0 : entries));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const TextOptions options = options_from(data[0]);
  try {
    TextReader reader("fuzz", {reinterpret_cast<const char*>(data) + 1, size - 1}, options);
    TextRow row;
    while (reader.next(row)) check_row(row, options, reader.format());
  } catch (const DataError&) {
    // As promised for malformed text.
  } catch (const UsageError&) {
    // A column that is not there.
  }
  return 0;
}
