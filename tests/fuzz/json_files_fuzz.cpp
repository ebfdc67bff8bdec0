// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: DSSTNE's command files, descriptions of machines, and the JSON of records. The
// first byte of the input chooses. Whatever the text, it is read or a UsageError.
#include "norn/base/error.h"
#include "norn/nn/machine.h"
#include "src/nn/command_file.h"
#include "src/nn/json_value.h"

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using namespace norn;

/// What was read and written is read again as the same.
void check_again(const JsonValue& value) {
  const std::string line = value.line();
  if (parse_json(line, "again").line() != line) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto note = [](const std::string&) {};
  try {
    if (data[0] % 3 == 0) parse_command_file(text, "fuzz", note);
    if (data[0] % 3 == 1) parse_machine_json(text, "fuzz", note);
    if (data[0] % 3 == 2) check_again(parse_json(text, "fuzz"));
  } catch (const UsageError&) {
    // As promised for what is not understood.
  }
  return 0;
}
