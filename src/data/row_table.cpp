// SPDX-License-Identifier: Apache-2.0
// Puts rows in order: shares them out to temporary files by runs of examples, then orders each run
// in memory.
#include "row_table.h"

#include "norn/base/error.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr Index kMostBuckets = 256;  // open files
// Features with a stamp of four bytes each: so many, or those below a multiple of the entries that
// came, but not more than these.
constexpr Index kLeastStamped = Index(1) << 16;
constexpr Index kStampedForEntry = 4;
constexpr Index kMostStamped = Index(1) << 26;

}  // namespace

bool RowCleaner::first_time(Column feature) {
  if (Index(feature) >= stamped_) return seen_high_.insert(feature).second;
  if (feature >= seen_.size()) seen_.resize(std::max<std::size_t>(feature + 1, seen_.size() * 2));
  return std::exchange(seen_[feature], row_) != row_;
}

std::size_t RowCleaner::clean(std::vector<Column>& features, std::vector<float>& values,
                              std::vector<Microseconds>& times) {
  if (++row_ == 0) {  // wrapped around: forget all rows
    std::fill(seen_.begin(), seen_.end(), 0u);
    row_ = 1;
  }
  seen_high_.clear();
  entries_ += Index(features.size());
  stamped_ = std::clamp(kStampedForEntry * entries_, kLeastStamped, kMostStamped);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < features.size(); ++i) {
    const Column feature = features[i];
    if (!first_time(feature)) {
      if (rule_ == Duplicates::error) return i;
      ++merged_;
      if (rule_ == Duplicates::sum && !values.empty()) {
        const auto first = std::find(features.begin(), features.begin() + kept, feature);
        values[std::size_t(first - features.begin())] += values[i];
      }
      continue;
    }
    features[kept] = feature;
    if (!values.empty()) values[kept] = values[i];
    if (!times.empty()) times[kept] = times[i];
    ++kept;
  }
  features.resize(kept);
  if (!values.empty()) values.resize(kept);
  if (!times.empty()) times.resize(kept);
  return kept;
}

void RowTable::add(Column example, std::span<const Column> features, std::span<const float> values,
                   std::span<const Microseconds> times) {
  if (example >= counts_.size()) {
    if (example >= counts_.capacity())
      counts_.reserve(std::max<std::size_t>(example + 1, counts_.size() * 3 / 2));
    counts_.resize(std::size_t(example) + 1, kAbsent);
  }
  std::uint32_t& count = counts_[example];
  const auto added = std::uint32_t(features.size());
  if (count == kAbsent) {
    count = added;
    ++rows_;
    in_order_ = in_order_ && (rows_ == 1 || example > last_);
  } else {
    if (added >= kAbsent - count)
      throw DataError(
          fmt::format("example number {} has more than {} entries in all its lines; give it "
                      "fewer lines",
                      example, kAbsent - 1));
    count += added;
    in_order_ = false;
  }
  last_ = example;
  entries_ += added;
  spill_.append(example, features, values, times);
}

void RowTable::renumber(std::span<const Column> examples, std::span<const Column> features) {
  RowSpill renumbered(spill_.folder(), valued(), timed());
  std::vector<Column> columns;
  SpilledRow row;
  spill_.rewind();
  while (spill_.next(row)) {
    columns.clear();
    for (const Column old : row.features) columns.push_back(features[old]);
    renumbered.append(examples[row.example], columns, row.values, row.times);
  }
  std::vector<std::uint32_t> counts(examples.size(), kAbsent);
  for (std::size_t old = 0; old < counts_.size(); ++old) counts[examples[old]] = counts_[old];
  counts_ = std::move(counts);
  spill_ = std::move(renumbered);
  in_order_ = false;
}

/// Orders the rows of one run of examples after the other.
class RowTable::Regrouping {
 public:
  Regrouping(RowTable& table, RepeatedExamples repeated, RowCleaner& cleaner, const RowNames& names)
      : table_(table),
        repeated_(repeated),
        cleaner_(cleaner),
        names_(names),
        ordered_(table.spill_.folder(), table.valued(), table.timed()) {}

  void run(Index bucket_entries) {
    const Index limit = std::max(bucket_entries, table_.entries_ / kMostBuckets + 1);
    std::vector<Column> begins = {0};  // first example of each bucket
    Index entries = 0;
    for (std::size_t example = 0; example < table_.counts_.size(); ++example) {
      const std::uint32_t count = table_.counts_[example];
      if (count == kAbsent) continue;
      if (entries > 0 && entries + count > limit) {
        begins.push_back(Column(example));
        entries = 0;
      }
      entries += count;
    }
    begins.push_back(Column(table_.counts_.size()));
    if (begins.size() == 2) {
      order(table_.spill_, begins[0], begins[1]);
    } else {
      order_buckets(begins);
    }
    table_.spill_ = std::move(ordered_);
    table_.entries_ = entries_;
  }

 private:
  void order_buckets(const std::vector<Column>& begins) {
    std::vector<RowSpill> buckets;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      buckets.emplace_back(table_.spill_.folder(), table_.valued(), table_.timed());
    }
    SpilledRow row;
    table_.spill_.rewind();
    while (table_.spill_.next(row)) {
      const auto after = std::upper_bound(begins.begin(), begins.end(), row.example);
      buckets[std::size_t(after - begins.begin()) - 1].append(row.example, row.features, row.values,
                                                              row.times);
    }
    for (std::size_t i = 0; i < buckets.size(); ++i) order(buckets[i], begins[i], begins[i + 1]);
  }

  /// Orders the rows of examples [first, last), which are all in `bucket`.
  void order(RowSpill& bucket, Column first, Column last) {
    std::vector<Index> begin(std::size_t(last - first) + 1, 0);
    for (Column example = first; example < last; ++example) {
      const std::uint32_t count = table_.counts_[example];
      begin[example - first + 1] = begin[example - first] + (count == kAbsent ? 0 : count);
    }
    std::vector<Index> end(begin.begin(), begin.end() - 1);
    std::vector<Column> features(std::size_t(begin.back()));
    std::vector<float> values(table_.valued() ? features.size() : 0);
    std::vector<Microseconds> times(table_.timed() ? features.size() : 0);
    SpilledRow row;
    bucket.rewind();
    while (bucket.next(row)) {
      Index& to = end[row.example - first];
      if (repeated_ == RepeatedExamples::last) to = begin[row.example - first];
      std::copy(row.features.begin(), row.features.end(), features.begin() + to);
      std::copy(row.values.begin(), row.values.end(), values.begin() + (values.empty() ? 0 : to));
      std::copy(row.times.begin(), row.times.end(), times.begin() + (times.empty() ? 0 : to));
      to += Index(row.features.size());
    }
    for (Column example = first; example < last; ++example) {
      if (table_.counts_[example] == kAbsent) continue;
      const Index from = begin[example - first], to = end[example - first];
      features_.assign(features.begin() + from, features.begin() + to);
      if (!values.empty()) values_.assign(values.begin() + from, values.begin() + to);
      if (!times.empty()) times_.assign(times.begin() + from, times.begin() + to);
      write(example);
    }
  }

  /// Nothing is left of the order in which they came.
  void order_entries() {
    const auto key = [&](std::size_t i) {
      return std::tuple(features_[i], times_[i], values_.empty() ? 0.0f : values_[i]);
    };
    std::vector<std::size_t> order(features_.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::ranges::sort(order, {}, key);
    const auto ordered = [&order]<typename T>(const std::vector<T>& items) {
      std::vector<T> found;
      for (std::size_t i = 0; i < items.size(); ++i) found.push_back(items[order[i]]);
      return found;
    };
    features_ = ordered(features_);
    values_ = ordered(values_);
    times_ = ordered(times_);
  }

  void write(Column example) {
    if (table_.timed()) order_entries();
    const std::size_t repeated = cleaner_.clean(features_, values_, times_);
    if (repeated < features_.size()) {
      throw DataError(
          fmt::format("example \"{}\": the feature \"{}\" occurs twice; remove one, or "
                      "choose with `duplicates` sum or first",
                      names_.example(example), names_.feature(features_[repeated])));
    }
    ordered_.append(example, features_, values_, times_);
    table_.counts_[example] = std::uint32_t(features_.size());
    entries_ += Index(features_.size());
  }

  RowTable& table_;
  RepeatedExamples repeated_;
  RowCleaner& cleaner_;
  const RowNames& names_;
  RowSpill ordered_;
  Index entries_ = 0;
  std::vector<Column> features_;
  std::vector<float> values_;
  std::vector<Microseconds> times_;
};

void RowTable::finish(RepeatedExamples repeated, RowCleaner& cleaner, const RowNames& names,
                      Index bucket_entries) {
  if (!in_order_ || timed()) Regrouping(*this, repeated, cleaner, names).run(bucket_entries);
  in_order_ = true;
}

}  // namespace norn
