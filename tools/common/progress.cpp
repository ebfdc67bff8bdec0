// SPDX-License-Identifier: Apache-2.0
// Progress lines.
#include "tools/common/progress.h"

#include "src/base/text.h"

#include <fmt/format.h>

namespace norn::tools {

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

std::string Progress::line(const std::string& detail) const {
  const double speed = rate();
  std::string text = detail.empty() ? std::string() : detail + ", ";
  if (total_ > 0)
    text += fmt::format("{:.0f}%, ", 100.0 * double(done_) / double(total_));
  else
    text += fmt::format("{} {}, ", with_thousands(done_), items_);
  text += fmt::format("{} {}/s", with_thousands((long long)(speed)), items_);
  if (total_ > 0 && speed > 0.0)
    text += fmt::format(", {} left", human_seconds(double(total_ - done_) / speed));
  return text;
}

void Progress::update(Index done, const std::string& detail) {
  done_ = done;
  if (!console_.shows_progress()) return;
  const Clock::time_point now = Clock::now();
  const double since = std::chrono::duration<double>(now - shown_).count();
  constexpr double kRedrawSeconds = 0.1;
  constexpr double kLineSeconds = 5.0;
  if (since < (console_.is_terminal() ? kRedrawSeconds : kLineSeconds)) return;
  shown_ = now;
  if (console_.is_terminal())
    console_.set_status(line(detail));
  else
    console_.info(line(detail));
}

}  // namespace norn::tools
