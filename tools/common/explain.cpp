// SPDX-License-Identifier: Apache-2.0
// Answers to --explain, and what exit codes mean.
#include "src/nn/explain.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "tools/common/called_as.h"
#include "tools/common/command_line_pages.h"
#include "tools/common/setting_names.h"

#include <fmt/format.h>

namespace norn::tools {
namespace {

std::string option_text(const Option& option) {
  std::string text = option.name + shown_value(option);
  if (!option.flag.empty()) text += fmt::format(", {}", option.flag);
  text += fmt::format("\n  meaning  {}\n", option.text);
  if (!option.words.empty()) text += fmt::format("  values   {}\n", join(option.words));
  if (option.required)
    text += "  default  none: it is required\n";
  else if (!option.value.empty())
    text +=
        fmt::format("  default  {}\n", option.default_text.empty() ? "none" : option.default_text);
  if (option.repeatable) text += "  note     it may be given several times\n";
  if (!option.bare_value.empty())
    text += fmt::format("  note     without {} it stands for {}={}\n", option.value, option.name,
                        option.bare_value);
  return text + fmt::format("  where    {}\n", option.section);
}

std::optional<std::string> explain_option(const CommandLine& line, const std::string& name) {
  for (const Option* option : line.every_option())
    if (equal_ignoring_case(option->name, name) || option->flag == name)
      return option_text(*option);
  return std::nullopt;
}

std::string explain_exit_code(long long number) {
  std::vector<std::string> known;
  for (const ExitCodeText& code : exit_codes()) {
    known.push_back(fmt::format("{}", code.code));
    if (code.code != number) continue;
    std::string text = fmt::format("exit code {}\n  meaning  {}\n", code.code, code.meaning);
    if (*code.advice) text += fmt::format("  do       {}\n", code.advice);
    if (*code.kind) text += fmt::format("  kind     {} (--errors=json)\n", code.kind);
    return text;
  }
  if (number > 128 && number < 160)
    return fmt::format(
        "exit code {}\n  meaning  ended by signal {} before there was a checkpoint; what was not "
        "complete has been removed\n  kind     signal (--errors=json)\n",
        number, number - 128);
  throw UsageError(
      fmt::format("--explain: no program ends with {}; exit codes: {}, and 128 + the "
                  "number of a signal",
                  number, join(known)));
}

[[noreturn]] void reject(const CommandLine& line, const std::string& name) {
  std::vector<std::string> known = key_names();
  for (std::string& word : words_of_keys()) known.push_back(std::move(word));
  for (const Option* option : line.every_option()) known.push_back(option->name);
  throw UsageError(
      fmt::format("--explain: \"{}\" is no key, value, option or exit code{} {} --explain lists "
                  "the keys",
                  name, did_you_mean(name, known, ";"), called_as(line.program())));
}

}  // namespace

const std::vector<ExitCodeText>& exit_codes() {
  static const std::vector<ExitCodeText> codes = {
      {0, "", "done", "done", ""},
      {1, "unforeseen", "unforeseen", "a fault of the program", "report it, with the message"},
      {2, "usage", "command line or descriptor",
       "the command line or a descriptor is wrong; nothing was begun",
       "mend what the message names"},
      {3, "data", "data",
       "a data, model or index file is wrong, missing, damaged, or cannot be written",
       "mend the file, or make room"},
      {4, "device", "device or memory",
       "a device failed, a processor lacks what the program was built for, or memory does not "
       "suffice",
       "another machine, or a smaller run (trainer --plan says how large it is)"},
      {5, "communication", "communication",
       "another process is gone, late, out of reach, or at work on the same",
       "look what became of it, then run the same command again, trainer with --resume"},
      {6, "divergence", "divergence", "numbers stopped being finite",
       "lower the learning rate; --resume goes on from the last checkpoint, if there is one"},
      {75, "stopped", "stopped by a signal after a checkpoint",
       "stopped by a signal after a checkpoint was written",
       "run the same command again, trainer with --resume"}};
  return codes;
}

std::string explanation(const CommandLine& line, const std::string& name) {
  if (name == "list")
    return fmt::format(
        "{}\n{} --explain NAME explains one of them, a value such as SoftMax, an option such as "
        "--help,\nor an exit code such as 75.\n",
        with_options(key_list()), called_as(line.program()));
  if (const auto number = parse_integer(name)) return explain_exit_code(*number);
  std::string text = with_options(explain_key(name).value_or(""));
  const auto option = explain_option(line, name.starts_with('-') ? name : "--" + name);
  if (option && !text.empty()) text += '\n';
  text += option.value_or("");
  if (text.empty()) reject(line, name);
  return text;
}

}  // namespace norn::tools
