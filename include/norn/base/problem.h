// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/error.h"

#include <string>
#include <string_view>
#include <vector>

/// Errors in parts, for programs that read them: where, which key, what, and what was meant.
namespace norn {

/// One thing that is wrong with a text, a command line or a file.
struct Problem {
  std::string file;     ///< empty: none is known
  int line = 0;         ///< from 1; 0: none is known
  int column = 0;       ///< from 1, in bytes; 0: none is known
  std::string key;      ///< "Layers[1].Activation", "--epochs", "batch"; empty: none is known
  std::string message;  ///< without file, line and column

  /// "net.json:14: layer "Hidden1": ...".
  std::string text() const;
  /// The word that was probably meant, from `did you mean "Tanh"?`; empty when nothing is near.
  std::string suggestion() const;
};

/// Takes a message of any error apart: `FILE:LINE:COLUMN: ...`, `FILE: ...`, `--option ...`, and a
/// setting in backquotes. What cannot be told stays in the message.
Problem problem_of(std::string_view message);

/// A UsageError that lists all that is wrong at once: what() has a line for each, the first
/// kMostShown of them, by line when they have lines.
class ProblemsError : public UsageError {
 public:
  static constexpr std::size_t kMostShown = 40;
  explicit ProblemsError(std::vector<Problem> problems);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

}  // namespace norn
