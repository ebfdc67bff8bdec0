// SPDX-License-Identifier: Apache-2.0
// Completion of command lines by bash, zsh and fish, from the table of options.
#include "src/base/text.h"
#include "src/nn/explain.h"
#include "tools/common/command_line_pages.h"

#include <fmt/format.h>

namespace norn::tools {
namespace {

std::vector<std::string> spellings(const Option& option) {
  std::vector<std::string> all = {option.name};
  if (!option.flag.empty()) all.push_back(option.flag);
  return all;
}

// What an option's value is completed with when it is a word.
std::vector<std::string> words_of(const Option& option) {
  if (option.name != "--explain") return option.words;
  std::vector<std::string> names = key_names();
  std::erase_if(names,
                [](const std::string& name) { return name.starts_with('$'); });  // a variable
  return names;
}

// In single quotes of a POSIX shell.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') out += "'\\'";
    out += c;
  }
  return fmt::format("'{}'", out);
}

// Up to the first end of a clause: lists of completions are narrow.
std::string brief(const std::string& text) {
  const std::string clause = text.substr(0, text.find_first_of(";("));
  return clause.substr(0, clause.find_last_not_of(' ') + 1);
}

std::string bash_script(const CommandLine& line) {
  const std::string& program = line.program();
  std::string cases;
  std::vector<std::string> names;
  for (const Option* option : line.every_option()) {
    for (const std::string& spelling : spellings(*option)) names.push_back(spelling);
    std::string action;
    switch (kind_of_value(*option)) {
      case ValueKind::none:
        continue;
      case ValueKind::word:
        action = fmt::format("mapfile -t COMPREPLY < <(compgen -W {} -- \"$word\")",
                             quoted(join(words_of(*option), " ")));
        break;
      case ValueKind::file:
        action = "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$word\")";
        break;
      case ValueKind::folder:
        action = "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$word\")";
        break;
      case ValueKind::other:
        action.assign(1, ':');  // nothing
        break;
    }
    // A value that may be left out: an option may follow, too.
    const char* guard = option->bare_value.empty() ? "" : "[[ $word == -* ]] || ";
    cases += fmt::format("    {}) {}{{ {}; return; }} ;;\n", join(spellings(*option), "|"), guard,
                         action);
  }
  return fmt::format(
      R"(# bash completion for {0}; written by: {0} --print-completion bash
_norn_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  COMPREPLY=()
  # --name=value comes as three words.
  if [[ $word == "=" ]]; then
    word=""
  elif [[ $previous == "=" ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  case $previous in
{1}  esac
  mapfile -t COMPREPLY < <(compgen -W {2} -- "$word")
}}
complete -F _norn_{0} {0}
)",
      program, cases, quoted(join(names, " ")));
}

// Text inside [...] of an _arguments specification.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_script(const CommandLine& line) {
  std::string specifications;
  for (const Option* option : line.every_option()) {
    std::string action;
    switch (kind_of_value(*option)) {
      case ValueKind::none:
        break;
      case ValueKind::word:
        action =
            fmt::format(":{}:({})", zsh_text(option->name.substr(2)), join(words_of(*option), " "));
        break;
      case ValueKind::file:
        action = fmt::format(":{}:_files", zsh_text(option->value));
        break;
      case ValueKind::folder:
        action = fmt::format(":{}:_files -/", zsh_text(option->value));
        break;
      case ValueKind::other:
        action = fmt::format(":{}: ", zsh_text(option->value));
        break;
    }
    if (!option->bare_value.empty()) action = fmt::format(":{}", action);  // it may be left out
    std::string others(1, '*');
    if (!option->repeatable) others = fmt::format("({})", join(spellings(*option), " "));
    for (const std::string& spelling : spellings(*option)) {
      const bool takes_equals = spelling.starts_with("--") && !action.empty();
      specifications += fmt::format(
          " \\\n  {}", quoted(fmt::format("{}{}{}[{}]{}", others, spelling, takes_equals ? "=" : "",
                                          zsh_text(brief(option->text)), action)));
    }
  }
  return fmt::format("#compdef {0}\n# written by: {0} --print-completion zsh\n_arguments{1}\n",
                     line.program(), specifications);
}

// In single quotes of fish, where a backslash escapes.
std::string fish_quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return fmt::format("'{}'", out);
}

std::string fish_script(const CommandLine& line) {
  const std::string& program = line.program();
  std::string script = fmt::format(
      "# fish completion for {0}; written by: {0} --print-completion fish\ncomplete -c {0} -f\n",
      program);
  for (const Option* option : line.every_option()) {
    script += fmt::format("complete -c {} -l {}", program, option->name.substr(2));
    if (option->flag.size() == 2) script += fmt::format(" -s {}", option->flag.substr(1));
    if (option->flag.size() > 2) script += fmt::format(" -o {}", option->flag.substr(1));
    switch (kind_of_value(*option)) {
      case ValueKind::none:
        break;
      case ValueKind::word:
        script += fmt::format(" -x -a {}", fish_quoted(join(words_of(*option), " ")));
        break;
      case ValueKind::file:
        script += " -r -F";
        break;
      case ValueKind::folder:
        script += " -x -a '(__fish_complete_directories)'";
        break;
      case ValueKind::other:
        script += " -x";
        break;
    }
    script += fmt::format(" -d {}\n", fish_quoted(brief(option->text)));
  }
  return script;
}

}  // namespace

ValueKind kind_of_value(const Option& option) {
  if (option.value.empty()) return ValueKind::none;
  if (!words_of(option).empty()) return ValueKind::word;
  if (option.value == "FILE" || option.value == "PATH") return ValueKind::file;
  if (option.value == "FOLDER" || option.value == "DIR") return ValueKind::folder;
  return ValueKind::other;
}

std::string completion_script(const CommandLine& line, const std::string& shell) {
  if (shell == "bash") return bash_script(line);
  return shell == "zsh" ? zsh_script(line) : fish_script(line);
}

}  // namespace norn::tools
