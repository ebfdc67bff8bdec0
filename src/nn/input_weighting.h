// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

/// How much the features of a sparse input count, by how rare they are in the training data. Each
/// is a small value type with
///   name, aliases       the words of JSON "InputWeighting": {"Scheme"} (without regard to case),
///   weight(count, n)    what the entries of a feature are multiplied by that `count` of n examples
///                       have, count from 0 to n.
/// docs/user/numerics.md has the formulas.
namespace norn {

struct NoWeighting {
  static constexpr std::string_view name = "None";
  static constexpr std::array<std::string_view, 0> aliases{};
  double weight(std::int64_t, std::int64_t) const { return 1.0; }
};

/// (ln((1 + n) / (1 + count)) + 1)^exponent: Sparck Jones, "A statistical interpretation of term
/// specificity and its application in retrieval", Journal of Documentation 28, 1972, smoothed as
/// scikit-learn does (TfidfTransformer, smooth_idf).
struct InverseDocumentFrequency {
  static constexpr std::string_view name = "InverseDocumentFrequency";
  static constexpr std::array<std::string_view, 1> aliases{"IDF"};
  float exponent = 1.0f;
  double weight(std::int64_t count, std::int64_t examples) const;
};

/// (n / max(1, count))^exponent.
struct InversePopularity {
  static constexpr std::string_view name = "InversePopularity";
  static constexpr std::array<std::string_view, 0> aliases{};
  float exponent = 0.5f;
  double weight(std::int64_t count, std::int64_t examples) const;
};

using InputWeighting = std::variant<NoWeighting, InverseDocumentFrequency, InversePopularity>;

inline bool weights_features(const InputWeighting& weighting) {
  return !std::holds_alternative<NoWeighting>(weighting);
}
/// Of the alternative at hand.
double feature_weight(const InputWeighting& weighting, std::int64_t count, std::int64_t examples);

}  // namespace norn
