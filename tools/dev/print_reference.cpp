// SPDX-License-Identifier: Apache-2.0
// Prints the reference of descriptors, as Markdown or as JSON schema, from the table of keys.
#include "norn/nn/descriptor_json.h"

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  if (what != "markdown" && what != "schema") {
    std::fputs("usage: descriptor_reference markdown|schema\n", stderr);
    return 2;
  }
  const std::string text =
      what == "markdown" ? norn::descriptor_reference_markdown() : norn::descriptor_json_schema();
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0;
}
