// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"

#include <cstdint>
#include <memory>
#include <vector>

/// Holding back a part of the data, to validate with what a network has not been trained on.
/// docs/user/validation.md says what is held back.
namespace norn {

/// user: whole examples, and of those some entries that are to be found; entry: entries of every
/// example.
enum class HoldOutBy { user, entry };

struct HoldOutRule {
  double share = 0.1;  ///< of the examples, or of each example's entries
  HoldOutBy by = HoldOutBy::user;
  std::uint64_t seed = 0;
};

/// The share of an example's entries that are to be found, when examples are held back.
constexpr double kSoughtOfUser = 0.2;

/// A data set, and what it is to the network.
struct HoldOutSet {
  std::shared_ptr<Dataset> set;
  bool is_input = true;
};

/// Views of the sets, in their order. They share the sets' contents, and not two of them may be
/// gathered from at a time.
struct HeldOutViews {
  std::vector<std::unique_ptr<Dataset>> training;
  /// Inputs hold what is known, targets everything.
  std::vector<std::unique_ptr<Dataset>> validation;
  /// By entry: the targets that were trained on.
  std::unique_ptr<Dataset> trained_targets;
};

/// The rule is applied to all sets together, which have the same examples. Entries are held back
/// from sparse sets that are as wide as set `target`. Every decision is a function of the rule, the
/// number of the example and its entries. Throws UsageError when there are too few examples.
HeldOutViews hold_out(const HoldOutRule& rule, const std::vector<HoldOutSet>& sets,
                      std::size_t target);

}  // namespace norn
