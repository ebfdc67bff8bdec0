// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/problem.h"

#include <string>
#include <vector>

/// How a program says why it ends: lines for people, or one JSON document for programs.
namespace norn::tools {

enum class ErrorFormat { text, json };

/// What `--errors` asks for, from the words of a command line before it is read: what is wrong with
/// it is told in that format, too.
ErrorFormat error_format(int argc, const char* const* argv);

/// Why a program ends.
struct Failure {
  std::vector<Problem> problems;
  int exit_code = 1;
  int signal = 0;        ///< not 0: ends as this signal would
  bool is_told = false;  ///< by another rank
};

/// The exception that is being handled. Only to be called from a catch block.
Failure describe_exception();

/// Who fails: of several ranks one speaks.
struct Speaker {
  std::string program;
  int rank = 0;
  int ranks = 1;
  std::string host = {};   ///< empty: not said
  std::string place = {};  ///< what the rank was at: "epoch 3, batch 7"; empty: not said
};

/// What is wrong, a line for each problem, and where.
std::string failure_message(const Failure& failure, const Speaker& speaker);
/// `trainer: error: MESSAGE`, a line for each problem.
std::string failure_text(const Failure& failure, const Speaker& speaker);
/// One line: {"program", "version", "exit_code", "kind", "errors": [{"message", "file", "line",
/// "column", "key", "suggestion"}]}; members that are not known are left out. The schema is
/// configs/schema/errors.schema.json.
std::string failure_json(const Failure& failure, const Speaker& speaker);

}  // namespace norn::tools
