// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

#include <cstdint>
#include <span>
#include <vector>

/// How sure means over examples are, and differences of two models on the same examples: what
/// would have come of other examples of the same kind is drawn from those that there are.
///
/// Intervals: percentile bootstrap (Efron, Tibshirani, "An Introduction to the Bootstrap", 1993).
/// Differences: the same over pairs (Koehn, "Statistical Significance Tests for Machine Translation
/// Evaluation", EMNLP 2004), and Fisher's randomisation test, two-sided, in which the two models
/// change places for a random half of the examples (Smucker, Allan, Carterette, CIKM 2007).
///
/// All are functions of the values and the seed: a draw is the Philox number of its round and
/// place.
namespace norn {

struct Resampling {
  double level = 0.95;  ///< share of the resampled means that lie in an interval; in (0, 1)
  Index resamples = 2000;
  std::uint64_t seed = 1;
  /// Examples are drawn in so many groups at most, each of examples at equal distances: of more
  /// examples a resample costs no more, and intervals are as wide.
  Index groups = 1 << 15;
};
inline constexpr Index kMostResamples = 100'000;

/// Both are NaN where there are fewer than two examples: nothing says how much they differ then.
struct Interval {
  double low = 0.0;
  double high = 0.0;
};

/// Of one metric of two models, a and b.
struct Difference {
  double a = 0.0;  ///< mean over the examples
  double b = 0.0;
  Interval interval;  ///< of the mean of b - a
  double p = 1.0;     ///< share of the random exchanges whose difference is as large, this one too
  int better = 0;     ///< -1: a, 1: b, 0: chance may have brought it, p > 1 - level
};

/// [examples] a metric of each; NaN: the example does not count.
using ExampleColumn = std::vector<double>;

/// [columns] of metrics of the same examples: each draw has the same examples of all. Throws
/// UsageError for columns of which not the same examples count.
std::vector<Interval> mean_intervals(std::span<const ExampleColumn> columns,
                                     const Resampling& resampling);

/// [columns] of the same metrics of two models. Of an example that counts for one of them alone the
/// other finds nothing: 0. Throws UsageError for other numbers of columns or examples.
std::vector<Difference> paired_differences(std::span<const ExampleColumn> a,
                                           std::span<const ExampleColumn> b,
                                           const Resampling& resampling);

}  // namespace norn
