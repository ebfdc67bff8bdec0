// SPDX-License-Identifier: Apache-2.0
// Messages and the changing line of a terminal, on stderr.
#include "tools/common/console.h"

#include "src/base/text.h"
#include "tools/common/called_as.h"
#include "tools/common/setting_names.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace norn::tools {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      break;
  }
  return spdlog::level::warn;
}

// Columns of the terminal; a longer line would leave parts of itself behind.
std::size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

void print_results(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    shown += printable(text.substr(0, end));
    if (end < text.size()) shown += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

Console::Console(const std::string& program, int rank, LogLevel level)
    : rank_(rank),
      prefix_(rank == 0 ? called_as(program)
                        : fmt::format("{}: [rank {}]", called_as(program), rank)),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      shows_progress_(rank == 0 && level != LogLevel::warning) {
  logger_ =
      std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger_->set_pattern("%v");
  logger_->set_level(spdlog_level(rank == 0 ? level : LogLevel::warning));
  logger_->flush_on(spdlog::level::debug);
}

Console::~Console() {
  set_status("");
}

Log Console::log() {
  return Log([this](LogLevel level, const std::string& message) { say(level, message); });
}

void Console::info(const std::string& message) {
  if (rank_ == 0) say(LogLevel::info, message);
}

void Console::warning(const std::string& message) {
  if (rank_ == 0) say(LogLevel::warning, message);
}

void Console::set_status(const std::string& line) {
  if (!is_terminal_) return;
  const std::lock_guard lock(mutex_);
  if (line.empty() && status_.empty()) return;
  status_ = printable(line).substr(0, terminal_columns() - 1);
  std::fputs(("\r\033[K" + status_).c_str(), stderr);
  std::fflush(stderr);
}

void Console::say(LogLevel level, const std::string& message) {
  const std::lock_guard lock(mutex_);
  const auto wanted = spdlog_level(level);
  if (!logger_->should_log(wanted)) return;
  if (!status_.empty()) std::fputs("\r\033[K", stderr);
  logger_->log(wanted, "{}: {}{}", prefix_, level == LogLevel::warning ? "warning: " : "",
               printable(with_options(message)));
  if (!status_.empty()) std::fputs(status_.c_str(), stderr);
}

}  // namespace norn::tools
