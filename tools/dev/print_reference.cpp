// SPDX-License-Identifier: Apache-2.0
// Prints the references of descriptors and machines, as Markdown or as JSON schema, from the tables
// of keys, and the list of metrics.
#include "norn/engine/metric.h"
#include "norn/nn/machine.h"
#include "src/nn/descriptor_json.h"

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  std::string text;
  if (what == "markdown")
    text = norn::descriptor_reference_markdown();
  else if (what == "schema")
    text = norn::descriptor_json_schema();
  else if (what == "machine-markdown")
    text = norn::machine_reference_markdown();
  else if (what == "machine-schema")
    text = norn::machine_json_schema();
  else if (what == "metrics")
    text = norn::metric_reference_json();
  if (text.empty()) {
    std::fputs(
        "usage: descriptor_reference markdown|schema|machine-markdown|machine-schema|metrics\n",
        stderr);
    return 2;
  }
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0;
}
