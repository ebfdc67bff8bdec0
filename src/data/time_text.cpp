// SPDX-License-Identifier: Apache-2.0
// Times as texts write them: ISO 8601 and Unix times.
#include "norn/data/text_reader.h"

#include <algorithm>
#include <charconv>
#include <chrono>

namespace norn {

namespace {

constexpr Microseconds kSecond = 1'000'000;
constexpr Microseconds kMinute = 60 * kSecond;
constexpr Microseconds kMillisecond = 1'000;
constexpr Microseconds kSecondsEnd = 100'000'000'000;  // 10^11: what is as large is milliseconds
constexpr Microseconds kMillisecondsEnd = 1000 * kSecondsEnd;
constexpr std::size_t kBasicDate = 8;  // digits of 20260131

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

/// Takes what it reads off the front of a text, and remembers whether all was as it should be.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}
  bool good() const { return good_; }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  bool take(char letter) {
    if (!rest_.starts_with(letter)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_any(std::string_view letters) {
    return std::ranges::any_of(letters, [this](char letter) { return take(letter); });
  }
  void expect(char letter) { good_ = take(letter) && good_; }

  /// A number of so many digits that is at most `most`.
  int number(std::size_t digits, int most) {
    int value = 0;
    if (rest_.size() < digits || !all_digits(rest_.substr(0, digits))) {
      good_ = false;
      return 0;
    }
    std::from_chars(rest_.data(), rest_.data() + digits, value);
    rest_.remove_prefix(digits);
    good_ = good_ && value <= most;
    return value;
  }

  /// What stands behind a decimal point, in `unit`s; digits below a microsecond are cut off.
  Microseconds fraction(Microseconds unit) {
    Microseconds value = 0;
    good_ = good_ && !rest_.empty() && is_digit(rest_.front());
    for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1)) {
      unit /= 10;
      value += unit * (rest_.front() - '0');
    }
    return value;
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

Microseconds read_date(Scanner& text, bool dashes, bool& good) {
  const int year = text.number(4, 9999);
  if (dashes) text.expect('-');
  const int month = text.number(2, 12);
  if (dashes) text.expect('-');
  const int day = text.number(2, 31);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(unsigned(month)),
                                         std::chrono::day(unsigned(day))};
  good = text.good() && date.ok();
  if (!good) return 0;
  return std::chrono::sys_days(date).time_since_epoch().count() * 24 * 60 * kMinute;
}

/// How far the zone is ahead of UTC.
Microseconds read_zone(Scanner& text) {
  if (text.at_end() || text.take_any("Zz")) return 0;
  const bool behind = text.take('-');
  if (!behind) text.expect('+');
  Microseconds ahead = 60 * kMinute * text.number(2, 23);
  if (!text.at_end()) {
    text.take(':');
    ahead += kMinute * text.number(2, 59);
  }
  return behind ? -ahead : ahead;
}

Microseconds read_clock(Scanner& text) {
  Microseconds time = 60 * kMinute * text.number(2, 23);
  text.expect(':');
  time += kMinute * text.number(2, 59);
  if (text.take(':')) {
    time += kSecond * text.number(2, 60);  // 60: a leap second
    if (text.take_any(".,")) time += text.fraction(kSecond);
  }
  return time - read_zone(text);
}

std::optional<Microseconds> iso_time(std::string_view text) {
  Scanner scan(text);
  bool good = false;
  Microseconds time = read_date(scan, text.size() != kBasicDate, good);
  if (good && !scan.at_end()) {
    good = scan.take_any("Tt ");
    time += read_clock(scan);
  }
  if (!good || !scan.good() || !scan.at_end()) return std::nullopt;
  return time;
}

std::optional<Microseconds> unix_time(std::string_view text) {
  Scanner scan(text);
  const bool negative = scan.take('-');
  const std::string_view digits = scan.rest().substr(0, scan.rest().find('.'));
  Microseconds whole = 0;
  if (!all_digits(digits)) return std::nullopt;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  if (read.ec != std::errc{} || whole >= kMillisecondsEnd) return std::nullopt;
  const Microseconds unit = whole < kSecondsEnd ? kSecond : kMillisecond;
  Microseconds time = whole * unit;
  if (digits.size() < scan.rest().size()) {
    Scanner behind(scan.rest().substr(digits.size() + 1));
    time += behind.fraction(unit);
    if (!behind.good() || !behind.at_end()) return std::nullopt;
  }
  return negative ? -time : time;
}

}  // namespace

std::optional<Microseconds> parse_time(std::string_view text) {
  const bool basic = text.size() == kBasicDate && all_digits(text);
  const bool dashed = text.size() > 4 && text[4] == '-';
  return basic || dashed ? iso_time(text) : unix_time(text);
}

}  // namespace norn
