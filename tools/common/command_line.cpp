// SPDX-License-Identifier: Apache-2.0
// Reading command lines: DSSTNE's spellings are put into long ones, CLI11 takes the words apart,
// values are converted here so that every message names option, value and expectation.
#include "tools/common/command_line.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "tools/common/called_as.h"
#include "tools/common/command_line_pages.h"
#include "tools/common/setting_names.h"
#include "tools/common/version.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace norn::tools {
namespace {

// "--epochs,-e" for CLI11; flags of several letters have been rewritten before.
std::string spellings(const Option& option) {
  return option.flag.size() == 2 ? option.name + "," + option.flag : option.name;
}

// The one of `words` that is given. Throws UsageError.
std::string chosen_word(const std::string& option, const std::vector<std::string>& words,
                        const std::string& given) {
  for (const std::string& word : words)
    if (equal_ignoring_case(word, given)) return word;
  throw UsageError(fmt::format("{}: \"{}\" is unknown{} Known: {}", option, given,
                               did_you_mean(given, words, "."), join(words)));
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

CommandLine::CommandLine(std::string program, std::string summary, std::string usage)
    : program_(std::move(program)), summary_(std::move(summary)), usage_(std::move(usage)) {
  const auto common = [this](const char* name, const char* flag, const char* value,
                             const char* text) -> Option& {
    Option option;
    option.name = name;
    option.flag = flag;
    option.value = value;
    option.text = text;
    option.section = "Help";
    return common_.emplace_back(std::move(option));
  };
  common("--help", "-h", "", "show this and exit");
  common("--version", "", "", "show versions, of the program and of what it uses, and exit");
  common("--explain", "", "NAME",
         "explain a key of a descriptor (Activation, Training.Alpha), an option (--epochs) or an "
         "exit code (75), and exit; alone: list the keys")
      .bare_value = "list";
  Option& completion = common("--print-completion", "", "bash|zsh|fish",
                              "print what makes a shell complete this program's options, and exit");
  completion.words = {"bash", "zsh", "fish"};
  common("--print-man", "", "", "print the manual page (roff), and exit");
  Option& errors = common("--errors", "", "text|json",
                          "how errors are told on stderr: a line each, or one JSON document "
                          "(docs/user/errors.md)");
  errors.default_text = "text";
  errors.words = {"text", "json"};
}

Option& CommandLine::add(Option option) {
  option.section = section_;
  option.may_differ = may_differ_;
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
  option.words = words;
  option.set = [name, words = std::move(words), &target](const std::string& given) {
    target = chosen_word(name, words, given);
  };
  return add(std::move(option));
}

Option& CommandLine::size(const std::string& name, std::int64_t& target, const std::string& text) {
  Option option;
  option.name = name;
  option.value = "SIZE";
  option.text = text;
  option.default_text = fmt::format("{}G", target >> 30);
  option.set = [name, &target](const std::string& given) { target = parse_bytes(name, given); };
  return add(std::move(option));
}

bool CommandLine::has_dsstnes_flag(const std::vector<std::string>& words) const {
  return std::any_of(options_.begin(), options_.end(), [&](const Option& option) {
    return option.flag.size() > 2 && std::any_of(words.begin(), words.end(), [&](const auto& word) {
             return word.substr(0, word.find('=')) == option.flag;
           });
  });
}

// CLI11 knows one-letter flags and long options only.
std::vector<std::string> CommandLine::long_spellings(int argc, const char* const* argv) const {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string head = word.substr(0, equals);
    for (const Option* option : every_option()) {
      const bool flag = option->flag.size() > 2 && head == option->flag;
      if (flag) word.replace(0, head.size(), option->name);
      if (option->bare_value.empty() || word != option->name) continue;
      // No word stands alone on a command line: one that follows is the value. What is explained
      // may be an option.
      const bool last = i + 1 == argc;
      if (option->name == "--explain" && !last)
        word += std::string("=") + argv[++i];
      else if (last || argv[i + 1][0] == '-')
        word += "=" + option->bare_value;
      break;
    }
    words.push_back(std::move(word));
  }
  return words;
}

std::vector<const Option*> CommandLine::every_option() const {
  std::vector<const Option*> all;
  for (const auto* table : {&options_, &common_})
    for (const Option& option : *table) all.push_back(&option);
  return all;
}

std::string CommandLine::unknown_word(const std::string& word) const {
  if (word.empty() || word[0] != '-')
    return fmt::format(
        "\"{}\" is not expected here: every file and value has its option; {} --help lists them",
        word, called_as(program_));
  const std::string head = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const Option* option : every_option()) {
    known.push_back(option->name);
    if (option->flag.size() > 2) known.push_back(option->flag);
  }
  return fmt::format("unknown option \"{}\"{} {} --help lists all options", head,
                     did_you_mean(head, known, ";"), called_as(program_));
}

// The value of an unknown option is no error of its own.
void CommandLine::reject_unknown(const std::vector<std::string>& rest, OptionFaults& faults) const {
  bool after_option = false;
  for (const std::string& word : rest) {
    const bool is_option = !word.empty() && word[0] == '-';
    const std::string key = is_option ? word.substr(0, word.find('=')) : std::string();
    if (is_option || !after_option) faults.fail(key, unknown_word(word));
    after_option = is_option && word.find('=') == std::string::npos;
  }
}

void CommandLine::set_values(const Values& values, OptionFaults& faults) const {
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    if (values[i].size() > 1 && !option.repeatable && !option.value.empty()) {
      faults.fail(option.name,
                  fmt::format("{} is given {} times; give it once", option.name, values[i].size()));
      continue;
    }
    faults.attempt(option.name, [&] {
      for (const std::string& value : values[i]) option.set(value);
    });
  }
}

// An option that says nothing of runs that are made again is one that would change them.
void CommandLine::refuse_changes(const Values& values, OptionFaults& faults) const {
  for (std::size_t again = 0; again < options_.size(); ++again) {
    if (!options_[again].makes_again || values[again].empty()) continue;
    for (std::size_t i = 0; i < options_.size(); ++i) {
      const Option& option = options_[i];
      if (i == again || option.may_differ || values[i].empty()) continue;
      faults.fail(fmt::format(
          "{} cannot be given with {}, which makes the run again as it was; leave one of them out",
          option.name, options_[again].name));
    }
  }
}

// "--config (-c) or --recipe sigmoid": with what may be given in its place.
std::string CommandLine::named_missing(const Option& option) const {
  std::string name = option.name;
  if (!option.flag.empty()) name += fmt::format(" ({})", option.flag);
  for (const Option& other : options_)
    if (other.spares == option.name && !other.words.empty())
      name += fmt::format(" or {} {}", other.name, other.words.front());
  return name;
}

void CommandLine::find_missing(const Values& values, OptionFaults& faults) const {
  std::vector<std::string> missing;
  const auto is_spared = [&](const Option& option) {
    for (std::size_t i = 0; i < options_.size(); ++i)
      if (options_[i].spares == option.name && !values[i].empty()) return true;
    return false;
  };
  const auto is_meant = [&](const Option& option) {
    return std::any_of(faults.problems().begin(), faults.problems().end(), [&](const auto& fault) {
      return fault.suggestion() == option.name || fault.key == option.name;
    });
  };
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    if (option.stands_alone && !values[i].empty()) return;
    if (option.required && values[i].empty() && !is_meant(option) && !is_spared(option))
      missing.push_back(named_missing(option));
  }
  if (missing.empty()) return;
  faults.fail(missing.front().substr(0, missing.front().find(' ')),
              fmt::format("{} {} missing; {} --help shows examples", join(missing),
                          missing.size() == 1 ? "is" : "are", called_as(program_)));
}

// What is said of an option that is wrong already follows from that.
void CommandLine::check_values(OptionFaults& faults) const {
  if (!check_) return;
  // What a file would have said that could not be read is not known.
  const auto of_file = [](const Problem& problem) { return !problem.file.empty(); };
  if (std::any_of(faults.problems().begin(), faults.problems().end(), of_file)) return;
  const auto named_in = [&](const std::string& message) {
    std::set<std::string> names;
    for (const Option& option : options_)
      for (std::size_t at = message.find(option.name); at != message.npos;
           at = message.find(option.name, at + 1)) {
        const char next = message.c_str()[at + option.name.size()];
        if (next != '-' && (next < 'a' || next > 'z')) names.insert(option.name);
      }
    return names;
  };
  std::set<std::string> wrong;
  for (const Problem& problem : faults.problems()) wrong.merge(named_in(problem.message));
  OptionFaults found;
  check_(found);
  for (Problem problem : found.problems()) {
    problem = in_options(std::move(problem));
    const std::set<std::string> names = named_in(problem.message);
    const bool follows = std::any_of(names.begin(), names.end(),
                                     [&](const std::string& name) { return wrong.contains(name); });
    if (!follows) faults.add(std::move(problem));
  }
}

// CLI11 takes the words apart; those that it does not know are returned.
std::vector<std::string> CommandLine::read_words(std::vector<std::string> words, Values& values,
                                                 OptionFaults& faults) const {
  CLI::App app(summary_, program_);
  app.set_help_flag();
  app.allow_extras();
  const std::vector<const Option*> all = every_option();
  values.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string>& given = values[i];
    if (all[i]->value.empty())
      app.add_flag_callback(spellings(*all[i]), [&given] { given.emplace_back(); });
    else
      app.add_option(spellings(*all[i]), given)->allow_extra_args(false)->type_name(all[i]->value);
  }
  std::vector<std::string> backward(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    app.parse(backward);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();  // "--epochs: 1 required N missing"
    const std::string name = what.substr(0, what.find(':'));
    faults.fail(name, fmt::format("{}: its value is missing; {} --help lists all options", name,
                                  called_as(program_)));
    // It was the last word; all others can be read.
    words.pop_back();
    values.clear();
    return read_words(std::move(words), values, faults);
  } catch (const CLI::ParseError& error) {
    throw UsageError(
        fmt::format("{}; {} --help lists all options", error.what(), called_as(program_)));
  }
  return app.remaining();
}

// What is asked of every program. Returns whether that was all.
bool CommandLine::answer(const Values& values) const {
  const auto given = [&](const std::string& name) -> const std::vector<std::string>& {
    std::size_t i = 0;
    while (common_[i].name != name) ++i;
    return values[options_.size() + i];
  };
  for (const std::string& word : given("--errors"))
    chosen_word("--errors", {"text", "json"}, word);  // error_format() has read it
  const bool help = !given("--help").empty();
  const bool version = !given("--version").empty();
  const bool man = !given("--print-man").empty();
  if (help) print(this->help());
  if (version)
    print(version_text(program_, libraries_ ? libraries_() : std::vector<LibraryVersion>()));
  for (const std::string& name : given("--explain")) print(explanation(*this, name));
  for (const std::string& shell : given("--print-completion"))
    print(completion_script(*this,
                            chosen_word("--print-completion", {"bash", "zsh", "fish"}, shell)));
  if (man) print(man_page(*this));
  return help || version || man || !given("--explain").empty() ||
         !given("--print-completion").empty();
}

CommandLine::Outcome CommandLine::parse(int argc, const char* const* argv) const {
  Values values;
  OptionFaults faults;
  const std::vector<std::string> rest = read_words(long_spellings(argc, argv), values, faults);
  if (answer(values)) return Outcome::answered;
  reject_unknown(rest, faults);
  set_values(values, faults);
  refuse_changes(values, faults);
  find_missing(values, faults);
  check_values(faults);
  faults.throw_any();
  return Outcome::run;
}

std::int64_t parse_bytes(const std::string& option, const std::string& text) {
  double factor = 1.0;
  std::string number = text;
  const std::string units = "KMGT";
  if (!number.empty()) {
    const std::string last = lower_case(number.substr(number.size() - 1));
    for (std::size_t u = 0; u < units.size(); ++u)
      if (last == lower_case(units.substr(u, 1))) factor = std::pow(1024.0, double(u + 1));
    if (factor > 1.0) number.pop_back();
  }
  const std::optional<double> value = parse_double(number);
  if (!value || !(*value >= 0.0) || *value * factor > 9e18)
    throw UsageError(
        fmt::format("{}: \"{}\" is no size; write for example 8G, 512M or 1000000", option, text));
  return std::int64_t(*value * factor);
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
  using Limits = std::numeric_limits<T>;
  if (*value < Limits::min() || *value > Limits::max())
    reject(name, text, fmt::format("whole number from {} to {}", Limits::min(), Limits::max()));
  target = T(*value);
}

// A seed, of which all 64 bits count.
void read_seed(const std::string& name, const std::string& text, std::uint64_t& target) {
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(begin, end, target);
  const bool is_whole = begin != end && stop == end;
  if (is_whole && problem == std::errc()) return;
  using Limits = std::numeric_limits<std::uint64_t>;
  reject(name, text,
         is_whole || parse_integer(text)
             ? fmt::format("whole number from {} to {}", Limits::min(), Limits::max())
             : "whole number");
}

template <typename T>
void read_real(const std::string& name, const std::string& text, T& target) {
  const std::optional<double> value = parse_double(text);
  if (!value || !std::isfinite(*value)) reject(name, text, "finite number");
  target = T(*value);
}

}  // namespace

template <typename T>
void read_value(const std::string& name, const std::string& text, T& target) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    read_seed(name, text, target);
  } else if constexpr (std::is_integral_v<T>) {
    read_whole(name, text, target);
  } else if constexpr (std::is_floating_point_v<T>) {
    read_real(name, text, target);
  } else {
    if (text.empty()) reject(name, text, std::is_same_v<T, std::string> ? "text" : "file name");
    target = text;
  }
}
template void read_value(const std::string&, const std::string&, std::string&);
template void read_value(const std::string&, const std::string&, std::filesystem::path&);
template void read_value(const std::string&, const std::string&, int&);
template void read_value(const std::string&, const std::string&, Index&);
template void read_value(const std::string&, const std::string&, std::uint64_t&);
template void read_value(const std::string&, const std::string&, float&);
template void read_value(const std::string&, const std::string&, double&);

}  // namespace detail
}  // namespace norn::tools
