// SPDX-License-Identifier: Apache-2.0
// Progress lines.
#include "tools/common/progress.h"

#include "src/base/text.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::tools {
namespace {

// "[===>      ]": short, so that what follows has room on 80 columns.
std::string bar(double share) {
  constexpr int kColumns = 10;
  const int full = std::clamp(int(share * kColumns), 0, kColumns);
  std::string columns(std::size_t(full), '=');
  if (full < kColumns) columns += '>';
  return fmt::format("[{:<{}}]", columns, kColumns);
}

}  // namespace

Progress::Progress(Console& console, Index total, std::string items)
    : console_(console), total_(total), items_(std::move(items)) {}

Progress::~Progress() {
  console_.set_status("");
}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

double Progress::rate() const {
  const double passed = seconds();
  return passed > 0.0 ? double(done_) / passed : 0.0;
}

std::string Progress::left() const {
  const double speed = rate();
  return total_ > 0 && speed > 0.0 ? human_seconds(double(total_ - done_) / speed) : std::string();
}

void Progress::reached(Index done) {
  done_ = done;
  if (!console_.is_terminal()) shown_ = Clock::now();
}

std::string Progress::line(const std::string& detail) const {
  const double speed = rate();
  std::string text = detail.empty() ? std::string() : detail + ", ";
  if (total_ > 0 && console_.is_terminal()) text += bar(double(done_) / double(total_)) + " ";
  if (total_ > 0)
    text += fmt::format("{:.0f}%, ", 100.0 * double(done_) / double(total_));
  else
    text += fmt::format("{} {}, ", with_thousands(done_), items_);
  text += fmt::format("{} {}/s", with_thousands((long long)(speed)), items_);
  if (const std::string rest = left(); !rest.empty()) text += fmt::format(", {} left", rest);
  return text;
}

void Progress::update(Index done, const std::string& detail) {
  done_ = done;
  if (!console_.shows_progress()) return;
  const Clock::time_point now = Clock::now();
  const double since = std::chrono::duration<double>(now - shown_).count();
  constexpr double kRedrawSeconds = 0.1;
  constexpr double kLineSeconds = 30.0;
  if (since < (console_.is_terminal() ? kRedrawSeconds : kLineSeconds)) return;
  shown_ = now;
  if (console_.is_terminal())
    console_.set_status(line(detail));
  else
    console_.info(line(detail));
}

}  // namespace norn::tools
