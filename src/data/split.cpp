// SPDX-License-Identifier: Apache-2.0
// Training, validation and test parts, drawn with counter-based random numbers.
#include "split.h"

#include "norn/base/error.h"
#include "src/base/philox.h"
#include "src/base/sha256.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

/// Streams within RandomPurpose::split.
enum Stream : std::uint32_t { kRounding = 0, kEntries = 1, kExamples = 2, kPairs = 3, kItems = 4 };

/// A whole number in [0, bound).
Index draw(const Philox& random, std::uint64_t row, Index position, Index bound) {
  const Philox::Block block = random.block(std::uint64_t(position), row);
  const std::uint64_t bits = (std::uint64_t(block.word[0]) << 32) | block.word[1];
  return Index((static_cast<unsigned __int128>(bits) * std::uint64_t(bound)) >> 64);
}

// 64 bits of a label's checksum.
std::uint64_t label_key(std::string_view label) {
  Sha256 sum;
  sum.add(label);
  return std::stoull(sum.hex().substr(0, 16), nullptr, 16);
}

std::vector<std::string> names_of(std::size_t parts) {
  if (parts == 2) return {"train", "test"};
  return {"train", "validation", "test"};
}

template <typename T>
void shuffle(std::vector<T>& items, const Philox& random, std::uint64_t row) {
  for (Index last = Index(items.size()) - 1; last > 0; --last) {
    std::swap(items[std::size_t(last)], items[std::size_t(draw(random, row, last, last + 1))]);
  }
}

}  // namespace

Split::Split(const SplitRule& rule) : rule_(rule) {
  if (rule.kind == SplitRule::Kind::none) {
    names_ = {""};
    return;
  }
  by_entry_ = rule.unit != SplitRule::Unit::example;
  if (rule.kind == SplitRule::Kind::ratio) {
    take_ratios();
    return;
  }
  if (rule.unit != SplitRule::Unit::entry)
    throw UsageError(fmt::format("a {} split is by entry; drop `split_by`",
                                 rule.kind == SplitRule::Kind::leave_one_out    ? "leave-one-out"
                                 : rule.kind == SplitRule::Kind::leave_last_out ? "leave-last-out"
                                 : rule.kind == SplitRule::Kind::new_items      ? "new-items"
                                                                                : "time"));
  const bool ascending =
      std::ranges::adjacent_find(rule.borders, std::greater_equal()) == rule.borders.end();
  if (rule.kind == SplitRule::Kind::time &&
      (rule.borders.empty() || rule.borders.size() > 2 || !ascending))
    throw UsageError(
        "`split` time: expected one time (test begins) or two, the earlier first (validation "
        "begins, test begins)");
  if (by_item() && !(rule.ratios.size() == 1 && rule.ratios[0] > 0.0 && rule.ratios[0] < 1.0))
    throw UsageError(
        "`split` new-items: expected a share of the items above 0 and below 1; give a share such "
        "as "
        "new-items:0.1");
  names_ = names_of(rule.borders.size() == 2 ? 3 : 2);
}

bool Split::by_time() const {
  return rule_.kind == SplitRule::Kind::time || rule_.kind == SplitRule::Kind::leave_last_out;
}

void Split::take_ratios() {
  const SplitRule& rule = rule_;
  const std::size_t parts = rule.ratios.size();
  const bool positive = std::all_of(rule.ratios.begin(), rule.ratios.end(),
                                    [](double r) { return std::isfinite(r) && r > 0; });
  if ((parts != 2 && parts != 3) || !positive) {
    throw UsageError(
        fmt::format("`split` ratio:{}: expected two shares (train/test) or three "
                    "(train/validation/test), each above 0",
                    fmt::join(rule.ratios, "/")));
  }
  names_ = names_of(parts);
  const double sum = std::accumulate(rule.ratios.begin(), rule.ratios.end(), 0.0);
  double upper = 0;
  for (const double ratio : rule.ratios) upper_.push_back((upper += ratio) / sum);
  upper_.back() = 1;
}

std::array<Index, 3> Split::entry_counts(std::uint64_t example, Index n) const {
  std::array<Index, 3> counts = {n, 0, 0};
  if (!by_entry_) return counts;
  if (rule_.kind == SplitRule::Kind::leave_one_out) {
    if (n >= 2) counts = {n - 1, 1, 0};
    return counts;
  }
  // One random offset rounds all borders: shares are right on average even for short rows.
  const Philox random = Philox::stream(rule_.seed, RandomPurpose::split, kRounding);
  const double offset = random.uniform(example, 0);
  Index before = 0;
  for (std::size_t part = 0; part < upper_.size(); ++part) {
    const Index border = part + 1 == upper_.size()
                             ? n
                             : std::min(n, Index(std::floor(double(n) * upper_[part] + offset)));
    counts[part] = border - before;
    before = border;
  }
  if (n > 0 && counts[0] == 0) {
    counts[0] = 1;
    --(counts[1] > 0 ? counts[1] : counts[2]);
  }
  return counts;
}

void Split::entry_parts(std::uint64_t example, Index n, std::vector<std::uint8_t>& parts) const {
  parts.clear();
  const std::array<Index, 3> counts = entry_counts(example, n);
  for (std::uint8_t part = 0; part < 3; ++part)
    parts.insert(parts.end(), std::size_t(counts[part]), part);
  shuffle(parts, Philox::stream(rule_.seed, RandomPurpose::split, kEntries), example);
}

void Split::pair_parts(std::string_view label, std::span<const Column> features,
                       std::vector<std::uint8_t>& parts) const {
  parts.clear();
  const Philox random = Philox::stream(rule_.seed, RandomPurpose::split, kPairs);
  const std::uint64_t row = label_key(label);
  double least = 1.0;
  std::size_t kept = 0;  // what is nearest to training
  for (const Column feature : features) {
    const double place = random.uniform(row, feature);
    if (place < least) {
      least = place;
      kept = parts.size();
    }
    parts.push_back(std::uint8_t(std::ranges::upper_bound(upper_, place) - upper_.begin()));
  }
  if (!parts.empty()) parts[kept] = 0;
}

void Split::time_parts(std::span<const Microseconds> times,
                       std::vector<std::uint8_t>& parts) const {
  parts.clear();
  for (const Microseconds time : times)
    parts.push_back(
        std::uint8_t(std::ranges::upper_bound(rule_.borders, time) - rule_.borders.begin()));
  if (rule_.kind != SplitRule::Kind::leave_last_out || times.size() < 2) return;
  std::size_t newest = 0;
  for (std::size_t i = 1; i < times.size(); ++i)
    if (times[i] >= times[newest]) newest = i;
  parts[newest] = 1;
}

std::vector<std::uint8_t> Split::item_parts(Index width) const {
  const Index held_out = Index(std::llround(rule_.ratios[0] * double(width)));
  if (held_out <= 0 || held_out >= width)
    throw UsageError(fmt::format(
        "`split` new-items:{:g}: of {} items it must hold back some and leave some; give "
        "a share such as new-items:0.1",
        rule_.ratios[0], width));
  std::vector<std::uint8_t> parts(std::size_t(width), 0);
  std::fill_n(parts.end() - held_out, held_out, std::uint8_t(1));
  shuffle(parts, Philox::stream(rule_.seed, RandomPurpose::split, kItems), 0);
  return parts;
}

std::vector<std::uint8_t> Split::example_parts(Index n) const {
  std::vector<std::uint8_t> parts;
  for (std::size_t part = 0; part < upper_.size(); ++part) {
    const Index border =
        part + 1 == upper_.size() ? n : Index(std::llround(double(n) * upper_[part]));
    parts.resize(std::size_t(std::max(Index(parts.size()), border)), std::uint8_t(part));
  }
  shuffle(parts, Philox::stream(rule_.seed, RandomPurpose::split, kExamples), 0);
  return parts;
}

}  // namespace norn
