// SPDX-License-Identifier: Apache-2.0
// Prints the references of descriptors and machines, as Markdown or as JSON schema, from the tables
// of keys, and as JSON metrics, the trainer's options for trials of a search, and text formats.
#include "norn/data/text_format.h"
#include "norn/engine/metric.h"
#include "norn/nn/machine.h"
#include "src/nn/descriptor_json.h"
#include "tools/training/trainer_options.h"

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace {

// By an option's name and flag what stands for its value.
std::string trial_options_json() {
  norn::tools::TrainerOptions options;
  norn::tools::CommandLine line("trainer", "", "");
  options.add_to(line);
  std::string text;
  for (const norn::tools::Option& option : line.options())
    for (const std::string& name : {option.name, option.flag})
      if (option.for_trials && !name.empty())
        text += fmt::format("{}\n  \"{}\": \"{}\"", text.empty() ? "{" : ",", name, option.value);
  return text + "\n}\n";
}

// By a text format's name whether its lines have columns.
std::string text_formats_json() {
  std::string text;
  for (const norn::TextFormatInfo* format : norn::text_formats())
    text +=
        fmt::format("{} \"{}\": {}", text.empty() ? "{" : ",", format->name, format->entry_a_line);
  return text + " }\n";
}

}  // namespace

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
  else if (what == "trial-options")
    text = trial_options_json();
  else if (what == "text-formats")
    text = text_formats_json();
  if (text.empty()) {
    std::fputs(
        "usage: descriptor_reference "
        "markdown|schema|machine-markdown|machine-schema|metrics|trial-options|text-formats\n",
        stderr);
    return 2;
  }
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0;
}
