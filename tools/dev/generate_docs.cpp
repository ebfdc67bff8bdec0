// SPDX-License-Identifier: Apache-2.0
// Prints the documents that the table of descriptor keys gives. tools/dev/generate_docs.sh puts
// them in place.
#include "norn/nn/descriptor_json.h"

#include <iostream>
#include <string_view>

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "descriptor") {
    std::cout << norn::descriptor_reference_markdown();
  } else if (what == "schema") {
    std::cout << norn::descriptor_json_schema();
  } else {
    std::cerr << "usage: generate_docs descriptor|schema\n";
    return 2;
  }
  return std::cout.flush() ? 0 : 1;
}
