// SPDX-License-Identifier: Apache-2.0
// Errors as lines and as JSON.
#include "tools/common/error_report.h"

#include "src/base/text.h"
#include "src/nn/json_value.h"
#include "tools/common/called_as.h"
#include "tools/common/command_line_pages.h"
#include "tools/common/setting_names.h"
#include "tools/common/stop_signals.h"

#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace norn::tools {
namespace {

const char* kind_of(int exit_code) {
  for (const ExitCodeText& code : exit_codes())
    if (code.code == exit_code) return code.kind;
  return exit_code > 128 ? "signal" : "unforeseen";
}

// "[rank 1 of 4 on node7: epoch 3, batch 7]".
std::string whereabouts(const Speaker& speaker) {
  if (speaker.place.empty()) return {};
  return fmt::format(" [rank {} of {} on {}: {}]", speaker.rank, speaker.ranks, speaker.host,
                     speaker.place);
}

JsonValue problem_value(const Problem& problem) {
  JsonValue value = JsonValue::object();
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) value.set(name, text);
  };
  value.set("message", problem.message);
  add("file", problem.file);
  if (problem.line > 0) value.set("line", problem.line);
  if (problem.column > 0) value.set("column", problem.column);
  add("key", problem.key);
  add("suggestion", problem.suggestion());
  return value;
}

// What the library says, in this program's words.
std::vector<Problem> all_in_options(std::vector<Problem> problems) {
  for (Problem& problem : problems) problem = in_options(std::move(problem));
  return problems;
}

}  // namespace

ErrorFormat error_format(int argc, const char* const* argv) {
  ErrorFormat format = ErrorFormat::text;
  constexpr std::string_view kOption = "--errors";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    std::string_view value;
    if (word == kOption && i + 1 < argc)
      value = argv[i + 1];
    else if (word.starts_with(kOption) && word.substr(kOption.size(), 1) == "=")
      value = word.substr(kOption.size() + 1);
    if (equal_ignoring_case(value, "json")) format = ErrorFormat::json;
    if (equal_ignoring_case(value, "text")) format = ErrorFormat::text;
  }
  return format;
}

Failure describe_exception() {
  try {
    throw;
  } catch (const Interrupted& stop) {
    return {{problem_of("stopped by a signal; what was not complete has been removed")},
            128 + stop.signal(),
            stop.signal()};
  } catch (const RunEnded& error) {
    return {{problem_of(with_options(error.what()))}, error.exit_code(), 0, true};
  } catch (const ProblemsError& error) {
    return {all_in_options(error.problems()), error.exit_code()};
  } catch (const Error& error) {
    return {{problem_of(with_options(error.what()))}, error.exit_code()};
  } catch (const std::filesystem::filesystem_error& error) {
    return {{problem_of(fmt::format("{}: {}; check the path and its permissions",
                                    error.path1().empty() ? "." : error.path1().string(),
                                    error.code().message()))},
            int(ExitCode::data)};
  } catch (const std::bad_alloc&) {
    return {
        {problem_of("there is not enough memory; use a smaller --batch, fewer threads or a larger "
                    "machine")},
        int(ExitCode::device)};
  } catch (const std::exception& error) {
    return {{{{}, 0, 0, {}, fmt::format("unforeseen: {}", error.what())}}};
  } catch (...) {
    return {{{{}, 0, 0, {}, "unforeseen: an exception of unknown type"}}};
  }
}

std::string failure_message(const Failure& failure, const Speaker& speaker) {
  std::string text;
  for (const Problem& problem : failure.problems) {
    if (!text.empty()) text += '\n';
    text += problem.text();
  }
  return text + whereabouts(speaker);
}

std::string failure_text(const Failure& failure, const Speaker& speaker) {
  const std::string mark =
      speaker.rank == 0 ? std::string() : fmt::format("[rank {}] ", speaker.rank);
  std::string text;
  const auto say = [&](const std::string& message) {
    text += fmt::format("{}: error: {}{}{}\n", called_as(speaker.program), mark, printable(message),
                        whereabouts(speaker));
  };
  std::size_t shown = 0;
  for (const Problem& problem : failure.problems) {
    if (shown == ProblemsError::kMostShown) {
      say(fmt::format("{} more errors are not shown; mend these first",
                      failure.problems.size() - shown));
      break;
    }
    say(problem.text());
    ++shown;
  }
  return text;
}

std::string failure_json(const Failure& failure, const Speaker& speaker) {
  JsonValue value = JsonValue::object();
  value.set("program", speaker.program).set("version", NORN_VERSION);
  value.set("exit_code", failure.exit_code).set("kind", kind_of(failure.exit_code));
  if (speaker.ranks > 1) value.set("rank", speaker.rank).set("ranks", speaker.ranks);
  if (!speaker.host.empty()) value.set("host", speaker.host);
  if (!speaker.place.empty()) value.set("place", speaker.place);
  JsonValue problems = JsonValue::array();
  for (const Problem& problem : failure.problems) problems.push(problem_value(problem));
  value.set("errors", std::move(problems));
  return value.line() + '\n';
}

}  // namespace norn::tools
