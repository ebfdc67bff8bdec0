// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the stored targets of an Output layer count for, by the values of its data set: Hu, Koren,
/// Volinsky, "Collaborative filtering for implicit feedback datasets", ICDM 2008, where a weight is
/// called confidence. docs/user/numerics.md has the formulas.
namespace norn {

enum class EntryWeightScheme {
  none,    ///< values are targets
  value,   ///< v
  linear,  ///< 1 + alpha v
  log      ///< 1 + alpha ln(1 + v / epsilon)
};

struct EntryWeights {
  EntryWeightScheme scheme = EntryWeightScheme::none;
  float alpha = 1.0f;
  float epsilon = 1.0f;

  bool is_on() const { return scheme != EntryWeightScheme::none; }
  /// Of an entry of value v, v >= 0. Infinite where a float cannot hold it.
  float weight(float value) const;
  bool operator==(const EntryWeights&) const = default;
};

/// "Value", "Linear", "Log".
const char* name_of(EntryWeightScheme scheme);

}  // namespace norn
