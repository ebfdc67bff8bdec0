// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/common/command_line.h"

#include <string>
#include <vector>

/// What is made of a table of options beside --help: explanations, completion, manual pages.
namespace norn::tools {

/// What a number that a program ends with means. python/norn/errors.py has the same, and tests
/// compare both.
struct ExitCodeText {
  int code = 0;
  const char* kind = "";   ///< of errors in JSON: "usage"; empty for 0
  const char* words = "";  ///< at the end of --help
  const char* meaning = "";
  const char* advice = "";  ///< what to do; empty for 0
};
const std::vector<ExitCodeText>& exit_codes();

/// `--explain NAME`: a key of a descriptor or its value, an option of the program, or an exit code;
/// "list": the keys. Throws UsageError naming the nearest word.
std::string explanation(const CommandLine& line, const std::string& name);

/// A script that makes `shell` ("bash", "zsh", "fish") complete options, the words of choices, and
/// names of files and folders where an option takes one.
std::string completion_script(const CommandLine& line, const std::string& shell);

/// The manual page, section 1, as roff with the macros of man(7).
std::string man_page(const CommandLine& line);

/// What stands for an option's value, for completion.
enum class ValueKind { none, word, file, folder, other };
ValueKind kind_of_value(const Option& option);

}  // namespace norn::tools
