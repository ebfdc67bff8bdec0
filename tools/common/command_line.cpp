// SPDX-License-Identifier: Apache-2.0
// Reading command lines: DSSTNE's spellings are put into long ones, CLI11 takes the words apart,
// values are converted here so that every message names option, value and expectation.
#include "tools/common/command_line.h"

#include "norn/base/error.h"
#include "norn/base/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace norn::tools {
namespace {

// "--epochs,-e" for CLI11; flags of several letters have been rewritten before.
std::string spellings(const Option& option) {
  return option.flag.size() == 2 ? option.name + "," + option.flag : option.name;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

CommandLine::CommandLine(std::string program, std::string summary, std::string usage)
    : program_(std::move(program)), summary_(std::move(summary)), usage_(std::move(usage)) {}

Option& CommandLine::add(Option option) {
  option.section = section_;
  options_.push_back(std::move(option));
  return options_.back();
}

Option& CommandLine::toggle(const std::string& name, const std::string& flag, bool& target,
                            const std::string& text) {
  Option option;
  option.name = name;
  option.flag = flag;
  option.text = text;
  option.set = [&target](const std::string&) { target = true; };
  return add(std::move(option));
}

Option& CommandLine::choice(const std::string& name, const std::string& flag,
                            std::vector<std::string> words, std::string& target,
                            const std::string& text) {
  Option option;
  option.name = name;
  option.flag = flag;
  option.value = fmt::format("{}", fmt::join(words, "|"));
  option.text = text;
  option.default_text = target;
  option.set = [name, words = std::move(words), &target](const std::string& given) {
    for (const std::string& word : words) {
      if (!equal_ignoring_case(word, given)) continue;
      target = word;
      return;
    }
    throw UsageError(fmt::format("{}: \"{}\" is unknown{}; known: {}", name, given,
                                 did_you_mean(given, words), join(words)));
  };
  return add(std::move(option));
}

// CLI11 knows one-letter flags and long options only.
std::vector<std::string> CommandLine::long_spellings(int argc, const char* const* argv) const {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string head = word.substr(0, equals);
    for (const Option& option : options_) {
      const bool flag = option.flag.size() > 2 && head == option.flag;
      if (flag) word.replace(0, head.size(), option.name);
      // No word stands alone on a command line: one that follows is the value.
      const bool bare = i + 1 == argc || argv[i + 1][0] == '-';
      if (bare && !option.bare_value.empty() && word == option.name)
        word += "=" + option.bare_value;
      if (flag) break;
    }
    words.push_back(std::move(word));
  }
  return words;
}

void CommandLine::reject_unknown(const std::string& word) const {
  if (word.empty() || word[0] != '-')
    throw UsageError(
        fmt::format("\"{}\" is not expected here: every file and value has its option; "
                    "{} --help lists them",
                    word, program_));
  const std::string head = word.substr(0, word.find('='));
  std::vector<std::string> known = {"--help", "--version"};
  for (const Option& option : options_) {
    known.push_back(option.name);
    if (option.flag.size() > 2) known.push_back(option.flag);
  }
  const std::string guess = did_you_mean(head, known);
  throw UsageError(fmt::format("unknown option \"{}\"{}{} {} --help lists all options", head, guess,
                               guess.empty() ? ";" : "", program_));
}

void CommandLine::apply(const std::vector<std::vector<std::string>>& values) const {
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    if (values[i].size() > 1 && !option.repeatable && !option.value.empty())
      throw UsageError(
          fmt::format("{} is given {} times; give it once", option.name, values[i].size()));
    for (const std::string& value : values[i]) option.set(value);
    if (option.required && values[i].empty())
      missing.push_back(option.flag.empty() ? option.name
                                            : fmt::format("{} ({})", option.name, option.flag));
  }
  if (!missing.empty())
    throw UsageError(fmt::format("{} {} missing; {} --help shows examples", join(missing),
                                 missing.size() == 1 ? "is" : "are", program_));
}

CommandLine::Outcome CommandLine::parse(int argc, const char* const* argv) const {
  std::vector<std::string> words = long_spellings(argc, argv);
  CLI::App app(summary_, program_);
  app.set_help_flag();
  app.allow_extras();
  bool wants_help = false;
  bool wants_version = false;
  app.add_flag("-h,--help", wants_help);
  app.add_flag("--version", wants_version);
  std::vector<std::vector<std::string>> values(options_.size());
  for (std::size_t i = 0; i < options_.size(); ++i) {
    std::vector<std::string>& given = values[i];
    if (options_[i].value.empty())
      app.add_flag_callback(spellings(options_[i]), [&given] { given.emplace_back(); });
    else
      app.add_option(spellings(options_[i]), given)
          ->allow_extra_args(false)
          ->type_name(options_[i].value);
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();  // "--epochs: 1 required N missing"
    throw UsageError(fmt::format("{}: its value is missing; {} --help lists all options",
                                 what.substr(0, what.find(':')), program_));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; {} --help lists all options", error.what(), program_));
  }
  if (wants_help) print(help());
  if (wants_version) print(version_line(program_) + "\n");
  if (wants_help || wants_version) return Outcome::answered;
  if (const std::vector<std::string> rest = app.remaining(); !rest.empty()) reject_unknown(rest[0]);
  apply(values);
  return Outcome::run;
}

std::string version_line(const std::string& program) {
  return fmt::format("{} {} (Norn)", program, NORN_VERSION);
}

namespace detail {
namespace {

[[noreturn]] void reject(const std::string& name, const std::string& text,
                         const std::string& expected) {
  throw UsageError(fmt::format("{}: \"{}\" is no {}", name, text, expected));
}

template <typename T>
void read_whole(const std::string& name, const std::string& text, T& target) {
  const std::optional<long long> value = parse_integer(text);
  if (!value) reject(name, text, "whole number");
  if (*value <
          (std::numeric_limits<T>::is_signed ? (long long)(std::numeric_limits<T>::min()) : 0) ||
      (sizeof(T) < sizeof(long long) && *value > (long long)(std::numeric_limits<T>::max())))
    reject(name, text, std::numeric_limits<T>::is_signed ? "number that fits" : "number from 0 on");
  target = T(*value);
}

template <typename T>
void read_real(const std::string& name, const std::string& text, T& target) {
  const std::optional<double> value = parse_double(text);
  if (!value || !std::isfinite(*value)) reject(name, text, "finite number");
  target = T(*value);
}

}  // namespace

void read_value(const std::string& name, const std::string& text, std::string& target) {
  if (text.empty()) reject(name, text, "text");
  target = text;
}
void read_value(const std::string& name, const std::string& text, std::filesystem::path& target) {
  if (text.empty()) reject(name, text, "file name");
  target = text;
}
void read_value(const std::string& name, const std::string& text, int& target) {
  read_whole(name, text, target);
}
void read_value(const std::string& name, const std::string& text, Index& target) {
  read_whole(name, text, target);
}
void read_value(const std::string& name, const std::string& text, std::uint64_t& target) {
  read_whole(name, text, target);
}
void read_value(const std::string& name, const std::string& text, float& target) {
  read_real(name, text, target);
}
void read_value(const std::string& name, const std::string& text, double& target) {
  read_real(name, text, target);
}

std::string show(const std::string& value) {
  return value;
}
std::string show(const std::filesystem::path& value) {
  return value.string();
}
std::string show(double value) {
  return fmt::format("{:g}", value);
}
std::string show(float value) {
  return fmt::format("{:g}", value);
}
std::string show(Index value) {
  return fmt::format("{}", value);
}
std::string show(std::uint64_t value) {
  return fmt::format("{}", value);
}

}  // namespace detail
}  // namespace norn::tools
