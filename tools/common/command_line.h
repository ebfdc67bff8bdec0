// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/problem.h"
#include "norn/base/types.h"
#include "src/base/library_version.h"
#include "src/base/option_faults.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

/// The options of a program, as one table: parsing, --help and docs/user/command_line.md follow
/// from it.
namespace norn::tools {

/// One option. `flag` is its short or DSSTNE's spelling ("-e", "-alpha"), or empty.
struct Option {
  std::string name;   ///< "--epochs"
  std::string flag;   ///< "-e"
  std::string value;  ///< what stands for the value in texts: "N"; empty: a switch
  std::string text;
  std::string default_text;  ///< shown as the default; empty: none is shown
  std::string section;
  bool required = false;
  bool repeatable = false;
  std::string bare_value;          ///< not empty: `--name` alone means `--name=bare_value`
  std::vector<std::string> words;  ///< what a choice is between
  bool stands_alone = false;       ///< where it is given, nothing else is required
  bool makes_again = false;        ///< where it is given, a run is made again as it was
  bool may_differ = false;  ///< beside such an option it may be given: no result depends on it
  bool for_trials = false;  ///< a search hands it to each of its trials as it is
  std::string spares;       ///< an option that need not be given then, though it is required
  std::function<void(const std::string& value)> set;
};

/// The option's value as texts show it behind its name: " N", " [FILE]" where it may be left out.
std::string shown_value(const Option& option);

/// Breaks text at blanks into lines of at most `width`; those after the first begin at `indent`.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width = 100);

struct Example {
  std::string command;
  std::string text;
};

/// A word of a command line that stands for a value.
template <typename T>
struct Word {
  std::string word;
  T value;
};

/// Collects a program's options and reads its command line. DSSTNE's flags of several letters
/// (-alpha, -lambda1) are understood beside the long options.
class CommandLine {
 public:
  CommandLine(std::string program, std::string summary, std::string usage);

  /// Options added from here on stand under this heading. `may_differ`: as Option's.
  void section(const std::string& title, bool may_differ = false) {
    section_ = title;
    may_differ_ = may_differ;
  }
  /// Adds an option whose value goes to `target`; the value that stands there is shown as the
  /// default. T: std::string, std::filesystem::path, int, Index, std::uint64_t, float, double, and
  /// std::optional or std::vector of them (a vector makes the option repeatable).
  template <typename T>
  Option& option(const std::string& name, const std::string& flag, const std::string& value,
                 T& target, const std::string& text);
  /// Adds a switch without a value.
  Option& toggle(const std::string& name, const std::string& flag, bool& target,
                 const std::string& text);
  /// Adds an option whose value is one of `words` (matched without regard to case and stored as
  /// listed).
  Option& choice(const std::string& name, const std::string& flag, std::vector<std::string> words,
                 std::string& target, const std::string& text);
  /// The same of words that stand for values; the one of the target's value is the default.
  template <typename T>
  Option& choice(const std::string& name, const std::string& flag, std::vector<Word<T>> words,
                 T& target, const std::string& text);
  /// Adds an option for a size in bytes, as parse_bytes() reads it; the target holds whole GiB.
  Option& size(const std::string& name, std::int64_t& target, const std::string& text);
  void example(const std::string& command, const std::string& text) {
    examples_.push_back({command, text});
  }
  /// Libraries that --version is to name.
  void uses(std::function<std::vector<LibraryVersion>()> libraries) {
    libraries_ = std::move(libraries);
  }
  /// What the values must be beside each other. Called when they are read, also where some could
  /// not be; of what follows from those nothing is told.
  void checks(std::function<void(OptionFaults&)> check) { check_ = std::move(check); }
  /// A paragraph that --help shows after the options.
  void remark(const std::string& text) { remarks_.push_back(text); }

  enum class Outcome { run, answered };
  /// Reads the command line into the targets. `answered`: --help, --version or the like was asked
  /// for and has been printed to stdout. Throws a UsageError for all that is wrong, naming option,
  /// value and what was expected.
  Outcome parse(int argc, const char* const* argv) const;

  /// Whether one of the words is a flag of several letters (-alpha), which only DSSTNE has.
  bool has_dsstnes_flag(const std::vector<std::string>& words) const;

  std::string help() const;
  const std::vector<Option>& options() const { return options_; }
  /// Those of the program, and after them those that every program has: --help and the like.
  std::vector<const Option*> every_option() const;
  const std::string& program() const { return program_; }
  const std::string& summary() const { return summary_; }
  const std::string& usage() const { return usage_; }
  const std::vector<Example>& examples() const { return examples_; }
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  /// Values of each option, in the order of every_option().
  using Values = std::vector<std::vector<std::string>>;
  Option& add(Option option);
  std::vector<std::string> long_spellings(int argc, const char* const* argv) const;
  std::vector<std::string> read_words(std::vector<std::string> words, Values& values,
                                      OptionFaults& faults) const;
  bool answer(const Values& values) const;
  void set_values(const Values& values, OptionFaults& faults) const;
  void refuse_changes(const Values& values, OptionFaults& faults) const;
  std::string named_missing(const Option& option) const;
  void find_missing(const Values& values, OptionFaults& faults) const;
  void check_values(OptionFaults& faults) const;
  std::string unknown_word(const std::string& word) const;
  void reject_unknown(const std::vector<std::string>& rest, OptionFaults& faults) const;

  std::string program_;
  std::string summary_;
  std::string usage_;
  std::string section_ = "Options";
  bool may_differ_ = false;
  std::vector<Option> options_;
  std::vector<Option> common_;
  std::vector<Example> examples_;
  std::vector<std::string> remarks_;
  std::function<std::vector<LibraryVersion>()> libraries_;
  std::function<void(OptionFaults&)> check_;
};

/// "8G", "512M", "1.5T", "1000000": bytes, in powers of 1024. Throws UsageError naming the option.
std::int64_t parse_bytes(const std::string& option, const std::string& text);

namespace detail {
/// Reads one value. Throws UsageError: `--epochs: "ten" is no whole number`.
template <typename T>
void read_value(const std::string& name, const std::string& text, T& target);
template <typename T>
void read_value(const std::string& name, const std::string& text, std::optional<T>& target) {
  read_value(name, text, target.emplace());
}
template <typename T>
void read_value(const std::string& name, const std::string& text, std::vector<T>& target) {
  read_value(name, text, target.emplace_back());
}

template <typename T>
std::string show(const T& value) {
  if constexpr (std::is_floating_point_v<T>)
    return fmt::format("{:g}", value);
  else if constexpr (std::is_same_v<T, std::filesystem::path>)
    return value.string();
  else
    return fmt::format("{}", value);
}
template <typename T>
std::string show(const std::optional<T>& value) {
  return value ? show(*value) : std::string();
}
template <typename T>
inline constexpr bool is_list = false;
template <typename T>
inline constexpr bool is_list<std::vector<T>> = true;
}  // namespace detail

template <typename T>
Option& CommandLine::option(const std::string& name, const std::string& flag,
                            const std::string& value, T& target, const std::string& text) {
  Option option;
  option.name = name;
  option.flag = flag;
  option.value = value;
  option.text = text;
  if constexpr (!detail::is_list<T>) option.default_text = detail::show(target);
  option.repeatable = detail::is_list<T>;
  option.set = [name, &target](const std::string& given) {
    detail::read_value(name, given, target);
  };
  return add(std::move(option));
}

template <typename T>
Option& CommandLine::choice(const std::string& name, const std::string& flag,
                            std::vector<Word<T>> words, T& target, const std::string& text) {
  std::vector<std::string> known;
  const auto chosen = std::make_shared<std::string>();
  for (const Word<T>& one : words) {
    known.push_back(one.word);
    if (one.value == target) *chosen = one.word;
  }
  Option& option = choice(name, flag, std::move(known), *chosen, text);
  option.set = [set = option.set, words = std::move(words), chosen,
                &target](const std::string& given) {
    set(given);
    for (const Word<T>& one : words)
      if (one.word == *chosen) target = one.value;
  };
  return option;
}

}  // namespace norn::tools
