// SPDX-License-Identifier: Apache-2.0
// Bootstrap and randomisation test over examples.
#include "src/engine/predict/certainty.h"

#include "norn/base/error.h"
#include "norn/base/fixed_point.h"
#include "src/base/philox.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace norn {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint32_t kDrawn = 0;      // member of the stream: which groups a resample has
constexpr std::uint32_t kExchanged = 1;  // in which groups the models change places
// Sums that are equal but for their roundings are taken for equal: a share of the terms' sizes.
constexpr double kRounding = 1e-12;

// Sums of all columns over the examples of each group.
struct Groups {
  std::size_t columns = 0;
  Index examples = 0;         // that count
  std::vector<double> sums;   // [groups x columns]
  std::vector<double> count;  // [groups] examples

  std::size_t size() const { return count.size(); }
  const double* row(std::size_t group) const { return sums.data() + group * columns; }
};

Groups grouped(std::span<const ExampleColumn> columns, Index most) {
  Groups all{columns.size(), 0, {}, {}};
  if (columns.empty()) return all;
  for (const double value : columns[0]) all.examples += !std::isnan(value);
  const auto groups = std::size_t(std::min(all.examples, most));
  all.sums.resize(groups * columns.size());
  all.count.resize(groups);
  std::size_t place = 0;
  for (std::size_t i = 0; i < columns[0].size(); ++i) {
    const bool counts = !std::isnan(columns[0][i]);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].size() != columns[0].size() || std::isnan(columns[c][i]) == counts)
        throw UsageError("the metrics are of other examples; evaluate all on the same ones");
      if (counts) all.sums[place * columns.size() + c] += columns[c][i];
    }
    if (!counts) continue;
    ++all.count[place];
    if (++place == groups) place = 0;
  }
  return all;
}

// The value below which a share of the sorted ones lies, linear between two.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * double(sorted.size() - 1);
  const auto low = std::size_t(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - double(low));
}

// `sums` [columns] become those of one resample. Returns how many examples it has.
double resample(const Groups& groups, const Philox& random, Index round,
                std::vector<double>& sums) {
  std::ranges::fill(sums, 0.0);
  double* const __restrict to = sums.data();
  double count = 0.0;
  Philox::Block block{};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i % 4 == 0) block = random.block(i / 4, std::uint64_t(round));
    const auto drawn = std::size_t(std::uint64_t(block.word[i % 4]) * groups.size() >> 32);
    const double* const __restrict row = groups.row(drawn);
    for (std::size_t c = 0; c < groups.columns; ++c) to[c] += row[c];
    count += groups.count[drawn];
  }
  return count;
}

// `sums` [columns] become those with the signs of random groups turned.
void exchange(const Groups& groups, const Philox& random, Index round, std::vector<double>& sums) {
  std::ranges::fill(sums, 0.0);
  double* const __restrict to = sums.data();
  Philox::Block block{};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i % 128 == 0) block = random.block(i / 128, std::uint64_t(round));
    const double sign = (block.word[i / 32 % 4] >> (i % 32) & 1u) != 0 ? -1.0 : 1.0;
    const double* const __restrict row = groups.row(i);
    for (std::size_t c = 0; c < groups.columns; ++c) to[c] += sign * row[c];
  }
}

std::vector<Interval> intervals_of(const Groups& groups, const Resampling& resampling) {
  std::vector<Interval> intervals(groups.columns, {kNone, kNone});
  if (groups.examples < 2) return intervals;
  const Philox random = Philox::stream(resampling.seed, RandomPurpose::resampling, kDrawn);
  std::vector<std::vector<double>> means(groups.columns);
  std::vector<double> sums(groups.columns);
  for (Index round = 0; round < resampling.resamples; ++round) {
    const double count = resample(groups, random, round, sums);
    for (std::size_t c = 0; c < groups.columns; ++c) means[c].push_back(sums[c] / count);
  }
  const double outside = (1.0 - resampling.level) / 2.0;
  for (std::size_t c = 0; c < groups.columns; ++c) {
    std::ranges::sort(means[c]);
    intervals[c] = {quantile(means[c], outside), quantile(means[c], 1.0 - outside)};
  }
  return intervals;
}

// [columns] of differences.
std::vector<double> p_values(const Groups& groups, const Resampling& resampling) {
  const Philox random = Philox::stream(resampling.seed, RandomPurpose::resampling, kExchanged);
  std::vector<double> least(groups.columns), sums(groups.columns), sizes(groups.columns);
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (std::size_t c = 0; c < groups.columns; ++c) {
      sums[c] += groups.row(i)[c];
      sizes[c] += std::abs(groups.row(i)[c]);
    }
  for (std::size_t c = 0; c < groups.columns; ++c)
    least[c] = std::abs(sums[c]) - kRounding * sizes[c];
  std::vector<double> as_large(groups.columns, 1.0);
  for (Index round = 0; round < resampling.resamples; ++round) {
    exchange(groups, random, round, sums);
    for (std::size_t c = 0; c < groups.columns; ++c) as_large[c] += std::abs(sums[c]) >= least[c];
  }
  for (double& p : as_large) p /= double(resampling.resamples + 1);
  return as_large;
}

// As RankingMetrics has it, to the bit.
double mean(const ExampleColumn& column) {
  FixedSum sum;
  Index count = 0;
  for (const double value : column) {
    if (std::isnan(value)) continue;
    sum.add(value);
    ++count;
  }
  return count == 0 ? kNone : sum.value() / double(count);
}

void check(const Resampling& resampling) {
  require(resampling.level > 0.0 && resampling.level < 1.0, "Resampling: a level is in (0, 1)");
  require(resampling.resamples >= 1 && resampling.resamples <= kMostResamples,
          "Resampling: from 1 to 100,000 resamples");
  require(resampling.groups >= 1, "Resampling: there is a group at least");
}

}  // namespace

std::vector<Interval> mean_intervals(std::span<const ExampleColumn> columns,
                                     const Resampling& resampling) {
  check(resampling);
  return intervals_of(grouped(columns, resampling.groups), resampling);
}

std::vector<Difference> paired_differences(std::span<const ExampleColumn> a,
                                           std::span<const ExampleColumn> b,
                                           const Resampling& resampling) {
  check(resampling);
  std::vector<Difference> found(a.size());
  std::vector<ExampleColumn> differences(a.begin(), a.end());
  for (std::size_t c = 0; c < a.size(); ++c) {
    if (a.size() != b.size() || a[c].size() != b[c].size())
      throw UsageError("the two are of other examples; evaluate both on the same ones");
    ExampleColumn ours = a[c], theirs = b[c];
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (std::isnan(ours[i]) && !std::isnan(theirs[i])) ours[i] = 0.0;
      if (std::isnan(theirs[i]) && !std::isnan(ours[i])) theirs[i] = 0.0;
      differences[c][i] = theirs[i] - ours[i];
    }
    found[c].a = mean(ours);
    found[c].b = mean(theirs);
  }
  const Groups groups = grouped(differences, resampling.groups);
  const std::vector<Interval> intervals = intervals_of(groups, resampling);
  const std::vector<double> p = p_values(groups, resampling);
  for (std::size_t c = 0; c < a.size(); ++c) {
    found[c].interval = intervals[c];
    found[c].p = p[c];
    if (p[c] <= 1.0 - resampling.level) found[c].better = found[c].b > found[c].a ? 1 : -1;
  }
  return found;
}

}  // namespace norn
