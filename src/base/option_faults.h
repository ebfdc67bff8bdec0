// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/problem.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

/// What is wrong with the settings of a run or the options of a program, gathered so that all of it
/// is told at once.
namespace norn {

class OptionFaults {
 public:
  void add(Problem problem) { problems_.push_back(std::move(problem)); }
  void fail(const std::string& message) { add(problem_of(message)); }
  /// Of an option that the message need not begin with.
  void fail(const std::string& option, const std::string& message) {
    add({{}, 0, 0, option, message});
  }
  /// `--mu 1 is out of range: it must be below 1`, unless `holds`.
  template <typename T>
  void require_range(bool holds, const char* option, T value, const std::string& expected) {
    if (!holds)
      fail(fmt::format("{} {} is out of range: it must be {}", option, shown(value), expected));
  }
  template <typename T>
  void require_at_least(T least, const char* option, const std::optional<T>& value) {
    if (value)
      require_range(*value >= least, option, *value, fmt::format("at least {}", shown(least)));
  }
  /// Calls `read` and keeps what is wrong, if it throws a UsageError: with `option`, unless the
  /// error names a key itself.
  template <typename Read>
  void attempt(const std::string& option, const Read& read) {
    try {
      read();
    } catch (const ProblemsError& error) {
      problems_.insert(problems_.end(), error.problems().begin(), error.problems().end());
    } catch (const UsageError& error) {
      Problem problem = problem_of(error.what());
      if (problem.key.empty()) problem.key = option;
      add(std::move(problem));
    }
  }
  const std::vector<Problem>& problems() const { return problems_; }
  /// Throws ProblemsError when anything is wrong.
  void throw_any() const {
    if (!problems_.empty()) throw ProblemsError(problems_);
  }

 private:
  static std::string shown(std::int64_t value) { return fmt::format("{}", value); }
  static std::string shown(int value) { return fmt::format("{}", value); }
  static std::string shown(double value) { return fmt::format("{:g}", value); }
  static std::string shown(float value) { return fmt::format("{:g}", value); }

  std::vector<Problem> problems_;
};

}  // namespace norn
